"""Carries out orders through the ports and answers with their results.

Knows no policy: it never looks at a counter or a limit, and what a result means is decided
elsewhere. Performing an order twice is harmless; `recovery` relies on it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from lifecycle.attempt.handout import snapshot_for, write_summary
from lifecycle.attempt.reclaim import reclaim
from lifecycle.attempt.reviewer import Reviewer
from lifecycle.attempt.sampling import AttemptSampler
from lifecycle.attempt.start import Starter
from lifecycle.attempt.watch import AttemptWatch, no_budget
from lifecycle.context.files import drop_config
from lifecycle.errors import PlanError
from lifecycle.judging.gates import GateRunner
from lifecycle.judging.merge import Merger
from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.events import Fault
from lifecycle.machine.states import (
    Capturing,
    Process,
)
from lifecycle.perform import ci
from lifecycle.perform.blockers import named
from lifecycle.perform.dependencies import join
from lifecycle.perform.removal import remove_all
from lifecycle.projection import head_now
from lifecycle.setup.agent_workspace import look_once, look_up, mailbox_of, opened, save, whole
from lifecycle.setup.setup import SettingUp
from lifecycle.shortage_retry import fault_of, patiently, put_off, text_of
from lifecycle.working_copy import BranchHead
from runtime.agents.outcome import Ending
from runtime.errors import CheckedOutError, RuntimeFault, WorkspaceError
from runtime.logs.files import tail
from runtime.shortage import shortage_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lifecycle.base_commits import StartingPoint
    from lifecycle.machine.budget import Spent
    from lifecycle.machine.effects import Effect
    from lifecycle.machine.events import Event
    from lifecycle.services import MachineServices
    from lifecycle.working_copy import LocalCopy
    from runtime.git.porcelain import TreeStatus
    from runtime.workspace import Workspace
    from runtime.workspaces.rebuild import Rebuilt

LAST_WORDS_BYTES = 2000
FILES_NAMED = 200
CODE_BYTES = 32 * 1024
"""Of the one file of a work that is recorded whole."""
LOOSE = (
    "{name} (it is a git repository of its own, so its files are in no commit of this branch: "
    "remove {name}/.git, then `git rm --cached {name}` and add its files; or make it a submodule "
    "and push its commit)"
)


class Performer:
    """Performs the orders of all lifecycles of one repository."""

    def __init__(self, machine: MachineServices, sampler: AttemptSampler | None = None) -> None:
        """Performers on one machine may share what measures its agents."""
        self._machine, self._shared = machine, machine.shared
        self._setting_up = SettingUp(machine)
        self._gates = GateRunner(machine, self._setting_up)
        self._reviewer = Reviewer(machine, self._setting_up)
        self._merger = Merger(machine, self._gates)
        self._sampler = sampler or sampler_of(machine)
        self._starter = Starter(machine, self._setting_up, self._sampler)
        self._watches: dict[str, AttemptWatch] = {}
        self._ends = False
        """Nobody waits for room on the machine any more."""

    async def perform(
        self,
        local: LocalCopy,
        effect_id: str,
        effect: Effect,
        emit: Callable[[Event], None],
        afford: Callable[[Spent], str] = no_budget,
    ) -> Event | None:
        """Carry out one order; None when nothing needs to be told.

        What the machine has no room for is put off, whatever it was that could not be started.
        """

        async def act() -> Event | None:
            try:
                return await self._act(local, effect_id, effect, emit, afford)
            except Exception as error:
                later = (
                    put_off(effect_id, effect, self._now(), error) if shortage_of(error) else None
                )
                if later is None:
                    raise
                return later

        return await patiently(act, self._shared.report, agent_id=local.agent_id)

    async def _act(  # noqa: C901, PLR0911  # one line per order reads best
        self,
        local: LocalCopy,
        effect_id: str,
        effect: Effect,
        emit: Callable[[Event], None],
        afford: Callable[[Spent], str],
    ) -> Event | None:
        match effect:
            case do.PrepareWorkspace() as order:
                return await self._prepare(local, effect_id, order)
            case do.SpawnAgent() as order:
                return await self._spawn(local, effect_id, order, emit, afford)
            case do.StopAgent(attempt=attempt, process=process):
                return await self._stop(local, attempt, process)
            case do.FreezeAgent(attempt=attempt):
                return await self._freeze(local, attempt)
            case do.ThawAgent(attempt=attempt):
                await self._thaw(local, attempt)
                return None
            case do.TakeSnapshot() as order:
                return await self._capture(local, order)
            case do.RunGates(attempt=attempt, head=head):
                return await self._gates.run(local, effect_id, attempt, head)
            case do.RunReview() as order:
                return await self._reviewer.run(local, effect_id, order, afford)
            case do.MergeBranch() as order:
                return await self._merger.merge(local, effect_id, order)
            case do.RemoveWorkspace():
                return await self._remove(local)
            case _:
                return await ci.perform(self._machine, local, effect)

    def break_off(self) -> None:
        """Do not continue what takes long and can be done by the next runner."""
        self._ends = True
        self._merger.break_off()

    def attempt_watch(self, agent_id: str) -> AttemptWatch | None:
        """Return the watch on the agent's living process, if it has one."""
        return self._watches.get(agent_id)

    def let_go(self, agent_id: str) -> AttemptWatch | None:
        """Look at the agent's process no more; return what did."""
        watch = self._watches.pop(agent_id, None)
        if watch is not None:
            watch.close()
            self._sampler.drop(watch)
        return watch

    async def reclaim(
        self, local: LocalCopy, attempt: int, marks: tuple[str, ...]
    ) -> on.RunnerRestarted:
        """Make sure that nothing of a lost attempt is alive; return what it left to say."""
        return await reclaim(self._machine, local, attempt, marks)

    async def write_summary(self, local: LocalCopy) -> Path:
        """Render the summary for the next attempt now, so that people can read it."""
        workspace = await whole(self._machine, local)
        await look_once(self._machine, local, workspace)
        mailbox = mailbox_of(self._machine, local, workspace)
        settings = self._shared.settings()
        snapshot = snapshot_for(self._machine, local, mailbox, local.attempt, settings)
        return write_summary(self._machine, local, local.attempt, snapshot)

    # --- workspace ----------------------------------------------------------------------------

    async def _prepare(self, local: LocalCopy, effect_id: str, order: do.PrepareWorkspace) -> Event:
        attempt = order.attempt
        if order.join:
            return await join(self._machine, local, attempt, order.join)
        try:
            start = await self._shared.base_commits.start_of(local.task)
            if start.merge and self._shared.settings().on_conflict == "ask":
                return self._apart(local, attempt, start)
            target = await self._shared.base_commits.target_of(local.task)
            workspace = await self._machine.workspaces.prepare(local.agent_id, base=start.commit)
            local.workspace = workspace
            head = workspace.base_commit
            await self._setting_up.workspace(local, effect_id, 0, workspace, head)
            baseline, digest = await self._gates.baseline(local, effect_id, workspace)
        except (RuntimeFault, PlanError) as error:
            users = isinstance(error, (WorkspaceError, PlanError))
            waits = isinstance(error, CheckedOutError)  # until somebody has seen enough of it
            fault = fault_of(error, Fault.USER if users and not waits else Fault.ENVIRONMENT)
            text = text_of(error)
            return on.WorkspaceFailed(at=self._now(), attempt=attempt, text=text, fault=fault)
        except OSError as error:
            return on.WorkspaceFailed(
                at=self._now(), attempt=attempt, text=text_of(error), fault=fault_of(error)
            )
        return on.WorkspaceReady(
            at=self._now(),
            attempt=attempt,
            branch=workspace.branch,
            base_commit=workspace.base_commit,
            base_branch=workspace.base_branch or target,
            path=str(workspace.path),
            baseline=baseline,
            digest=digest,
            notes=workspace.notes,
            merge=start.merge,
            on_top_of=start.tasks,
        )

    def _apart(self, local: LocalCopy, attempt: int, start: StartingPoint) -> Event:
        text = (
            f"the work that {local.task.id} depends on cannot be joined: {start.why}; accept one "
            f"of the dependencies and resolve the conflict there, then `loopwright resume "
            f"{local.agent_id}`"
        )
        return on.WorkspaceFailed(
            at=self._now(), attempt=attempt, text=text, fault=Fault.USER, conflicts=start.conflicts
        )

    async def look_at_branch(self, local: LocalCopy) -> None:
        """Learn which commits the branch holds, where CI may report on one of them."""
        workspace = await opened(self._machine, local) if self._shared.ci is not None else None
        if workspace is not None:
            await look_once(self._machine, local, workspace)

    async def _remove(self, local: LocalCopy) -> Event:
        try:
            saved = await remove_all(self._machine, local.agent_id, local.attempt)
        except (RuntimeFault, OSError) as error:
            if shortage_of(error) and not self._ends:
                raise
            return on.WorkspaceRemoved(at=self._now(), problem=str(error))
        local.workspace = None
        return on.WorkspaceRemoved(at=self._now(), saved_ref=saved.ref if saved else "")

    # --- the agent ----------------------------------------------------------------------------

    async def _spawn(
        self,
        local: LocalCopy,
        effect_id: str,
        order: do.SpawnAgent,
        emit: Callable[[Event], None],
        afford: Callable[[Spent], str],
    ) -> Event:
        event, watch = await self._starter.start(local, effect_id, order, emit, afford)
        if watch is not None:
            self._watches[local.agent_id] = watch
        return event

    async def _stop(self, local: LocalCopy, attempt: int, process: Process) -> Event:
        grace = self._shared.settings().stop_grace
        watch = self._watches.get(local.agent_id)
        # What cannot be saved now is saved by the snapshot; the agent must end all the same.
        with contextlib.suppress(RuntimeFault, OSError):
            workspace = await opened(self._machine, local)
            if workspace is not None:
                if watch is not None and watch.process.order.sandbox is not None:
                    # While it moves, it could lead our git out of what it is shut into.
                    await watch.process.suspend()
                await save(self._machine, workspace, attempt, "before the agent was stopped")
        if watch is not None and watch.process.identity.mark == process.spawn_id:
            return await watch.stop(grace)
        lost = await reclaim(self._machine, local, attempt, (process.spawn_id,))
        return on.AgentStopped(
            at=self._now(), attempt=attempt, spawn_id=process.spawn_id, word=lost.word
        )

    async def _freeze(self, local: LocalCopy, attempt: int) -> Event | None:
        watch = self._watches.get(local.agent_id)
        if watch is None or watch.attempt != attempt:
            return None
        try:
            await watch.freeze()
        except RuntimeFault as error:
            mark = watch.process.identity.mark
            return on.FreezeFailed(at=self._now(), attempt=attempt, spawn_id=mark, text=str(error))
        return None

    async def _thaw(self, local: LocalCopy, attempt: int) -> None:
        watch = self._watches.get(local.agent_id)
        if watch is not None and watch.attempt == attempt:
            await watch.thaw()

    # --- what it left -------------------------------------------------------------------------

    async def _capture(self, local: LocalCopy, order: do.TakeSnapshot) -> Event:
        attempt = order.attempt
        watch = self.let_go(local.agent_id)
        drop_config(self._machine.paths.config(local.agent_id, attempt))
        try:
            try:
                return await self._work_left(local, order, watch)
            except (RuntimeFault, OSError) as error:
                if shortage_of(error):
                    raise
                # Only where nothing else is wrong: it raises the same where git or the disk fails.
                rebuilt = await self._machine.workspaces.rebuild(local.agent_id, attempt)
                if rebuilt is None:
                    raise
                local.workspace, local.head = None, BranchHead()
                return await self._work_left(local, order, watch, rebuilt)
        except (RuntimeFault, OSError) as error:
            return on.SnapshotFailed(
                at=self._now(),
                attempt=attempt,
                spawn_id=order.spawn_id,
                text=text_of(error),
                fault=fault_of(error),
            )

    async def _work_left(
        self,
        local: LocalCopy,
        order: do.TakeSnapshot,
        watch: AttemptWatch | None,
        rebuilt: Rebuilt | None = None,
    ) -> Event:
        """Look what an attempt left, and save what is in no commit."""
        attempt, before = order.attempt, local.workspace
        workspace = await whole(self._machine, local)
        again = workspace.notes if workspace is not before else ()
        await self._machine.workspaces.unlock(workspace)
        status = await self._machine.workspaces.status(workspace)
        if status.unreadable:
            raise WorkspaceError(f"git cannot read {workspace.path}: {status.unreadable}")
        saved, notes = (rebuilt.saved_ref, rebuilt.notes) if rebuilt else ("", again)
        if status.dirty or status.hidden:
            ref, left_out = await save(self._machine, workspace, attempt, "end of attempt")
            saved, notes = ref or saved, (*notes, *left_out)
        commits = await self._look_up(local, workspace, status, watch)
        elsewhere = await self._elsewhere(workspace, status)
        # Nothing shows as changed there, and yet its files would be in no commit that merges.
        loose = await self._machine.workspaces.loose(workspace, local.head.files)
        branch = await self._machine.branches.head(workspace.branch) if elsewhere else ""
        await self._note_work(local, workspace, (status.head, saved, branch or ""))
        blockers = await named(self._machine, local, order.blocked_on, status.head)
        return on.SnapshotTaken(
            at=self._now(),
            attempt=attempt,
            spawn_id=order.spawn_id,
            head=status.head,
            tree=status.fingerprint,
            dirty=(*(LOOSE.format(name=file.path) for file in loose), *status.dirty)[:FILES_NAMED],
            changed_files=tuple(file.path for file in local.head.files[:FILES_NAMED]),
            commits=commits,
            saved_ref=saved,
            last_words=self._last_words(local, attempt, watch),
            elsewhere=elsewhere,
            blocked_on=blockers.blocked_on,
            tasks=blockers.tasks,
            joined=blockers.joined,
            notes=notes,
            code=await self._code(local, status.head),
        )

    async def _code(self, local: LocalCopy, head: str) -> str:
        """Return the one file that finished work consists of, if it is short enough to be kept."""
        work, files = local.record.work, local.head.files
        word = work.outcome.word if isinstance(work, Capturing) else None
        if word is None or word.type != "task_complete" or len(files) != 1:
            return ""
        history = self._machine.branches.history
        return await history.text_of(head, files[0].path, CODE_BYTES) or ""

    async def _note_work(
        self, local: LocalCopy, workspace: Workspace, tips: tuple[str, ...]
    ) -> None:
        """Have it noted what was committed, and what was saved, before anybody can merge it."""
        # As recorded: the ref beside the branch is in reach of the agent.
        base = str(local.record.facts.get("base_commit") or workspace.base_commit)
        into = str(local.record.facts.get("base_branch") or workspace.base_branch or "")
        # What others brought there in the meantime is not its own, also if it has taken that up.
        since = (base, f"refs/heads/{into}") if into else (base,)
        if self._machine.work_watch is not None and any(tip not in ("", base) for tip in tips):
            await self._machine.work_watch.captured(
                self._shared.store, local.agent_id, since, tuple(filter(None, tips))
            )

    async def _elsewhere(self, workspace: Workspace, status: TreeStatus) -> str:
        """Say where the agent went if its commits are not on its branch, from where they merge."""
        if status.branch == workspace.branch:
            return ""
        if await self._machine.branches.head(workspace.branch) == status.head:
            return ""
        where = f"branch {status.branch}" if status.branch else "a detached HEAD"
        return f"{where}, not on {workspace.branch}"

    async def _look_up(
        self,
        local: LocalCopy,
        workspace: Workspace,
        status: TreeStatus,
        watch: AttemptWatch | None,
    ) -> int:
        """Remember where the workspace stands; return how many commits the attempt made."""
        machine = self._machine
        await look_up(machine.workspaces, machine.branches, local, workspace, status)
        before = _head_before(local, watch)
        shas = [commit.sha for commit in local.head.commits]
        return shas.index(before) if before in shas else len(shas) * (before != status.head)

    def _last_words(self, local: LocalCopy, attempt: int, watch: AttemptWatch | None) -> str:
        told = watch.report if watch is not None else None
        if told is None and local.ledger and local.ledger[-1].attempt == attempt:
            told = local.ledger[-1].report
        if told is not None and told.last_words:
            return told.last_words[-LAST_WORDS_BYTES:]
        work = local.record.work
        spoke = isinstance(work, Capturing) and work.outcome.ended is Ending.BREAKPOINT
        if spoke:
            return ""
        return tail(self._machine.paths.log(local.agent_id, attempt), LAST_WORDS_BYTES)

    def _now(self) -> float:
        return self._shared.clock.now()


def sampler_of(machine: MachineServices) -> AttemptSampler:
    """Return what measures the agents of a machine."""
    shared = machine.shared
    return AttemptSampler(machine.terminals, shared.clock, machine.sample_interval, shared.report)


def _head_before(local: LocalCopy, watch: AttemptWatch | None) -> str:
    """Return where the attempt began; its own row may not be written yet."""
    last = local.ledger[-1] if local.ledger else None
    if watch is not None and (last is None or last.spawn_id != watch.process.identity.mark):
        return head_now(last, local.record)
    return last.head_before if last is not None else ""
