"""Reads instances: those of this process as they are, all others as they are recorded."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from lifecycle.fleet import metrics as names
from lifecycle.fleet.authorize import Action
from lifecycle.fleet.errors import AgentNotFoundError
from lifecycle.fleet.instances import ACTIVE, AgentState, HealthState
from lifecycle.fleet.queries import GetInstancesFilter, LifecycleStatistics
from lifecycle.fleet.records import instance_of
from lifecycle.store.instances import InstanceFilter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from uuid import UUID

    from lifecycle.clock import Clock
    from lifecycle.fleet.authorize import Actor
    from lifecycle.fleet.gate import Gate
    from lifecycle.fleet.instances import AgentInstance
    from lifecycle.fleet.live import Live
    from lifecycle.fleet.metrics import Metrics
    from lifecycle.fleet.quota import Quota
    from lifecycle.store.instances import EventRow, InstanceRow, InstanceStore


class Views:
    """Answers questions."""

    def __init__(  # noqa: PLR0913  # all by name
        self,
        *,
        store: InstanceStore,
        live: Mapping[UUID, Live],
        gate: Gate,
        clock: Clock,
        metrics: Metrics,
        quota: Quota,
        settled: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._live = live
        self._gate = gate
        self._clock = clock
        self._metrics = metrics
        self._quota = quota
        self._settled = settled

    async def one(self, instance_id: UUID, actor: Actor) -> AgentInstance | None:
        """Return an instance in whatever state; None when there is none."""
        live = self._live.get(instance_id)
        if live is not None:
            await self._gate.admit(actor, Action.VIEW, live.instance.owner_id)
            return live.shot(self._clock.now())
        row = await self._store.get(instance_id)
        if row is None:
            return None
        await self._gate.admit(actor, Action.VIEW, row.owner_id)
        return instance_of(row, self._clock.now())

    async def row(self, instance_id: UUID) -> InstanceRow:
        """Return the record of an instance; AgentNotFoundError when there is none."""
        await self._settled()
        row = await self._store.get(instance_id)
        if row is None:
            raise AgentNotFoundError(
                f"there is no instance {instance_id}; those that ended are forgotten after a while"
            )
        return row

    async def many(
        self, which: GetInstancesFilter | None, actor: Actor
    ) -> tuple[AgentInstance, ...]:
        """Return the instances that fit, the youngest first."""
        which = which or GetInstancesFilter.ALL
        owner = None if which.all_owners else which.owner_id or actor.user_id
        await self._gate.admit(actor, Action.VIEW, owner)
        await self._settled()
        rows = await self._store.list(
            InstanceFilter(
                states=() if which.state is None else (which.state.value,),
                ended=which.include_terminated,
                health_state=None if which.health_state is None else which.health_state.value,
                tag=which.tag,
                definition_id=which.definition_id,
                owner_id=owner,
                name_pattern=which.name_pattern,
                limit=which.limit,
                offset=which.offset,
            )
        )
        now = self._clock.now()
        return tuple(self._shown(row, now) for row in rows)

    def _shown(self, row: InstanceRow, now: float) -> AgentInstance:
        live = self._live.get(row.id)
        return instance_of(row, now) if live is None else live.shot(now)

    async def events(self, instance_id: UUID, limit: int, actor: Actor) -> tuple[EventRow, ...]:
        """Return the recorded events of an instance, oldest first."""
        row = await self.row(instance_id)
        await self._gate.admit(actor, Action.VIEW, row.owner_id)
        return await self._store.events(instance_id, limit=limit)

    async def statistics(self, actor: Actor, *, all_owners: bool) -> LifecycleStatistics:
        """Count the instances of an owner; brings the gauges in line."""
        owner = None if all_owners else actor.user_id
        await self._gate.admit(actor, Action.VIEW, owner)
        await self._settled()
        tally = await self._store.tally(owner)
        everything = tally if all_owners else await self._store.tally()
        for state in AgentState:
            self._metrics.gauge(names.BY_STATE, everything.by_state.get(state, 0), state)
        self._metrics.gauge(names.ACTIVE, sum(everything.by_state.get(s, 0) for s in ACTIVE))
        return LifecycleStatistics(
            active_instances=sum(tally.by_state.get(state, 0) for state in ACTIVE),
            by_state={AgentState(state): count for state, count in tally.by_state.items()},
            by_health={HealthState(state): count for state, count in tally.by_health.items()},
            max_concurrent=self._quota.most,
            total_spawned=sum(tally.by_state.values()),
            total_terminated=tally.ended,
            average_uptime=timedelta(seconds=tally.lived / tally.ended if tally.ended else 0.0),
            total_restarts=tally.restarts,
        )
