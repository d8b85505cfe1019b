"""The simulated world as one runner reaches it: what a dead runner asks for is not done."""

from __future__ import annotations

import asyncio
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, cast

from lifecycle.context.background_writer import BackgroundWriter
from runtime.branches import BranchMerge, PreparedMerge
from runtime.commands import CommandResult
from runtime.git.porcelain import ChangedFile, GitCommit, TreeStatus
from runtime.processes.activity import Activity
from runtime.processes.child import ProcessExit, StopReport
from runtime.workspace import Workspace
from runtime.workspaces.begun_merge import BegunMerge
from runtime.workspaces.saved_work import SavedCommit
from tests.lifecycle.engine.commits import Commits, Diffs
from tests.lifecycle.engine.simulated import BASE, KILL, TERM, Actor, Life, Space, World

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from communication.mailbox import Mailbox, MailboxReading
    from lifecycle.settings import Network
    from runtime.process import AgentProcess, SpawnOrder
    from runtime.processes.termination import ProcessIdentity
    from runtime.workspaces.rebuild import Rebuilt


class AtOnce(BackgroundWriter):
    """Writes everything at once, in a life that may end without closing anything."""

    def note(self, write: Callable[[], object]) -> None:
        write()


class Spaces:
    """Workspaces, as one runner sees them."""

    def __init__(self, world: World, life: Life) -> None:
        self._world, self._life = world, life

    async def prepare(self, agent_id: str, *, base: str | None = None) -> Workspace:
        self._life.checkpoint("before prepare")
        space = self._world.spaces.get(agent_id)
        if space is None:
            path = self._world.folder / "worktrees" / agent_id
            (path / ".git").mkdir(parents=True, exist_ok=True)
            made = Workspace(agent_id, path, f"agent/{agent_id}", base or BASE, "main")
            space = self._world.spaces[agent_id] = Space(made)
        self._life.checkpoint("after prepare")
        return space.workspace

    async def open(self, agent_id: str) -> Workspace | None:
        self._life.breathe()
        return space.workspace if (space := self._world.spaces.get(agent_id)) else None

    def _space(self, workspace: Workspace) -> Space:
        self._life.breathe()
        return self._world.spaces[workspace.agent_id]

    async def begin_merge(self, workspace: Workspace, commit: str) -> BegunMerge | None:
        self._space(workspace)
        return BegunMerge(commit, begun=True)

    async def move_on(self, workspace: Workspace, commit: str, base: str) -> Workspace | None:
        del commit, base
        self._space(workspace)
        return workspace

    async def unlock(self, workspace: Workspace) -> None:
        pass

    async def is_whole(self, workspace: Workspace) -> bool:
        self._life.breathe()
        return workspace.agent_id in self._world.spaces

    async def status(self, workspace: Workspace) -> TreeStatus:
        space = self._space(workspace)
        dirty = tuple(space.dirty)
        return TreeStatus(space.head, workspace.branch, dirty, (), f"{space.head}{dirty}")

    async def recent_commits(
        self, workspace: Workspace, limit: int = 10, *, head: str | None = None
    ) -> tuple[GitCommit, ...]:
        del limit, head
        self._space(workspace)
        return ()

    async def changed_files(
        self, workspace: Workspace, *, head: str | None = None, bases: Sequence[str] = ()
    ) -> tuple[ChangedFile, ...]:
        del head, bases
        files = self._space(workspace).files
        return tuple(ChangedFile(path, kind) for path, kind in sorted(files.items()))

    async def loose(
        self, workspace: Workspace, files: Sequence[ChangedFile]
    ) -> tuple[ChangedFile, ...]:
        del self, workspace, files
        return ()

    async def save_dirty(
        self, workspace: Workspace, attempt: int, *, reason: str
    ) -> SavedCommit | None:
        self._life.checkpoint("before save")
        space = self._space(workspace)
        if not space.dirty:
            return None
        ref = f"refs/loopwright/saved/{workspace.agent_id}/{attempt}"
        self._world.saved.setdefault(ref, []).extend(space.dirty)
        self._life.checkpoint("after save")
        return SavedCommit(ref, reason, tuple(space.dirty))

    async def rebuild(self, agent_id: str, attempt: int) -> Rebuilt | None:
        """Have nothing that git could not read."""
        del agent_id, attempt
        return None

    async def strip(self, workspace: Workspace, commit: str) -> bool:
        del commit
        return not self._space(workspace).dirty

    async def remove(self, agent_id: str, *, drop_branch: bool, attempt: int) -> SavedCommit | None:
        del drop_branch, attempt
        self._life.checkpoint("before remove")
        assert not [actor for actor in self._world.alive() if actor.agent_id == agent_id]
        self._world.spaces.pop(agent_id, None)
        self._life.checkpoint("after remove")
        return None


