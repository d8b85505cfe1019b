"""Reads instances: those of this process from memory, all others from their records."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lifecycle.fleet.api.authorization import LOCAL, Action
from lifecycle.fleet.api.instances import ACTIVE, HealthState, InstanceState
from lifecycle.fleet.api.queries import GetInstancesFilter, LifecycleStatistics
from lifecycle.fleet.errors import AgentNotFoundError
from lifecycle.fleet.spawner import metrics as names
from lifecycle.fleet.spawner.arguments import instance_id_of, options_of
from lifecycle.fleet.spawner.stored_form import instance_of
from lifecycle.store.instances import InstanceFilter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from lifecycle.fleet.api.authorization import Actor
    from lifecycle.fleet.api.instances import AgentInstance
    from lifecycle.fleet.api.quota import Quota
    from lifecycle.fleet.spawner.arguments import InstanceRef
    from lifecycle.fleet.spawner.authorization_gate import AuthorizationGate
    from lifecycle.fleet.spawner.live_instance import LiveInstance
    from lifecycle.fleet.spawner.state_changes import StateWriter
    from lifecycle.store.instances import EventRow, InstanceRow


class InstanceQueries:
    """The part of the spawner that answers queries."""

    def __init__(
        self,
        writer: StateWriter,
        live: dict[UUID, LiveInstance],
        gate: AuthorizationGate,
        quota: Quota,
    ) -> None:
        self.quota = quota
        self._writer = writer
        self._store = writer.store
        self._clock = writer.clock
        self._live = live
        self._gate = gate

    async def get_instance(
        self, instance_id: InstanceRef, *, actor: Actor = LOCAL
    ) -> AgentInstance | None:
        """Return an instance in any state; None if it does not exist."""
        instance_id = instance_id_of(instance_id)
        live = self._live.get(instance_id)
        if live is not None:
            await self._gate.authorize(actor, Action.VIEW, live.instance.owner_id)
            return live.snapshot(self._clock.now())
        row = await self._store.get(instance_id)
        if row is None:
            return None
        await self._gate.authorize(actor, Action.VIEW, row.owner_id)
        return instance_of(row, self._clock.now())

    async def _row(self, instance_id: UUID) -> InstanceRow:
        """Return the record of an instance; AgentNotFoundError if it does not exist."""
        await self._writer.flushed()
        row = await self._store.get(instance_id)
        if row is None:
            raise AgentNotFoundError(
                f"there is no instance {instance_id}; ended ones are deleted after a while"
            )
        return row

    async def get_active_instances(
        self,
        which: GetInstancesFilter | Mapping[str, Any] | None = None,
        *,
        actor: Actor = LOCAL,
    ) -> tuple[AgentInstance, ...]:
        """Return the matching instances, newest first; by default the actor's own."""
        which = options_of(GetInstancesFilter, which, GetInstancesFilter.ALL)
        owner = None if which.all_owners else which.owner_id or actor.user_id
        await self._gate.authorize(actor, Action.VIEW, owner)
        await self._writer.flushed()
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
        return instance_of(row, now) if live is None else live.snapshot(now)

    async def get_events(
        self, instance_id: InstanceRef, *, limit: int = 1000, actor: Actor = LOCAL
    ) -> tuple[EventRow, ...]:
        """Return the last recorded events of an instance, oldest first."""
        instance_id = instance_id_of(instance_id)
        row = await self._row(instance_id)
        await self._gate.authorize(actor, Action.VIEW, row.owner_id)
        return await self._store.events(instance_id, limit=limit)

    async def get_statistics(
        self, *, actor: Actor = LOCAL, all_owners: bool = False
    ) -> LifecycleStatistics:
        """Count the actor's instances, and update the gauges."""
        owner = None if all_owners else actor.user_id
        await self._gate.authorize(actor, Action.VIEW, owner)
        await self._writer.flushed()
        counts = await self._store.counts(owner)
        everything = counts if all_owners else await self._store.counts()
        for state in InstanceState:
            self._writer.metrics.gauge(names.BY_STATE, everything.by_state.get(state, 0), state)
        self._writer.metrics.gauge(names.ACTIVE, sum(everything.by_state.get(s, 0) for s in ACTIVE))
        return LifecycleStatistics(
            active_instances=sum(counts.by_state.get(state, 0) for state in ACTIVE),
            by_state={InstanceState(state): count for state, count in counts.by_state.items()},
            by_health={HealthState(state): count for state, count in counts.by_health.items()},
            max_concurrent=self.quota.max_or_unlimited,
            total_spawned=sum(counts.by_state.values()),
            total_terminated=counts.ended,
            average_uptime=timedelta(seconds=counts.lived / counts.ended if counts.ended else 0.0),
            total_restarts=counts.restarts,
        )
