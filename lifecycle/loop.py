"""The loop as a library: build it from its parts, run an agent on a task, get a result.

Joins what a caller hands over with what he does not care about (store, watcher, templates). Holds
the repository's lock while it runs; decides nothing itself.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Self

from ci.events import CIEvent
from lifecycle.admission.budgets import Accounts
from lifecycle.admission.slots import Slots
from lifecycle.admission.unenforceable_budgets import require_counted
from lifecycle.base_commits import BaseCommits, CommitWatch
from lifecycle.clock import Clock, SystemClock
from lifecycle.engine.ci_ports import provider_ports
from lifecycle.engine.early_events import EarlyEvents
from lifecycle.engine.engine import LocalEngine
from lifecycle.engine.loop_parts import (
    SETTINGS_TOO,
    as_plan,
    checkouts_beside,
    local_ci,
    path_of,
    require_kind,
    require_repository,
    settings_reader,
)
from lifecycle.engine.open_lifecycle import accepted_before
from lifecycle.engine.owners import LocalOwners
from lifecycle.errors import ArgumentError, LifecycleError
from lifecycle.machine import events as on
from lifecycle.paths import Paths
from lifecycle.perform.machine_parts import RealParts, machine_services
from lifecycle.plan import Agent, Plan, Task
from lifecycle.reporting import logged
from lifecycle.result import LoopResult, LoopResultType, telling_unblock
from lifecycle.services import SharedServices, pass_by
from lifecycle.shortage_retry import patiently
from lifecycle.store.lock import BUSY_PAUSE, RunnerLock
from lifecycle.store.lost_files import LostFilesCheck
from lifecycle.store.lost_records import refuse_lost
from lifecycle.store.sqlite.store import SqliteStore
from runtime.branches import BranchManager
from runtime.capacity import room_for_agents
from runtime.process import TerminalManager
from runtime.temp_folders import sweep
from runtime.thread_pool import provide
from runtime.workspace import WorkspaceManager
from runtime.workspaces.worktrees_dir import worktrees_dir

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Sequence
    from pathlib import Path

    from ci.interface import CIProvider
    from ci.ports import Remote
    from lifecycle.engine.owners import Owners
    from lifecycle.perform.performer import Performer
    from lifecycle.plan import Allowance
    from lifecycle.ports import Branches, Checkouts, Workspaces
    from lifecycle.record import AgentLifecycle
    from lifecycle.reporting import Observer, Report
    from lifecycle.services import MachineServices
    from lifecycle.settings import Settings
    from runtime.capacity import Room

__all__ = ["AgentLifecycleLoop", "LoopResult", "LoopResultType"]

MOST_EARLY = 1000
"""Events kept of those that were handed in before anybody waits for them."""
CALLER = "the caller"
"""Who unblocks, as the audit and the next summary name it."""


class AgentLifecycleLoop:
    """Runs agents in fresh processes, attempt after attempt, until their task is truly done.

    One object serves any number of agents at once. `plan` may be a plan, a list of tasks or one
    task; without tasks it is held to none. `settings` may be a dict, or a function, which is then
    asked again for each decision; `max_retries` and its like, where given, come before it, and
    `max_retries` is kept to exactly (see the setting). `who` is named to other runners that want
    the repository; without `comm_file_path` each agent has its communications.json in its
    workspace. A provider that works with a forge needs its `remote`. Without `report` what people
    should know goes to the logger "loopwright".
    """

    def __init__(  # noqa: PLR0913  # the interface that users know
        self,
        *,
        repo_dir: Path | str,
        plan: Plan | Sequence[Task] | Task | None,
        ci_provider: CIProvider | None,
        terminal_manager: TerminalManager,
        branch_manager: Branches,
        workspace_manager: Workspaces,
        comm_file_path: Path | str | None = None,
        max_retries: int | None = None,
        retry_interval: float | None = None,
        store: SqliteStore | None = None,
        clock: Clock | None = None,
        settings: Settings | dict[str, Any] | Callable[[], Settings | dict[str, Any]] | None = None,
        who: str | None = None,
        observers: tuple[Observer, ...] = (),
        report: Report | None = None,
        checkpoint: Callable[[str], None] | None = None,
        checkouts: Checkouts | None = None,
        remote: Remote | None = None,
        work_watch: CommitWatch | None = None,
        held_files: Callable[[], Collection[str]] = frozenset,
        owners: Callable[[MachineServices, Performer], Owners] | None = None,
        one_machine: bool = True,
    ) -> None:
        self.repo_dir = path_of("repo_dir", repo_dir).resolve()
        if isinstance(workspace_manager, WorkspaceManager):
            require_repository(self.repo_dir)
        self.plan = as_plan(plan)
        self._given_store = store
        self._clock = clock or SystemClock()
        self._ci = ci_provider
        self._terminals = terminal_manager
        self._masker = terminal_manager.masker
        self._branches = branch_manager
        self._workspaces = workspace_manager
        self._comm_file = (
            None if comm_file_path is None else path_of("comm_file_path", comm_file_path)
        )
        self._settings = settings_reader(
            settings, {"max_retries": max_retries, "retry_interval": retry_interval}
        )
        self._paths = Paths.of(self.repo_dir)
        self._lock = RunnerLock(self._paths.root, who=who, machine=terminal_manager.machine)
        self._observers = observers
        self._report = report or logged
        self._checkpoint = checkpoint or pass_by
        self._remote = remote
        self._checkouts: Checkouts = checkouts or checkouts_beside(self.repo_dir, workspace_manager)
        self._work_watch = work_watch
        self._held_files = held_files
        self._owners, self._one_machine = owners, one_machine
        self._early: deque[CIEvent] = deque(maxlen=MOST_EARLY)
        self._opening = asyncio.Lock()
        self._engine: LocalEngine | None = None
        self._store: SqliteStore | None = None
        self._users = 0

    @classmethod
    def for_repository(
        cls,
        repo: Path | str,
        plan: Plan | Sequence[Task] | Task | None = None,
        **settings: Any,  # each as the setting, or the argument above, of its name says
    ) -> Self:
        """Build the loop from a repository alone, with the real parts.

        Settings and further arguments of the class are given by their names. No files of settings
        are read, and only with `test_command` there is local CI.
        """
        repo, plan = path_of("repo", repo), as_plan(plan)
        require_repository(repo)
        arguments = set(inspect.signature(cls).parameters) - SETTINGS_TOO
        given = {name: settings.pop(name) for name in arguments & settings.keys()}
        read = settings_reader(given.pop("settings", None), settings)
        first = read()
        if "ci_provider" not in given:
            given["ci_provider"] = local_ci(repo, first)
        parts: dict[str, Any] = {
            "terminal_manager": TerminalManager(repo),
            "branch_manager": BranchManager(repo),
            "workspace_manager": WorkspaceManager(
                repo,
                root=worktrees_dir(repo, first.worktrees_dir),
                save_limit=lambda: read().save_limit_mb << 20,
            ),
        }
        return cls(**{"repo_dir": repo, "plan": plan, "settings": read, **parts, **given})

    async def run_agent_loop(
        self, agent: Agent, task: Task, *, unblock: str | bool = False
    ) -> LoopResult:
        """Run until the lifecycle ends; one recorded before for agent and task is continued.

        What was accepted, or rejected by a person, is over: then another task of the same agent
        begins a new record, and so does the same task after a reject.
        With `unblock` what it is blocked on counts as gone and an attempt is made at once; a text
        is told to that attempt. LifecycleError where it waits for nothing.
        PlanError, before anything is begun, for a task that is not in the plan, and where a budget
        cannot hold one of its programs.
        """
        require_kind("agent", agent, Agent)
        require_kind("task", task, Task)
        note = "" if isinstance(unblock, bool) else require_kind("unblock", unblock, str)
        if self.plan.tasks:
            self.plan.task(task.id)
        require_counted(agent, self._settings(), task.budget, self._budget_of_plan(task))
        async with self.opened() as engine:
            if unblock is not False:
                await self._unblock(engine, agent.agent_id, task.id, note)
            if (done := await accepted_before(engine.shared, agent, task)) is not None:
                return done
            result = await engine.run(agent, task, after_reject=True)
            if result.result_type is not LoopResultType.BLOCKED:
                return result
            return telling_unblock(result, await engine.shared.store.get(agent.agent_id))

    async def _unblock(self, engine: LocalEngine, agent_id: str, task_id: str, note: str) -> None:
        record = await engine.shared.store.get(agent_id)
        if agent_id in engine.running() or (record is not None and record.task_id != task_id):
            return  # which is refused in a moment
        event = on.Unblocked(at=self._clock.now(), by=CALLER, note=note)
        try:
            await engine.ask(agent_id, event)
        except LifecycleError as refused:
            raise LifecycleError(
                f"nothing to unblock: {refused}; call run_agent_loop without unblock="
            ) from refused

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[LocalEngine]:
        """Hold the repository and listen, also while nothing runs."""
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
            engine = self._engine
        try:
            yield engine
            engine.require_ground()
        finally:
            async with self._opening:
                self._users -= 1
                if self._users == 0:
                    await self._close()

    async def notify(self, event: CIEvent) -> None:
        """Take a CI event that does not come from the provider.

        It names an agent or its branch. If that one does not wait yet, it hears of it when it does.
        """
        require_kind("event", event, CIEvent)
        if not (event.agent_id or event.branch):
            raise ArgumentError("the event names nobody; give agent_id= or branch=")
        event = event.model_copy(
            update={
                "event_id": event.event_id or token_hex(8),
                "at": event.at or self._clock.now(),
            }
        )
        if self._engine is None:
            self._early.append(event)
        else:
            self._engine.hear(event)

    async def shutdown(self) -> None:
        """End all loops with SHUTDOWN: agents stopped, dirty work saved, records resumable."""
        engine = self._engine
        if engine is None:
            # One that is just opening must hear of it too.
            async with self._opening:
                engine = self._engine
        if engine is not None:
            await engine.shutdown()

    async def recover_agents(self) -> tuple[str, ...]:
        """Bring to safety what a crashed runner left in the middle; returns the agent ids.

        Also those that this loop brought to safety when it began. Asked again, it has none.
        """
        async with self.opened() as engine:
            return await engine.recover_agents()

    async def cleanup_agent(self, agent_id: str) -> None:
        """Remove an agent's workspace and branch; unmerged work stays under a ref. Idempotent."""
        async with self.opened() as engine:
            await engine.cleanup_agent(agent_id)

    # --- records ------------------------------------------------------------------------------

    async def create_lifecycle(self, agent_id: str, task: str) -> AgentLifecycle:
        """Add the record of a queued agent that no loop drives yet."""
        async with self._records() as store:
            return await store.create_lifecycle(agent_id, task)

    async def get_lifecycle(self, agent_id: str) -> AgentLifecycle | None:
        """Return the agent's record, or None."""
        async with self._records() as store:
            return await store.get(agent_id)

    async def update_lifecycle(self, lifecycle: AgentLifecycle) -> AgentLifecycle:
        """Write a record that was read before; see `SqliteStore.update`."""
        async with self._records() as store:
            return await store.update(lifecycle)

    async def delete_lifecycle(self, agent_id: str) -> bool:
        """Remove the record and all rows around it; return whether there was one.

        LifecycleError while its loop runs here.
        """
        async with self._records() as store:
            if self._engine is not None and agent_id in self._engine.running():
                raise LifecycleError(f"{agent_id} is running; stop it before its record is removed")
            if (record := await store.get(agent_id)) is not None:
                EarlyEvents(self._early, {}).forget(record)
            return await store.delete(agent_id)

    @asynccontextmanager
    async def _records(self) -> AsyncIterator[SqliteStore]:
        """Open the records without taking the repository: whoever runs it keeps it."""
        if self._given_store is not None:
            yield self._given_store
        elif self._users:
            async with self.opened() as engine:
                yield engine.shared.store
        else:
            async with await self._own_store() as store:
                yield store

    # --- while it runs ------------------------------------------------------------------------

    @property
    def engine(self) -> LocalEngine:
        """The engine while something runs, for those who watch it."""
        return self._running()

    def _running(self) -> LocalEngine:
        if self._engine is None:
            raise LifecycleError("nothing runs; call run_agent_loop first")
        return self._engine

    def _budget_of_plan(self, task: Task) -> Allowance | None:
        mine = any(each.id == task.id for each in self.plan.tasks)
        return self.plan.budget if mine else None

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

    async def _own_store(self) -> SqliteStore:
        database = self._paths.database
        await refuse_lost(database, self._branches.agents)
        return await SqliteStore.open(database, clock=self._clock.now)

    async def _build(self) -> LocalEngine:
        provide()
        report = self._report
        await patiently(self._take, report)
        await asyncio.to_thread(sweep)
        store = self._given_store
        if store is None:
            store = await patiently(self._own_store, report)
        self._store = store
        settings = self._settings
        room = self._room()
        slots = Slots(lambda: min(settings().max_live_agents, room.agents))
        if self._owners is not None:  # agents take no room here
            slots = Slots(lambda: settings().max_live_agents)
        shared = SharedServices(
            store=store,
            clock=self._clock,
            settings=settings,
            accounts=Accounts(store, self._clock, freed=slots.serve),
            slots=slots,
            base_commits=BaseCommits(store, self._branches),
            ci=self._ci,
            masker=self._masker,
            plans={task.id: self.plan.mark() for task in self.plan.tasks},
            observers=list(self._observers),
            report=report,
            announce=self._lock.note,
            gone=str
            if self._given_store is not None
            else LostFilesCheck(self._paths.database).gone,
            checkpoint=self._checkpoint,
            one_machine=self._one_machine,
        )
        parts = RealParts(
            repo=self.repo_dir,
            paths=self._paths,
            terminals=self._terminals,
            workspaces=self._workspaces,
            branches=self._branches,
            checkouts=self._checkouts,
            tight=room.tight,
        )
        machine = machine_services(
            parts,
            shared,
            held_files=self._held_files,
            comm_file=self._comm_file,
            work_watch=self._work_watch,
        )
        if self._ci is not None:
            self._ci.bind(provider_ports(machine, remote=self._remote))
        return LocalEngine(machine, self._early, self._owners or LocalOwners)

    async def _take(self) -> None:
        self._paths.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        while not self._lock.acquire_after_requests():  # noqa: ASYNC110  # another process has it
            await asyncio.sleep(BUSY_PAUSE)

    def _room(self) -> Room:
        """Return how many agents the machine has room for; says so where it is too few."""
        wanted = self._settings().max_live_agents
        room = room_for_agents()
        if room.agents < wanted:
            self._report("machine_small", agents=room.agents, wanted=wanted, reason=room.why)
        return room