class Handle:
    """A process that one runner started; the actor lives on without it."""

    def __init__(self, actor: Actor, life: Life) -> None:
        self._actor, self._life = actor, life
        self.order = actor.order

    @property
    def identity(self) -> ProcessIdentity:
        return self._actor.identity

    limit_reached = ""
    weaker: tuple[str, ...] = ()

    async def wait(self) -> ProcessExit:
        await self._actor.ended.wait()
        self._life.breathe()
        return self._actor.how or ProcessExit(None, None)

    async def sweep(self, grace: float) -> StopReport:
        del grace
        return StopReport(await self.wait(), False, 0, ())  # noqa: FBT003  # a plain record

    async def stop(self, grace: float) -> StopReport:
        del grace
        self._life.checkpoint("before stop")
        self._actor.end(None, TERM)
        self._life.checkpoint("after stop")
        return StopReport(self._actor.how, False, 1, ())  # noqa: FBT003  # as above


class Terminals:
    """Processes, as one runner sees them."""

    def __init__(self, world: World, life: Life) -> None:
        self._world, self._life = world, life
        self._mine: list[Handle] = []

    async def spawn(self, order: SpawnOrder) -> AgentProcess:
        self._life.breathe()
        await asyncio.sleep(0)
        world = self._world
        if any(actor.agent_id == order.agent_id for actor in world.alive()):
            world.doubled.append(order.spawn_id)
        steps = world.steps_of(order)
        pid = 100 + len(world.actors)
        actor = Actor(order.spawn_id, order.agent_id, order.attempt, pid, order, deque(steps))
        assert order.spawn_id not in world.actors, "an order was performed twice under one id"
        world.actors[order.spawn_id] = actor
        order.log.parent.mkdir(parents=True, exist_ok=True)
        order.log.touch()
        world.living[actor] = None
        world.most_alive = max(world.most_alive, len(world.alive()))
        self._life.checkpoint("after the process was started")
        handle = Handle(actor, self._life)
        self._mine.append(handle)
        return cast("AgentProcess", handle)

    async def stop_identity(self, identity: ProcessIdentity, grace: float) -> StopReport:
        del grace
        self._life.checkpoint("before ending a stray")
        actor = self._world.actors.get(identity.mark)
        if actor is not None:
            actor.end(None, KILL)
        self._life.checkpoint("after ending a stray")
        return StopReport(None, True, 1, ())  # noqa: FBT003  # as above

    def find_marked(self, mark: str) -> tuple[ProcessIdentity, ...]:
        self._life.breathe()
        return tuple(actor.identity for actor in self._world.alive() if actor.mark == mark)

    def find_all_marked(self) -> tuple[ProcessIdentity, ...]:
        self._life.breathe()
        return tuple(actor.identity for actor in self._world.alive())

    def sample(self) -> Mapping[str, Activity]:
        self._life.breathe()
        # Whoever is not yet done with its script is at work, however long the world takes.
        return {actor.mark: Activity(int(self._world.now), 0, 1) for actor in self._world.alive()}

    def live(self) -> Sequence[AgentProcess]:
        return [cast("AgentProcess", each) for each in self._mine if self._is_alive(each)]

    def _is_alive(self, handle: Handle) -> bool:
        return self._world.actors[handle.identity.mark].alive

    async def aclose(self, grace: float = 10.0) -> None:
        for each in tuple(self._mine):
            if self._is_alive(each):
                await each.stop(grace)


class Subscription:
    """One attempt waiting for its word."""

    def __init__(
        self,
        world: World,
        mailbox: Mailbox,
        who: tuple[str, str | None, str | None],
        on_reading: Callable[[MailboxReading], None],
    ) -> None:
        self._world, self._mailbox, self._who, self._on_reading = world, mailbox, who, on_reading
        self._told = ""
        world.subscriptions.append(self)

    def check(self) -> MailboxReading:
        agent_id, spawn_id, task_id = self._who
        return self._mailbox.load().reading(agent_id, spawn_id=spawn_id, task_id=task_id)

    def look(self) -> None:
        reading = self.check()
        if reading.digest and reading.digest != self._told:
            self._told = reading.digest
            asyncio.get_running_loop().call_soon(self._on_reading, reading)

    def close(self) -> None:
        if self in self._world.subscriptions:
            self._world.subscriptions.remove(self)


