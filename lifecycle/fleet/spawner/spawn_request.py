"""Handles spawn requests: authorization, quota, definition and options, then the start."""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lifecycle.fleet.api.authorization import Action
from lifecycle.fleet.api.context import ContextValues
from lifecycle.fleet.api.events import AgentSpawnedEvent
from lifecycle.fleet.api.instances import (
    AgentHealthStatus,
    AgentInstance,
    InstanceState,
    instant,
    path,
)
from lifecycle.fleet.api.options import AgentSpawnOptions
from lifecycle.fleet.api.quota import check_options, check_room
from lifecycle.fleet.bodies.body import BodyFailure
from lifecycle.fleet.errors import (
    AgentInitializationError,
    ConcurrentLimitError,
    InvalidOperationError,
    LicenseError,
)
from lifecycle.fleet.spawner.arguments import definition_named, request_of, with_options
from lifecycle.fleet.spawner.live_instance import LiveInstance
from lifecycle.fleet.spawner.make_body import complete_options
from lifecycle.store.instances import TooManyInstancesError, born_at, new_instance_id

if TYPE_CHECKING:
    from uuid import UUID

    from lifecycle.fleet.api.authorization import Actor
    from lifecycle.fleet.api.options import SpawnRequest
    from lifecycle.fleet.api.quota import Quota
    from lifecycle.fleet.api.registry import AgentDefinition, AgentRegistry
    from lifecycle.fleet.bodies.body import BackgroundTasks
    from lifecycle.fleet.spawner.authorization_gate import AuthorizationGate
    from lifecycle.fleet.spawner.restarts import InstanceStarter
    from lifecycle.fleet.spawner.state_changes import StateWriter


