"""`AgentSpawner`: starts agents, knows which are alive and how they do, and ends them for certain.

Joins the parts of this package and checks who may do what. What starts, restarts, measures and ends
lives in `keeping`, `rounds` and `terminating`.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from typing import TYPE_CHECKING, Any, Self

from lifecycle.clock import SystemClock
from lifecycle.fleet import metrics as names
from lifecycle.fleet.attempts import Attempts, is_attempt
from lifecycle.fleet.authorize import LOCAL, Action, NoAudit, RoleAuthorizer
from lifecycle.fleet.body import Errands
from lifecycle.fleet.errors import FleetError, InvalidOperationError, LicenseError
from lifecycle.fleet.gate import Gate
from lifecycle.fleet.holding import Holder
from lifecycle.fleet.inprocess import InProcessBody
from lifecycle.fleet.instances import AgentInstance, AgentState
from lifecycle.fleet.keeping import Keeper
from lifecycle.fleet.live import Live
from lifecycle.fleet.making import Maker
from lifecycle.fleet.metrics import Metrics
from lifecycle.fleet.observe import Hub, Observation
from lifecycle.fleet.queries import ObservationOptions, TerminationOptions
from lifecycle.fleet.quota import Tier, quota_of
from lifecycle.fleet.recovering import recover
from lifecycle.fleet.restart import CrashLoop
from lifecycle.fleet.rounds import INTERVAL, Rounds
from lifecycle.fleet.scribe import Scribe
from lifecycle.fleet.spawning import Spawning
from lifecycle.fleet.terminating import Terminator, bury
from lifecycle.fleet.views import Views
from lifecycle.paths import Paths
from lifecycle.store.instances import instances_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from uuid import UUID

    from lifecycle.clock import Clock
    from lifecycle.fleet.attempts import Loops
    from lifecycle.fleet.authorize import Actor, AuditLog, Authorizer
    from lifecycle.fleet.options import SpawnRequest
    from lifecycle.fleet.queries import (
        GetInstancesFilter,
        LifecycleStatistics,
        TerminationResult,
    )
    from lifecycle.fleet.recovering import Recovered
    from lifecycle.fleet.registry import AgentRegistry, CleanupHook
    from lifecycle.parts import News, Report
    from lifecycle.store.instances import EventRow, InstanceRow
    from lifecycle.store.port import LifecycleStore
    from runtime.isolation.around import Opened
    from runtime.process import TerminalManager


class AgentSpawner:
    """The front of the fleet. All calls belong on one event loop; close it with `aclose`.

    Without `terminals` only Python objects can be spawned, at the levels none and thread, which
    contain nothing. Attempts of loops on the same store are seen as instances too; `loops` is who
    ends and holds those. Every call may name its actor; none is the local user.
    """

    def __init__(  # noqa: PLR0913  # all but two by name
        self,
        store: LifecycleStore,
        registry: AgentRegistry,
        *,
        terminals: TerminalManager | None = None,
        folder: Path | None = None,
        clock: Clock | None = None,
        tier: Tier | str = Tier.LOCAL,
        authorizer: Authorizer | None = None,
        audit: AuditLog | None = None,
        report: Report | None = None,
        metrics: Metrics | None = None,
        loops: Loops | None = None,
        opened: Opened | None = None,
        crash_loop: CrashLoop | None = None,
        sample_interval: float = INTERVAL,
        chance: Callable[[], float] = random.random,
    ) -> None:
        if folder is None and terminals is not None:
            folder = Paths.of(terminals.repo).root / "instances"
        self.registry = registry
        self.metrics = metrics or Metrics()
        self.quota = quota_of(tier)
        self._terminals = terminals
        self._clock = clock or SystemClock()
        self._live: dict[UUID, Live] = {}
        self._errands = Errands()
        self._hub = Hub()
        self._store = instances_of(store)
        said = report or _silent
        self._gate = Gate(authorizer or RoleAuthorizer(), audit or NoAudit(), said)
        self._scribe = Scribe(self._store, self._clock, self._hub, self.metrics, said)
        self._folder = folder
        self._attempts = Attempts(self._store, self._clock, self._hub, loops)
        self._views = Views(
            store=self._store,
            live=self._live,
            gate=self._gate,
            clock=self._clock,
            metrics=self.metrics,
            quota=self.quota,
            settled=self._scribe.settled,
        )
        self._holder = Holder(self._scribe, self._clock)
        maker = Maker(
            clock=self._clock,
            terminals=terminals,
            folder=folder,
            opened=opened,
            busy=self._holder.busy,
        )
        self._keeper = Keeper(
            scribe=self._scribe,
            clock=self._clock,
            errands=self._errands,
            make=maker.make,
            forget=self._forget,
            most=self.quota.max_concurrent,
            rule=crash_loop or CrashLoop(),
            chance=chance,
        )
        self._rounds = Rounds(
            living=lambda: tuple(self._live.values()),
            terminals=terminals,
            scribe=self._scribe,
            clock=self._clock,
            errands=self._errands,
            failed=self._keeper.failed,
            interval=sample_interval,
        )
        self._terminator = Terminator(
            scribe=self._scribe, clock=self._clock, errands=self._errands, forget=self._forget
        )
        self._spawning = Spawning(
            store=self._store,
            registry=registry,
            quota=self.quota,
            gate=self._gate,
            scribe=self._scribe,
            keeper=self._keeper,
            clock=self._clock,
            live=self._live,
            errands=self._errands,
            chance=lambda: secrets.randbits(62),
        )
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # --- the life of an instance --------------------------------------------------------------

    async def spawn(
        self, request: SpawnRequest | Mapping[str, Any], *, actor: Actor = LOCAL
    ) -> AgentInstance:
        """Start an agent and return it when it is ready.

        AuthorizationError, LicenseError, AgentNotFoundError, SpawnValidationError,
        IsolationUnavailableError, AgentInitializationError or SpawnTimeoutError say why it cannot
        be; then nothing of it is left but a record.
        """
        if self._closed:
            raise InvalidOperationError("this spawner is closed; make another one to go on")
        began = self._clock.now()
        self.metrics.count(names.SPAWN_COUNT)
        try:
            instance = await self._spawning.spawn(request, actor)
        except LicenseError:
            self.metrics.count(names.LICENSE_REJECTIONS)
            self.metrics.count(names.SPAWN_FAILURES)
            raise
        except FleetError:
            self.metrics.count(names.SPAWN_FAILURES)
            raise
        self.metrics.took(names.SPAWN_DURATION, self._clock.now() - began)
        self._rounds.wake()
        return instance

    async def terminate(
        self,
        instance_id: UUID,
        options: TerminationOptions | None = None,
        *,
        actor: Actor = LOCAL,
    ) -> TerminationResult:
        """End an instance with all it started; says whether that was graceful.

        AgentNotFoundError when there is none, InvalidOperationError when it has ended already.
        """
        options = options or TerminationOptions.DEFAULT
        subject = str(instance_id)
        async with self._gate.audited(Action.TERMINATE, actor, subject):
            live = self._live.get(instance_id)
            if live is not None:
                await self._gate.admit(actor, Action.TERMINATE, live.instance.owner_id)
                result = await self._terminator.end(live, options)
            else:
                result = await self._terminate_recorded(instance_id, options, actor)
        await self._gate.hold(
            Action.TERMINATE,
            actor,
            subject,
            "done" if result.success else "failed",
            reason=options.reason or "",
            details={
                "graceful": result.was_graceful,
                "problems": [*result.problems, *filter(None, (result.error_message,))],
            },
        )
        return result

    async def _terminate_recorded(
        self, instance_id: UUID, options: TerminationOptions, actor: Actor
    ) -> TerminationResult:
        row = await self._views.row(instance_id)
        await self._gate.admit(actor, Action.TERMINATE, row.owner_id)
        if row.state == AgentState.TERMINATED or (is_attempt(row) and row.terminated_at):
            raise InvalidOperationError(f"{row.name} has ended already; nothing is to be ended")
        if is_attempt(row):
            return await self._attempts.terminate(row, options, actor)
        if row.state == AgentState.FAILED:
            return await bury(self._scribe, row, options.reason)
        raise _elsewhere(row.name)

    async def suspend(self, instance_id: UUID, *, actor: Actor = LOCAL) -> None:
        """Hold an instance still: a program's whole tree is frozen, an object takes no work."""
        async with self._gate.audited(Action.SUSPEND, actor, str(instance_id)):
            live = await self._mine(instance_id, actor, Action.SUSPEND)
            if isinstance(live, Live):
                await self._holder.suspend(live, actor)
            else:
                await self._attempts.suspend(live, actor)
        await self._gate.hold(Action.SUSPEND, actor, str(instance_id), "done")

    async def resume(self, instance_id: UUID, *, actor: Actor = LOCAL) -> None:
        """Let a suspended instance go on; its clocks stood still."""
        async with self._gate.audited(Action.RESUME, actor, str(instance_id)):
            live = await self._mine(instance_id, actor, Action.RESUME)
            if isinstance(live, Live):
                await self._holder.resume(live, actor)
            else:
                await self._attempts.resume(live, actor)
        await self._gate.hold(Action.RESUME, actor, str(instance_id), "done")

    async def process(self, instance_id: UUID, work: Any, *, actor: Actor = LOCAL) -> Any:
        """Have an in-process agent do a piece of work, and return what came of it.

        At most `max_concurrent_tasks` are under way at once; the others wait for their turn.
        WorkTimeoutError when it takes longer than the execution timeout.
        """
        live = await self._mine(instance_id, actor, Action.PROCESS)
        if not isinstance(live, Live) or not isinstance(live.body, InProcessBody):
            name = live.instance.name if isinstance(live, Live) else live.name
            raise InvalidOperationError(
                f"{name} is a program: it works on what it was spawned with"
            )
        if live.instance.state not in _AT_WORK:
            raise InvalidOperationError(
                f"{live.instance.name} is {live.instance.state} and takes no work"
            )
        return await live.body.process(work)

    # --- looking on ---------------------------------------------------------------------------

    async def get_instance(
        self, instance_id: UUID, *, actor: Actor = LOCAL
    ) -> AgentInstance | None:
        """Return an instance in whatever state; None when there is none."""
        return await self._views.one(instance_id, actor)

    async def get_active_instances(
        self, which: GetInstancesFilter | None = None, *, actor: Actor = LOCAL
    ) -> tuple[AgentInstance, ...]:
        """Return the instances that fit, the youngest first; if nothing is said, one's own."""
        return await self._views.many(which, actor)

    async def get_statistics(
        self, *, actor: Actor = LOCAL, all_owners: bool = False
    ) -> LifecycleStatistics:
        """Count one's instances."""
        return await self._views.statistics(actor, all_owners=all_owners)

    async def get_events(
        self, instance_id: UUID, *, limit: int = 1000, actor: Actor = LOCAL
    ) -> tuple[EventRow, ...]:
        """Return the last recorded events of an instance, oldest first."""
        return await self._views.events(instance_id, limit, actor)

    def observe(
        self,
        instance_id: UUID,
        options: ObservationOptions | None = None,
        *,
        actor: Actor = LOCAL,
    ) -> Observation:
        """Return the events of an instance from now on, to be iterated over.

        It ends with the instance, or when it is closed. Its first step raises AgentNotFoundError
        or AuthorizationError.
        """

        async def admit() -> bool:
            row = await self._views.row(instance_id)
            await self._gate.admit(actor, Action.VIEW, row.owner_id)
            if is_attempt(row):
                self._attempts.watch(row)
                return row.terminated_at is None
            return instance_id in self._live

        return Observation(self._hub, instance_id, options or ObservationOptions.DEFAULT, admit)

    def note_news(self, news: News) -> None:
        """Take a decision of a loop (an `Observer` of loops), for those who observe attempts."""
        self._attempts.note(news)

    async def add_cleanup_hook(
        self, instance_id: UUID, hook: CleanupHook, *, actor: Actor = LOCAL
    ) -> None:
        """Have something done when an instance ends, after what its definition names."""
        live = await self._mine(instance_id, actor, Action.TERMINATE)
        if not isinstance(live, Live):
            raise InvalidOperationError(f"{live.name} is an attempt of a loop, which has no hooks")
        live.hooks.append(hook)

    # --- the whole ----------------------------------------------------------------------------

    async def recover(self) -> tuple[Recovered, ...]:
        """End what an earlier runner left alive, and write down that it ended.

        Call it once, before anything is spawned; the caller owns the repository.
        """
        return await recover(self._scribe, self._terminals, self._folder, set(self._live))

    async def prune(self, before: float, *, limit: int = 1000) -> int:
        """Forget instances that ended before an instant, with their folders; says how many."""
        gone = await self._store.prune(before, limit=limit)
        if self._folder is not None and gone:
            await asyncio.to_thread(_remove, [self._folder / str(each) for each in gone])
        return len(gone)

    async def aclose(self, grace: float = 10.0) -> None:
        """End all instances at once; harmless when called again."""
        self._closed = True
        options = TerminationOptions.model_construct(
            graceful_timeout=_seconds(grace), force_if_timeout=True, reason="the runner ends"
        )
        lives = [live for live in self._live.values() if live.instance.state is not _TERMINATED]
        await asyncio.gather(*(self._terminator.end(live, options) for live in lives))
        self._rounds.rest()
        await self._errands.settle()
        await self._scribe.settled()
        self._hub.close()

    async def _mine(self, instance_id: UUID, actor: Actor, action: Action) -> Live | InstanceRow:
        """Return what lives under an id and is this actor's: ours, or an attempt of a loop."""
        live = self._live.get(instance_id)
        if live is not None:
            await self._gate.admit(actor, action, live.instance.owner_id)
            return live
        row = await self._views.row(instance_id)
        await self._gate.admit(actor, action, row.owner_id)
        if row.terminated_at is not None:
            raise InvalidOperationError(f"{row.name} is {row.state}; spawn it anew")
        if is_attempt(row):
            return row
        raise _elsewhere(row.name)

    def _forget(self, live: Live) -> None:
        self._live.pop(live.id, None)
        if not self._live:
            self._rounds.rest()


_TERMINATED = AgentState.TERMINATED
_AT_WORK = (AgentState.READY, AgentState.PROCESSING, AgentState.WAITING)


def _elsewhere(name: str) -> InvalidOperationError:
    return InvalidOperationError(
        f"{name} is recorded as alive, but this process does not run it; ask the runner that does, "
        "or start a runner, which ends what an earlier one left"
    )


def _silent(event: str, /, **fields: object) -> None:
    del event, fields


def _seconds(number: float) -> Any:
    from datetime import timedelta  # noqa: PLC0415  # once, at the end

    return timedelta(seconds=number)


def _remove(folders: list[Path]) -> None:
    from lifecycle.fleet.orders import forget_files  # noqa: PLC0415  # rare

    for folder in folders:
        forget_files(folder)