class Watcher:
    """Hears of a word as soon as it is written."""

    def __init__(self, world: World) -> None:
        self._world = world

    def subscribe(
        self,
        mailbox: Mailbox,
        agent_id: str,
        *,
        spawn_id: str | None,
        task_id: str | None,
        on_reading: Callable[[MailboxReading], None],
    ) -> Subscription:
        who = (agent_id, spawn_id, task_id)
        subscription = Subscription(self._world, mailbox, who, on_reading)
        subscription.look()
        return subscription

    async def aclose(self) -> None:
        return None


class Branches:
    """The branches, as one runner sees them."""

    def __init__(self, world: World, life: Life) -> None:
        self._world, self._life = world, life
        self.history = Commits()
        self.diff = Diffs()

    async def head(self, branch: str) -> str | None:
        self._life.breathe()
        for space in self._world.spaces.values():
            if space.workspace.branch == branch:
                return space.head
        return BASE if branch == "main" else None

    async def merge(
        self, branch: str, into: str, *, message: str, expected_head: str | None = None
    ) -> BranchMerge:
        del into, message
        self._life.checkpoint("before merge")
        heads = [space.commits for space in self._world.spaces.values()]
        assert [expected_head] in [commits[-1:] for commits in heads]
        self._world.forge.merged_into_base.append(branch)
        self._life.checkpoint("after merge")
        return BranchMerge(merged=True, commit="merge-commit", conflicts=(), reason="")

    async def prepare(
        self, branch: str, into: str, *, message: str, expected_head: str | None = None
    ) -> PreparedMerge:
        del message
        self._life.checkpoint("before prepare")
        return PreparedMerge(branch, into, expected_head or "", BASE, commit="merge-commit")

    async def carry_out(self, prepared: PreparedMerge) -> BranchMerge:
        return await self.merge(
            prepared.branch, prepared.into, message="", expected_head=prepared.source
        )

    async def commit_exists(self, sha: str) -> bool:
        del sha
        return True

    async def agents(self) -> tuple[str, ...]:
        return ()

    async def fetched(self, branch: str) -> str | None:
        del branch
        return None

    async def is_conflicted(self, branch: str, into: str) -> tuple[str, ...]:
        del branch, into
        return ()

    async def is_contained(self, branch: str, into: str) -> bool:
        del branch, into
        return False

    async def held_by(self, commit: str) -> tuple[str, str] | None:
        del commit
        return None

    async def join(self, commits: tuple[str, ...], *, message: str) -> BranchMerge:
        del message
        return BranchMerge(merged=True, commit=commits[0], conflicts=(), reason="")


class Checkouts:
    """Judging checkouts of which nothing is ever read."""

    def __init__(self, life: Life) -> None:
        self._life = life

    def folder(self, name: str) -> Path:
        return Path("checkouts") / name

    async def lay_out(self, name: str, commit: str, *, keep: Collection[str] = ()) -> Path:
        del commit, keep
        self._life.checkpoint("before lay out")
        return self.folder(name)

    async def changed(self, name: str) -> tuple[str, ...]:
        del name
        return ()

    untracked = left = changed

    async def renew_git(self, name: str) -> None:
        del name

    async def pointers(
        self, name: str, commit: str, files: Collection[str], *, followed: bool = False
    ) -> tuple[str, ...]:
        del name, commit, files, followed
        return ()

    async def hold(self, name: str, files: Collection[str]) -> None:
        del name, files

    async def restore(self, name: str, commit: str, files: Collection[str]) -> None:
        del name, commit, files

    async def remove(self, name: str) -> None:
        del name


class NoPorts:
    """Gives nobody a range of ports."""

    def env_of(self, agent_id: str) -> dict[str, str]:
        del agent_id
        return {}

    def give_back(self, agent_id: str) -> None:
        del agent_id


class Commands:
    """Shell commands whose exit codes the world knows."""

    def __init__(self, world: World, life: Life) -> None:
        self._world, self._life = world, life

    async def run(  # noqa: PLR0913  # the form of the port
        self,
        command: str,
        *,
        cwd: Path,
        log: Path,
        timeout: float,  # noqa: ASYNC109  # as above
        env: Mapping[str, str] | None = None,
        mark: str,
        network: Network | None = None,
        fixed: tuple[Path, ...] = (),
        made: tuple[str, ...] | None = (),
    ) -> CommandResult:
        del cwd, timeout, env, mark, network, fixed, made
        self._life.checkpoint("before a command")
        await asyncio.sleep(0)
        code = self._world.gates.get(command, 0)
        self._life.checkpoint("after a command")
        return CommandResult(
            command=command, code=code, signal=None, timed_out=False, seconds=0.1, log=log,
            excerpt=f"{command} says {code}",
        )  # fmt: skip