class SpawnHandler:
    """Handles spawn requests."""

    def __init__(  # noqa: PLR0913  # all by name
        self,
        *,
        registry: AgentRegistry,
        quota: Quota,
        gate: AuthorizationGate,
        writer: StateWriter,
        starter: InstanceStarter,
        live: dict[UUID, LiveInstance],
        tasks: BackgroundTasks,
    ) -> None:
        self._registry = registry
        self._quota = quota
        self._gate = gate
        self._writer = writer
        self._starter = starter
        self._clock = writer.clock
        self._live = live
        self._tasks = tasks
        self.closed = False

    def require_open(self) -> None:
        """Refuse what is asked of a spawner that is closed."""
        if self.closed:
            raise InvalidOperationError("this spawner is closed; create a new one")

    async def spawn(
        self, request: object, actor: Actor, options: object, context: object
    ) -> AgentInstance:
        """Start an agent and return its instance once it is ready."""
        request = with_options(request, options, context)
        asked = definition_named(request)
        self._writer.report(
            "spawn_requested",
            definition_id=asked,
            options=_options_told(request),
            actor=actor.name,
        )
        async with self._gate.audited(Action.SPAWN, actor, asked) as entry:
            await self._gate.authorize(actor, Action.SPAWN, actor.user_id)
            try:
                live = await self._prepare(request_of(request, self._registry), actor)
            except ConcurrentLimitError as full:
                self._report_rejected(asked, full, current=full.current, max=full.at_most)
                raise
            except LicenseError as problem:
                self._report_rejected(asked, problem)
                raise
            ready = await self._start(live)
            entry.subject = str(live.id)
            entry.details = {
                "definition_id": asked,
                "name": live.instance.name,
                "isolation": live.options.isolation_level,
            }
            if live.instance.containment:
                entry.details["containment"] = live.instance.containment
        return ready

    def _report_rejected(self, asked: str, problem: LicenseError, **counts: int) -> None:
        self._writer.report("spawn_rejected", definition_id=asked, **counts, reason=str(problem))

    async def _prepare(self, request: SpawnRequest, actor: Actor) -> LiveInstance:
        """Check the request and reserve a slot for it."""
        check_room(self._quota, await self._writer.store.active())
        definition = self._registry.get(request.agent_definition_id)
        options = complete_options(definition, request.options)
        check_options(self._quota, options)
        self.require_open()
        live = self._new(request, definition, options, actor)
        most = self._quota.max_concurrent
        if most is None:
            # There is no limit, so it can start while its record is written.
            live.adding = self._tasks.start(self._writer.add(live, None), f"records {live.id}")
        else:
            try:
                await self._writer.add(live, most)
            except TooManyInstancesError as full:
                check_room(self._quota, full.active)
                raise LicenseError(str(full)) from full
            await self._require_open_for(live)
        self._live[live.id] = live
        return live

    async def _require_open_for(self, live: LiveInstance) -> None:
        """Refuse one whose spawner was closed while it was recorded."""
        try:
            self.require_open()
        except InvalidOperationError as problem:
            await self._clean_up_failure(live, problem)
            raise

    def _new(
        self,
        request: SpawnRequest,
        definition: AgentDefinition,
        options: AgentSpawnOptions,
        actor: Actor,
    ) -> LiveInstance:
        now = self._clock.now()
        instance_id = new_instance_id(now, secrets.randbits(62))
        born = born_at(instance_id)
        name = options.name or f"{definition.name}-{instance_id.hex[-6:]}"
        instance = AgentInstance(
            instance_id=instance_id,
            definition_id=definition.definition_id,
            state=InstanceState.INITIALIZING,
            health=AgentHealthStatus(),
            created_at=instant(born),
            updated_at=instant(born),
            spawn_options=options,
            tags=options.tags or (),
            name=name,
            owner_id=actor.user_id,
            workspace_id=actor.workspace_id,
            observed_at=instant(now),
        )
        return LiveInstance(
            instance=instance,
            definition=definition,
            options=options,
            options_json=options.model_dump_json(),
            values=request.context or ContextValues(),
            born=born,
            actor=actor,
            correlation_id=uuid.UUID(int=secrets.randbits(62)).hex[-16:],
            hooks=list(definition.cleanup),
        )

    async def _start(self, live: LiveInstance) -> AgentInstance:
        async with live.lock:
            try:
                await self._starter.start(live)
                if live.adding is not None:
                    await asyncio.shield(live.adding)
                await self._starter.ready(live, self._spawned(live))
            except BaseException as problem:
                await self._clean_up_failure(live, problem)
                raise
            return live.snapshot(self._clock.now())

    async def _clean_up_failure(self, live: LiveInstance, problem: BaseException) -> None:
        """Stop an instance whose start or first write failed, and record that."""
        if live.body is not None:
            await live.body.stop(0.0, force=True)
        if live.adding is not None:
            await asyncio.wait({live.adding})
            if live.adding.cancelled() or live.adding.exception() is not None:
                self._live.pop(live.id, None)
                return
        text = str(problem) or "the spawn was cancelled"
        cause = problem.__cause__ if isinstance(problem, AgentInitializationError) else None
        self._writer.initialization_failed(live, text)
        end = self._writer.end(live, InstanceState.FAILED, graceful=False, reason=text)
        await self._writer.change(
            live,
            *path(live.instance.state, InstanceState.FAILED),
            reason=text,
            before=(
                self._writer.error(live, BodyFailure(text, cause or problem), is_recoverable=False),
            ),
            after=(end,),
            error_message=text,
        )
        if live.ending is None:
            self._live.pop(live.id, None)

    def _spawned(self, live: LiveInstance) -> AgentSpawnedEvent:
        return AgentSpawnedEvent(
            instance_id=live.id,
            occurred_at=instant(self._clock.now()),
            correlation_id=live.correlation_id,
            definition_id=live.instance.definition_id,
            user_id=live.actor.user_id,
            options=live.options,
        )


def _options_told(request: object) -> object:
    """Return the options of a request as they were given, for the log."""
    options = getattr(request, "options", None)
    if isinstance(request, Mapping):
        options = request.get("options")
    if isinstance(options, AgentSpawnOptions):
        return options.model_dump(mode="json", exclude_unset=True)
    return options
