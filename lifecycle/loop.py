"""The loop as a library: build it from its parts, run an agent on a task, get a result.

Joins what a caller hands over with what he does not care about (store, watcher, templates). Holds
the repository's lock while it runs; decides nothing itself.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from communication.watcher import MailboxWatcher
from lifecycle.accounts import Accounts
from lifecycle.bases import Bases
from lifecycle.budgetcheck import require_counted
from lifecycle.clock import Clock, SystemClock
from lifecycle.confine import ConfinedCommands, Confiner
from lifecycle.context import ContextBuilder
from lifecycle.engine import Engine
from lifecycle.errors import LifecycleError
from lifecycle.joints import surroundings
from lifecycle.judging.right_code import finder, made_in
from lifecycle.parts import Parts, logged
from lifecycle.paths import Paths
from lifecycle.places import Places
from lifecycle.programs import here
from lifecycle.result import LoopResult, LoopResultType
from lifecycle.rounds import Rounds
from lifecycle.setting_up.builds import BuildSetups
from lifecycle.settings import Settings
from lifecycle.shortfall import patiently
from lifecycle.store.ground import Ground
from lifecycle.store.lock import RunnerLock
from lifecycle.store.lost import refuse_lost
from lifecycle.store.sqlite import SqliteStore
from runtime.checkouts import JudgingCheckouts
from runtime.commands import CommandRunner
from runtime.pool import provide
from runtime.room import room_for_agents
from runtime.scratch import sweep
from runtime.setup.facts import SetupFacts
from runtime.setup.portslots import PortSlots
from runtime.workspace import WorkspaceManager
from runtime.worktrees_dir import JUDGING, default_worktrees_dir
from templates.renderer import Renderer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection

    from ci.events import CIEvent
    from ci.interface import CIProvider, Remote
    from lifecycle.parts import Observer, Report
    from lifecycle.plan import Agent, Allowance, Plan, Task
    from lifecycle.ports import Branches, Checkouts, Workspaces, WorkWatch
    from lifecycle.store.port import LifecycleStore
    from runtime.process import TerminalManager
    from runtime.room import Room

__all__ = ["AgentLifecycleLoop", "LoopResult", "LoopResultType"]


class AgentLifecycleLoop:
    """Runs agents in fresh processes, attempt after attempt, until their task is truly done.

    One object serves any number of agents at once. `settings` may be a function, which is then
    asked again for each decision; `max_retries` and its like, where given, come before it, and
    `max_retries` is kept to exactly (see the setting). `who` is named to other runners that want
    the repository; without `comm_file_path` each agent has its communications.json in its
    workspace. A provider that works with a forge needs its `remote`. Without `report` what people
    should know goes to the logger "loopwright".
    """

    def __init__(  # noqa: PLR0913  # the interface that users know
        self,
        *,
        repo_dir: Path,
        plan: Plan,
        ci_provider: CIProvider | None,
        terminal_manager: TerminalManager,
        branch_manager: Branches,
        workspace_manager: Workspaces,
        comm_file_path: Path | None = None,
        max_retries: int | None = None,
        retry_interval: float | None = None,
        store: LifecycleStore | None = None,
        clock: Clock | None = None,
        settings: Settings | Callable[[], Settings] | None = None,
        who: str | None = None,
        observers: tuple[Observer, ...] = (),
        report: Report | None = None,
        checkpoint: Callable[[str], None] | None = None,
        checkouts: Checkouts | None = None,
        remote: Remote | None = None,
        work_watch: WorkWatch | None = None,
        held_files: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        self.repo_dir = repo_dir.resolve()
        self.plan = plan
        self._given_store = store
        self._clock = clock or SystemClock()
        self._ci = ci_provider
        self._terminals = terminal_manager
        self._masker = terminal_manager.masker
        self._branches = branch_manager
        self._workspaces = workspace_manager
        self._comm_file = comm_file_path
        self._settings = _reader(settings, max_retries, retry_interval)
        self._paths = Paths.of(self.repo_dir)
        self._lock = RunnerLock(self._paths.root, who=who)
        self._observers = observers
        self._report = report or logged
        self._checkpoint = checkpoint
        self._remote = remote
        self._checkouts: Checkouts = checkouts or _checkouts(self.repo_dir, workspace_manager)
        self._work_watch = work_watch
        self._held_files = held_files
        self._opening = asyncio.Lock()
        self._engine: Engine | None = None
        self._store: LifecycleStore | None = None
        self._users = 0

    async def run_agent_loop(self, agent: Agent, task: Task) -> LoopResult:
        """Run until the lifecycle ends; one recorded before for agent and task goes on.

        PlanError, before anything is begun, where a budget cannot hold one of its programs.
        """
        require_counted(agent, self._settings(), task.budget, self._budget_of_plan(task))
        engine = await self._open()
        try:
            result = await engine.run(agent, task)
            engine.require_ground()
            return result
        finally:
            await self._leave()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Engine]:
        """Hold the repository and listen, also while nothing runs."""
        engine = await self._open()
        try:
            yield engine
            engine.require_ground()
        finally:
            await self._leave()

    async def notify(self, event: CIEvent) -> None:
        """Take a CI event that does not come from the provider."""
        self._running().notify(event)

    async def shutdown(self) -> None:
        """End all loops with SHUTDOWN: agents stopped, dirty work saved, records resumable."""
        engine = self._engine
        if engine is None:
            # Whoever is just opening must hear of it too.
            async with self._opening:
                engine = self._engine
        if engine is not None:
            await engine.shutdown()

    async def recover_agents(self) -> tuple[str, ...]:
        """Bring to safety what a crashed runner left in the middle; returns whom."""
        engine = await self._open()
        try:
            return await engine.recover_agents()
        finally:
            await self._leave()

    async def cleanup_agent(self, agent_id: str) -> None:
        """Remove an agent's workspace and branch; unmerged work stays under a ref. Idempotent."""
        engine = await self._open()
        try:
            await engine.cleanup_agent(agent_id)
        finally:
            await self._leave()

    @property
    def engine(self) -> Engine:
        """The engine while something runs, for those who watch it."""
        return self._running()

    def _running(self) -> Engine:
        if self._engine is None:
            raise LifecycleError("nothing runs; call run_agent_loop first")
        return self._engine

    def _budget_of_plan(self, task: Task) -> Allowance | None:
        mine = any(each.id == task.id for each in self.plan.tasks)
        return self.plan.budget if mine else None

    async def _open(self) -> Engine:
        async with self._opening:
            self._users += 1
            if self._engine is None:
                try:
                    self._engine = await self._build()
                    await self._engine.start()
                except BaseException:
                    self._users -= 1
                    await self._close()
                    raise
            return self._engine

    async def _leave(self) -> None:
        async with self._opening:
            self._users -= 1
            if self._users == 0:
                await self._close()

    async def _close(self) -> None:
        engine, self._engine = self._engine, None
        try:
            if engine is not None:
                await engine.aclose()
            if self._store is not None and self._given_store is None:
                await self._store.aclose()
        finally:
            self._store = None
            self._lock.release()

    async def _own_store(self) -> LifecycleStore:
        database = self._paths.database
        await refuse_lost(database, self._branches)
        return await SqliteStore.open(database, clock=self._clock.now)

    async def _build(self) -> Engine:
        provide()
        report = self._report
        await patiently(self._take, report)
        await asyncio.to_thread(sweep)
        store = self._given_store
        if store is None:
            store = await patiently(self._own_store, report)
        self._store = store
        confiner = Confiner(
            self.repo_dir,
            self._paths.root,
            home=Path.home(),
            path=os.environ.get("PATH", ""),
            report=self._given_weaker,
        )
        commands = ConfinedCommands(CommandRunner(self._terminals), confiner, self._settings)
        look = finder(self.repo_dir, self._paths, self._terminals, self._settings)
        settings = self._settings
        room = self._room()
        places = Places(lambda: min(settings().max_live_agents, room.agents))
        parts = Parts(
            repo=self.repo_dir,
            paths=self._paths,
            store=store,
            clock=self._clock,
            settings=settings,
            workspaces=self._workspaces,
            terminals=self._terminals,
            branches=self._branches,
            checkouts=self._checkouts,
            commands=commands,
            setup_facts=SetupFacts(self.repo_dir),
            ports=PortSlots(self._paths.ports),
            watcher=MailboxWatcher(
                poll_interval=settings().breakpoint_check_interval, polls_only=room.tight
            ),
            rounds=Rounds(self._terminals, self._clock, report=report),
            builder=ContextBuilder(
                Renderer(
                    self._paths.templates,
                    nonce=lambda: token_hex(16),
                    mask=self._masker.mask,
                )
            ),
            places=places,
            bases=Bases(store, self._branches),
            confiner=confiner,
            accounts=Accounts(store, self._clock, freed=places.serve),
            other_code=look,
            held_files=self._held_files,
            withheld=self._terminals.withheld,
            around=here(),
            ci=self._ci,
            masker=self._masker,
            comm_file=self._comm_file,
            work_watch=self._work_watch,
            observers=list(self._observers),
            plans={task.id: self.plan.mark() for task in self.plan.tasks},
        )
        if self._ci is not None:
            self._ci.bind(
                surroundings(
                    branches=self._branches,
                    checkouts=self._checkouts,
                    commands=commands,
                    store=store,
                    now=self._clock.now,
                    folder=self._paths.ci,
                    terminals=self._terminals,
                    other_code=look,
                    made=partial(made_in, self._paths),
                    call_at=self._clock.call_at,
                    remote=self._remote,
                    masker=self._masker,
                    against_unasked=self._against(store),
                    builds=BuildSetups(parts),
                )
            )
        if self._given_store is None:
            parts.gone = Ground.of(self._paths.database).gone
        parts.report = self._report
        if self._checkpoint is not None:
            parts.checkpoint = self._checkpoint
        return Engine(parts)

    async def _take(self) -> None:
        self._paths.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock.acquire()

    def _room(self) -> Room:
        """Return how many agents the machine has room for; says so where it is too few."""
        wanted = self._settings().max_live_agents
        room = room_for_agents()
        if room.agents < wanted:
            self._report("machine_small", agents=room.agents, wanted=wanted, reason=room.why)
        return room

    def _against(self, store: LifecycleStore) -> Callable[[str, str], Awaitable[str]] | None:
        return None if self._work_watch is None else partial(self._work_watch.against, store)

    def _given_weaker(self, what: str) -> None:
        self._report("isolation_weaker", reason=what)


def _checkouts(repo: Path, workspaces: Workspaces) -> JudgingCheckouts:
    """Return judging checkouts beside the workspaces, out of the user's tree."""
    if isinstance(workspaces, WorkspaceManager):
        return JudgingCheckouts(repo, root=workspaces.root / JUDGING)
    return JudgingCheckouts(repo, root=default_worktrees_dir(repo) / JUDGING)


def _reader(
    settings: Settings | Callable[[], Settings] | None,
    max_retries: int | None,
    retry_interval: float | None,
) -> Callable[[], Settings]:
    names = {"max_retries": max_retries, "retry_interval": retry_interval}
    given = {name: value for name, value in names.items() if value is not None}
    checked = Settings.model_validate(given).model_dump(include=set(given))

    def joined(read: Settings) -> Settings:
        if not given:
            return read
        told = read.model_copy(update=checked)
        # What `told` counts as set is what the settings set, and what was given here.
        return told if max_retries is None else told.naming_retries(checked["max_retries"])

    if settings is None or isinstance(settings, Settings):
        fixed = joined(settings or Settings())
        return lambda: fixed
    return lambda: joined(settings())
