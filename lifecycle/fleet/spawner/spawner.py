"""`AgentSpawner`: starts agents, knows which are alive and healthy, and terminates them.

Connects the parts of this package and authorizes each call. The work is done in `restarts`,
`sampling` and `terminate`.
"""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from lifecycle.audit import Audit
from lifecycle.clock import SystemClock
from lifecycle.fleet.api.authorization import LOCAL, Action, RoleAuthorizer
from lifecycle.fleet.api.instances import AgentInstance, InstanceState
from lifecycle.fleet.api.queries import ObservationOptions, TerminationOptions
from lifecycle.fleet.api.quota import Tier, quota_of
from lifecycle.fleet.api.registry import AgentRegistry, CleanupHook
from lifecycle.fleet.bodies.body import BackgroundTasks
from lifecycle.fleet.bodies.in_process import InProcessBody
from lifecycle.fleet.errors import InvalidOperationError, LicenseError
from lifecycle.fleet.spawner import metrics as names
from lifecycle.fleet.spawner.arguments import (
    instance_id_of,
    of_kind,
    options_of,
    retention_of,
)
from lifecycle.fleet.spawner.authorization_gate import AuthorizationGate
from lifecycle.fleet.spawner.event_hub import EventHub, Observation
from lifecycle.fleet.spawner.live_instance import LiveInstance
from lifecycle.fleet.spawner.loop_attempts import LoopAttempts, is_attempt
from lifecycle.fleet.spawner.make_body import make_body
from lifecycle.fleet.spawner.metrics import Metrics
from lifecycle.fleet.spawner.periodic import LimitCheck, PeriodicTask
from lifecycle.fleet.spawner.program_host import ProgramHost
from lifecycle.fleet.spawner.queries import InstanceQueries
from lifecycle.fleet.spawner.recovery import end_unrecorded, recover
from lifecycle.fleet.spawner.restarts import InstanceStarter
from lifecycle.fleet.spawner.retention import prune, prune_all
from lifecycle.fleet.spawner.sampling import INTERVAL, InstanceSampler
from lifecycle.fleet.spawner.spawn_request import SpawnHandler
from lifecycle.fleet.spawner.state_changes import StateWriter
from lifecycle.fleet.spawner.suspend import resume, set_busy, suspend
from lifecycle.fleet.spawner.terminate import HookRunner, Terminator, bury
from lifecycle.reporting import logged
from lifecycle.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from lifecycle.clock import Clock
    from lifecycle.fleet.api.authorization import Actor, AuditLog, Authorizer
    from lifecycle.fleet.api.options import AgentSpawnOptions
    from lifecycle.fleet.api.queries import TerminationResult
    from lifecycle.fleet.spawner.arguments import InstanceRef, Spawnable
    from lifecycle.fleet.spawner.loop_attempts import LoopControl
    from lifecycle.fleet.spawner.recovery import Recovered
    from lifecycle.fleet.spawner.restart_policy import CrashLoop
    from lifecycle.reporting import Committed, Report
    from lifecycle.store.instances import InstanceRow
    from runtime.isolation.workspace_sandbox import OpenedPaths
    from runtime.process import TerminalManager

RETENTION = timedelta(hours=24)
"""How long ended instances are kept in a spawner's own store."""
_SWEEP = 3600.0
"""Seconds between two looks for those that ended longer ago."""


