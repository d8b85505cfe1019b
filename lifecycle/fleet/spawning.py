"""The way of a spawn request: who asks, is there room, what is it, does it fit, then its start."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from lifecycle.fleet.agentevents import AgentSpawnedEvent
from lifecycle.fleet.authorize import Action
from lifecycle.fleet.body import Failure
from lifecycle.fleet.errors import (
    AgentInitializationError,
    LicenseError,
    SpawnValidationError,
)
from lifecycle.fleet.instances import (
    AgentHealthStatus,
    AgentInstance,
    AgentState,
    instant,
    path,
)
from lifecycle.fleet.live import Live
from lifecycle.fleet.making import chosen
from lifecycle.fleet.options import SpawnRequest
from lifecycle.fleet.quota import check_options, check_room
from lifecycle.store.instances import TooManyInstancesError, born_at, new_instance_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from lifecycle.clock import Clock
    from lifecycle.fleet.authorize import Actor
    from lifecycle.fleet.body import Errands
    from lifecycle.fleet.gate import Gate
    from lifecycle.fleet.keeping import Keeper
    from lifecycle.fleet.making import Plan
    from lifecycle.fleet.quota import Quota
    from lifecycle.fleet.registry import AgentDefinition, AgentRegistry
    from lifecycle.fleet.scribe import Scribe
    from lifecycle.store.instances import InstanceStore


class Spawning:
    """Takes spawn requests."""

    def __init__(  # noqa: PLR0913  # all by name
        self,
        *,
        store: InstanceStore,
        registry: AgentRegistry,
        quota: Quota,
        gate: Gate,
        scribe: Scribe,
        keeper: Keeper,
        clock: Clock,
        live: dict[UUID, Live],
        errands: Errands,
        chance: Callable[[], int],
    ) -> None:
        self._store = store
        self._registry = registry
        self._quota = quota
        self._gate = gate
        self._scribe = scribe
        self._keeper = keeper
        self._clock = clock
        self._live = live
        self._errands = errands
        self._chance = chance

    async def spawn(self, request: SpawnRequest | Mapping[str, Any], actor: Actor) -> AgentInstance:
        """Start an agent and return it when it is ready."""
        asked = _definition_of(request)
        self._scribe.report("spawn_requested", definition_id=asked, actor=actor.name)
        async with self._gate.audited(Action.SPAWN, actor, asked):
            await self._gate.admit(actor, Action.SPAWN, actor.user_id)
            try:
                live = await self._prepared(checked(request), actor)
            except LicenseError as problem:
                self._scribe.report("spawn_rejected", definition_id=asked, reason=str(problem))
                raise
            ready = await self._started(live)
        details = {"definition_id": asked, "name": live.instance.name, "isolation": live.level}
        if live.instance.containment:
            details["containment"] = live.instance.containment
        await self._gate.hold(Action.SPAWN, actor, str(live.id), "done", details=details)
        return ready

    async def _prepared(self, request: SpawnRequest, actor: Actor) -> Live:
        """Check the request and take a place for it."""
        self._check_room(await self._store.active())
        definition = self._registry.get(request.agent_definition_id)
        plan = chosen(definition, request.options)
        check_options(self._quota, plan.options, plan.level)
        live = self._new(request, definition, plan, actor)
        most = self._quota.max_concurrent
        if most is None:
            # There is room for any, so it can start while it is written down.
            live.adding = self._errands.begin(
                self._scribe.add(live, None), f"writes {live.id} down"
            )
        else:
            try:
                await self._scribe.add(live, most)
            except TooManyInstancesError as full:
                self._check_room(full.active)
                raise LicenseError(str(full)) from full
        self._live[live.id] = live
        return live

    def _check_room(self, active: int) -> None:
        try:
            check_room(self._quota, active)
        except LicenseError:
            self._scribe.report(
                "spawn_rejected", current=active, max=self._quota.most, reason="concurrent limit"
            )
            raise

    def _new(
        self, request: SpawnRequest, definition: AgentDefinition, plan: Plan, actor: Actor
    ) -> Live:
        now = self._clock.now()
        instance_id = new_instance_id(now, self._chance())
        born = born_at(instance_id)
        name = plan.options.name or f"{definition.name}-{instance_id.hex[-6:]}"
        instance = AgentInstance(
            instance_id=instance_id,
            definition_id=definition.definition_id,
            state=AgentState.INITIALIZING,
            health=AgentHealthStatus(),
            created_at=instant(born),
            updated_at=instant(born),
            spawn_options=plan.options,
            tags=plan.options.tags or (),
            name=name,
            owner_id=actor.user_id,
            workspace_id=actor.workspace_id,
            observed_at=instant(now),
        )
        return Live(
            instance=instance,
            definition=definition,
            options=plan.options,
            options_json=plan.options.model_dump_json(),
            level=plan.level,
            limits=plan.limits,
            values=request.context or {},
            born=born,
            actor=actor,
            correlation_id=uuid.UUID(int=self._chance()).hex[-16:],
            hooks=list(definition.cleanup),
        )

    async def _started(self, live: Live) -> AgentInstance:
        async with live.turn:
            try:
                await self._keeper.bring_up(live)
                if live.adding is not None:
                    await asyncio.shield(live.adding)
                await self._keeper.ready(live, self._spawned(live))
            except BaseException as problem:
                await self._fallen(live, problem)
                raise
            return live.shot(self._clock.now())

    async def _fallen(self, live: Live, problem: BaseException) -> None:
        """Let nothing live that was not to be had, or whose record could not be written."""
        if live.body is not None:
            await live.body.stop(0.0, force=True)
        if live.adding is not None:
            await asyncio.wait({live.adding})
            if live.adding.cancelled() or live.adding.exception() is not None:
                self._live.pop(live.id, None)
                return
        text = str(problem) or "its spawn was cancelled"
        cause = problem.__cause__ if isinstance(problem, AgentInitializationError) else None
        self._scribe.report("agent_initialization_failed", instance_id=str(live.id), error=text)
        end = self._scribe.end(live, AgentState.FAILED, graceful=False, reason=text)
        await self._scribe.change(
            live,
            *path(live.instance.state, AgentState.FAILED),
            reason=text,
            before=(self._scribe.error(live, Failure(text, cause or problem)),),
            after=(end,),
            error_message=text,
        )
        if live.ending is None:
            self._live.pop(live.id, None)

    def _spawned(self, live: Live) -> AgentSpawnedEvent:
        return AgentSpawnedEvent(
            instance_id=live.id,
            occurred_at=instant(self._clock.now()),
            correlation_id=live.correlation_id,
            definition_id=live.instance.definition_id,
            user_id=live.actor.user_id,
            options=live.options,
        )


def checked(request: SpawnRequest | Mapping[str, Any]) -> SpawnRequest:
    """Return a request that has passed all checks of form."""
    try:
        found = (
            request if isinstance(request, SpawnRequest) else SpawnRequest.model_validate(request)
        )
    except ValidationError as problem:
        told = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'request'}: {each['msg']}"
            for each in problem.errors()
        )
        raise SpawnValidationError(f"the spawn request is not valid: {told}") from problem
    if not found.is_valid():
        raise SpawnValidationError("the spawn request names no agent: agent_definition_id is nil")
    return found


def _definition_of(request: SpawnRequest | Mapping[str, Any]) -> str:
    if isinstance(request, SpawnRequest):
        return str(request.agent_definition_id)
    return str(request.get("agent_definition_id", ""))[:64]