class AgentSpawner(InstanceQueries):
    """The entry point of the fleet. Use it on one event loop; close it with `aclose`.

    Everything has a default: records in memory, a registry of its own, and a folder that is removed
    when it is closed; with `terminals` the folder is that of their repository. It logs to the
    logger `loopwright` and keeps the audit in its store; `report=silent` and `audit=NoAudit()` turn
    that off. Restarts end by their policy alone unless a `crash_loop` rule is given. Attempts of
    loops in the same store are listed as instances too; `loops` terminates and suspends those. The
    default actor of a call is the local user.

    What ended longer ago than `retention` is deleted, with its folder and whoever spawned it; a
    number means seconds, None keeps it. By default ("auto") that is 24 hours in a store of its own,
    while nothing is deleted from one that was handed in, which others may use, too.
    """

    def __init__(  # noqa: PLR0913  # all but two by name
        self,
        store: SqliteStore | None = None,
        registry: AgentRegistry | None = None,
        *,
        terminals: TerminalManager | None = None,
        folder: Path | str | None = None,
        clock: Clock | None = None,
        tier: Tier | str = Tier.LOCAL,
        authorizer: Authorizer | None = None,
        audit: AuditLog | None = None,
        report: Report | None = None,
        metrics: Metrics | None = None,
        loops: LoopControl | None = None,
        opened: OpenedPaths | None = None,
        crash_loop: CrashLoop | None = None,
        sample_interval: float = INTERVAL,
        retention: timedelta | float | Literal["auto"] | None = "auto",
        chance: Callable[[], float] = random.random,
    ) -> None:
        report, clock = report or logged, clock or SystemClock()
        kept = retention_of(retention, None if store is not None else RETENTION.total_seconds())
        if store is None:
            store = SqliteStore.in_memory(clock=clock.now)
        of_kind(SqliteStore, store)
        self.registry = AgentRegistry() if registry is None else registry
        self.metrics = metrics or Metrics()
        self._host = ProgramHost(terminals, None if folder is None else Path(folder))
        self._tasks = BackgroundTasks()
        self._hub = EventHub()
        gate = AuthorizationGate(
            authorizer or RoleAuthorizer(), audit or Audit(store.trail, now=clock.now), report
        )
        writer = StateWriter(store.instances, clock, self._hub, self.metrics, report)
        super().__init__(writer, {}, gate, quota_of(tier))
        self._cleanup = HookRunner(writer)
        self._attempts = LoopAttempts(store.instances, clock, self._hub, loops)
        self._starter = InstanceStarter(
            writer=writer,
            tasks=self._tasks,
            make=partial(
                make_body,
                clock=clock,
                host=self._host,
                opened=opened,
                set_busy=partial(set_busy, writer),
            ),
            cleanup=self._cleanup,
            forget=self._forget,
            max_active=self.quota.max_concurrent,
            rule=crash_loop,
            chance=chance,
        )
        self._sampler = InstanceSampler(
            living=lambda: tuple(self._live.values()),
            terminals=lambda: self._host.terminals,
            writer=writer,
            tasks=self._tasks,
            failed=self._starter.failed,
            interval=sample_interval,
        )
        self._terminator = Terminator(writer, self._tasks, self._cleanup, self._forget)
        self._spawning = SpawnHandler(
            registry=self.registry,
            quota=self.quota,
            gate=gate,
            writer=writer,
            starter=self._starter,
            live=self._live,
            tasks=self._tasks,
        )
        self._upkeep = self._periodic(sample_interval, kept)

    def _periodic(self, sample_interval: float, kept: float | None) -> tuple[PeriodicTask, ...]:
        """Return what is done every so many seconds."""
        task = partial(
            PeriodicTask, clock=self._clock, tasks=self._tasks, report=self._writer.report
        )
        found = []
        if self.quota.max_concurrent is not None:
            check = LimitCheck(self.quota, self._writer, self._gate)
            found.append(task(name="limit check", run=check.run, interval=sample_interval))
        if kept is not None:

            async def sweep() -> None:
                await prune_all(self._store, self._host.folder, self._clock.now() - kept)

            found.append(task(name="retention", run=sweep, interval=min(_SWEEP, kept / 4 + 1)))
        return tuple(found)

    async def __aenter__(self) -> Self:
        self._start_upkeep()
        return self

    def _start_upkeep(self) -> None:
        for each in self._upkeep:
            each.start()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # --- the life of an instance --------------------------------------------------------------

    async def spawn(
        self,
        request: Spawnable,
        options: AgentSpawnOptions | Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        *,
        actor: Actor = LOCAL,
    ) -> AgentInstance:
        """Start an agent and return its instance once it is ready.

        In place of a request: a definition, its id or its name, with options and context;
        a definition that is not known yet is registered. AuthorizationError, LicenseError,
        AgentNotFoundError, SpawnValidationError, InvalidArgumentError, IsolationUnavailableError,
        AgentInitializationError or SpawnTimeoutError say why it failed; then only a record is left.
        """
        self._spawning.require_open()
        began = self._clock.now()
        self.metrics.count(names.SPAWN_COUNT)
        self._start_upkeep()
        try:
            instance = await self._spawning.spawn(request, actor, options, context)
        except BaseException as problem:
            self.metrics.count(names.SPAWN_FAILURES)
            self.metrics.count(names.LICENSE_REJECTIONS, int(isinstance(problem, LicenseError)))
            raise
        self.metrics.took(names.SPAWN_DURATION, self._clock.now() - began)
        if not self._spawning.closed:
            self._sampler.start()
        return instance

    async def terminate(
        self,
        instance_id: InstanceRef,
        options: TerminationOptions | Mapping[str, Any] | None = None,
        *,
        actor: Actor = LOCAL,
    ) -> TerminationResult:
        """Terminate an instance and all its processes; the result says whether it was graceful.

        AgentNotFoundError when there is none, InvalidOperationError when it has ended already.
        """
        instance_id = instance_id_of(instance_id)
        options = options_of(TerminationOptions, options, TerminationOptions.DEFAULT)
        async with self._gate.audited(Action.TERMINATE, actor, str(instance_id)) as entry:
            live = self._live.get(instance_id)
            if live is not None:
                await self._gate.authorize(actor, Action.TERMINATE, live.instance.owner_id)
                result = await self._terminator.end(live, options)
            else:
                result = await self._terminate_recorded(instance_id, options, actor)
            entry.outcome = "done" if result.success else "failed"
            entry.reason = options.reason or ""
            entry.details = {
                "graceful": result.was_graceful,
                "problems": [*result.problems, *filter(None, (result.error_message,))],
            }
        return result

    async def _terminate_recorded(
        self, instance_id: UUID, options: TerminationOptions, actor: Actor
    ) -> TerminationResult:
        row = await self._row(instance_id)
        await self._gate.authorize(actor, Action.TERMINATE, row.owner_id)
        if row.state == InstanceState.TERMINATED or (is_attempt(row) and row.terminated_at):
            raise InvalidOperationError(f"{row.name} has already ended")
        if is_attempt(row):
            return await self._attempts.terminate(row, options, actor)
        if row.state == InstanceState.FAILED:
            return await bury(self._writer, row, options.reason)
        raise _elsewhere(row.name)

    async def suspend(self, instance_id: InstanceRef, *, actor: Actor = LOCAL) -> None:
        """Suspend an instance: a program's process tree is frozen, an object gets no work."""
        instance_id = instance_id_of(instance_id)
        async with self._gate.audited(Action.SUSPEND, actor, str(instance_id)):
            live = await self._mine(instance_id, actor, Action.SUSPEND)
            if isinstance(live, LiveInstance):
                await suspend(self._writer, live, actor)
            else:
                await self._attempts.suspend(live, actor)

    async def resume(self, instance_id: InstanceRef, *, actor: Actor = LOCAL) -> None:
        """Resume a suspended instance; its timeouts did not run meanwhile."""
        instance_id = instance_id_of(instance_id)
        async with self._gate.audited(Action.RESUME, actor, str(instance_id)):
            live = await self._mine(instance_id, actor, Action.RESUME)
            if isinstance(live, LiveInstance):
                await resume(self._writer, live, actor)
            else:
                await self._attempts.resume(live, actor)

    async def process(self, instance_id: InstanceRef, work: Any, *, actor: Actor = LOCAL) -> Any:
        """Let an in-process agent do a piece of work, and return its result.

        At most `max_concurrent_tasks` run at once; the others wait.
        WorkTimeoutError when it takes longer than the execution timeout.
        """
        live = await self._mine(instance_id_of(instance_id), actor, Action.PROCESS)
        if not isinstance(live, LiveInstance) or not isinstance(live.body, InProcessBody):
            name = live.instance.name if isinstance(live, LiveInstance) else live.name
            raise InvalidOperationError(
                f"{name} is a program: it works on what it was spawned with"
            )
        if live.instance.state not in _AT_WORK:
            raise InvalidOperationError(
                f"{live.instance.name} is {live.instance.state} and cannot take work"
            )
        return await live.body.process(work)

    # --- observation --------------------------------------------------------------------------

    def observe(
        self,
        instance_id: InstanceRef,
        options: ObservationOptions | Mapping[str, Any] | None = None,
        *,
        actor: Actor = LOCAL,
    ) -> Observation:
        """Return an asynchronous iterator over the events of an instance from now on.

        It ends with the instance, or when it is closed. Its first step may raise
        AgentNotFoundError or AuthorizationError.
        """
        found = instance_id_of(instance_id)
        options = options_of(ObservationOptions, options, ObservationOptions.DEFAULT)

        async def authorize() -> bool:
            row = await self._row(found)
            await self._gate.authorize(actor, Action.VIEW, row.owner_id)
            if is_attempt(row):
                self._attempts.watch(row)
                return row.terminated_at is None
            return found in self._live

        return Observation(self._hub, found, options, authorize)

    def note_news(self, news: Committed) -> None:
        """Pass a decision of a loop on to the observers of its attempt; an `Observer` of loops."""
        self._attempts.on_committed(news)

    async def add_cleanup_hook(
        self, instance_id: InstanceRef, hook: CleanupHook, *, actor: Actor = LOCAL
    ) -> None:
        """Add a cleanup hook to an instance, after those of its definition."""
        hook = of_kind(CleanupHook, hook)
        live = await self._mine(instance_id_of(instance_id), actor, Action.TERMINATE)
        if not isinstance(live, LiveInstance):
            raise InvalidOperationError(f"{live.name} is an attempt of a loop, which has no hooks")
        live.hooks.append(hook)

    # --- all instances ----------------------------------------------------------------------------

    async def recover(self) -> tuple[Recovered, ...]:
        """End what an earlier runner left alive, and record that it ended.

        Call it once, before anything is spawned, and only as the owner of the repository.
        """
        host = self._host
        ended = await recover(self._writer, host.terminals, lambda row: row.id not in self._live)
        if host.terminals is not None and host.folder is not None:
            known = {str(each) for each in (*self._live, *(each.instance_id for each in ended))}
            await end_unrecorded(self._writer, host.terminals, host.folder, known)
        return ended

    async def prune(self, before: float, *, limit: int = 1000) -> int:
        """Delete instances that ended before a time, with their folders; return how many."""
        return await prune(self._store, self._host.folder, before, limit=limit)

    async def aclose(self, grace: float = 10.0) -> None:
        """Terminate all instances concurrently, in `grace` seconds; harmless when called again.

        Cleanup hooks that still run have that time, too; those that are cut off are reported.
        """
        self._spawning.closed = True
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace
        for each in self._upkeep:
            each.stop()
        options = TerminationOptions.model_construct(
            graceful_timeout=timedelta(seconds=grace),
            force_if_timeout=True,
            reason="the runner ends",
        )
        lives = [live for live in self._live.values() if live.instance.state is not _TERMINATED]
        await asyncio.gather(*(self._terminator.end(live, options) for live in lives))
        self._sampler.stop()
        await self._tasks.wait()  # which may start hooks
        await self._cleanup.aclose(max(0.0, deadline - loop.time()))
        await self._writer.flushed()
        await self._host.aclose(grace)
        self._hub.close()

    async def _mine(
        self, instance_id: UUID, actor: Actor, action: Action
    ) -> LiveInstance | InstanceRow:
        """Return a live instance of this process, or an attempt of a loop, if the actor may."""
        live = self._live.get(instance_id)
        if live is not None:
            await self._gate.authorize(actor, action, live.instance.owner_id)
            return live
        row = await self._row(instance_id)
        await self._gate.authorize(actor, action, row.owner_id)
        if row.terminated_at is not None:
            raise InvalidOperationError(f"{row.name} is {row.state}; spawn it again")
        if is_attempt(row):
            return row
        raise _elsewhere(row.name)

    def _forget(self, live: LiveInstance) -> None:
        self._live.pop(live.id, None)
        if not self._live:
            self._sampler.stop()


_TERMINATED = InstanceState.TERMINATED
_AT_WORK = (InstanceState.READY, InstanceState.PROCESSING, InstanceState.WAITING)


def _elsewhere(name: str) -> InvalidOperationError:
    return InvalidOperationError(
        f"{name} is recorded as alive, but this process does not run it; ask the runner that does, "
        "or start a runner, which ends what an earlier one left behind"
    )
