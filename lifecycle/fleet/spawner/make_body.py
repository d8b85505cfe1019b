"""Decides how a requested agent runs, and makes the body behind its instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.fleet.api.options import AgentSpawnOptions, ResourceLimits
from lifecycle.fleet.api.registry import IN_PROCESS, CommandAgent
from lifecycle.fleet.bodies.command import CommandBody
from lifecycle.fleet.bodies.command_order import CommandOrder
from lifecycle.fleet.bodies.in_process import InProcessBody
from lifecycle.fleet.errors import SpawnValidationError
from runtime.agents import catalogue
from runtime.errors import SpawnError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lifecycle.clock import Clock
    from lifecycle.fleet.api.registry import AgentDefinition
    from lifecycle.fleet.bodies.body import Body, BodyFailure
    from lifecycle.fleet.spawner.live_instance import LiveInstance
    from lifecycle.fleet.spawner.program_host import ProgramHost
    from runtime.isolation.workspace_sandbox import OpenedPaths


def complete_options(
    definition: AgentDefinition, asked: AgentSpawnOptions | None
) -> AgentSpawnOptions:
    """Return a request's options, completed by the definition; refuse what does not fit."""
    options = asked or AgentSpawnOptions()
    given = "isolation_level" in options.model_fields_set
    level = options.isolation_level if given else definition.usual_level
    definition.check_level(level)
    limits = options.resource_limits or definition.requirements.resource_limits
    if limits is None and level in IN_PROCESS:
        limits = ResourceLimits()
    health = options.health_check
    if health is not None and health.check and health.check not in definition.checks:
        known = ", ".join(sorted(definition.checks)) or "none"
        raise SpawnValidationError(
            f"the agent {definition.name!r} has no health check {health.check!r}; it has: {known}"
        )
    if health is not None and health.command and level in IN_PROCESS:
        raise SpawnValidationError(
            f"a command cannot check {definition.name!r}, which runs in this process; "
            "name a check of its definition"
        )
    if isinstance(definition.runs, CommandAgent):
        tokens = limits is not None and limits.max_tokens_per_minute and not options.allow_weaker
        _check_adapter(definition.name, definition.runs.adapter, limits_tokens=bool(tokens))
    return options.model_copy(update={"isolation_level": level, "resource_limits": limits})


def _check_adapter(name: str, adapter: str, *, limits_tokens: bool) -> None:
    """Refuse an unknown adapter, and a limit on tokens that nobody reports."""
    try:
        tells_tokens = bool(adapter) and catalogue.adapter(adapter).tells_tokens
    except SpawnError as problem:
        raise SpawnValidationError(f"the agent {name!r}: {problem}") from problem
    if limits_tokens and not tells_tokens:
        raise SpawnValidationError(
            f"max_tokens_per_minute would not hold for {name!r}: nothing tells its tokens. Name "
            "the program's adapter, CommandAgent(adapter=...), if its output is that of one; or "
            "leave the limit out, or allow_weaker"
        )


def make_body(  # noqa: PLR0913  # all but two by name
    live: LiveInstance,
    failed: Callable[[BodyFailure], None],
    *,
    clock: Clock,
    host: ProgramHost,
    opened: OpenedPaths | None,
    set_busy: Callable[[LiveInstance, bool], Awaitable[None]],
) -> Body:
    """Return the body of one start; each instance has a folder of its own in `folder`.

    `opened` are paths that a sandbox opens beyond the usual ones.
    """
    runs, options = live.definition.runs, live.options
    if not isinstance(runs, CommandAgent):
        return InProcessBody(
            instance=live.instance,
            make=runs,
            level=options.isolation_level,
            limits=options.resource_limits or ResourceLimits(),
            values=live.values,
            folder=None if host.folder is None else host.folder / str(live.id),
            clock=clock,
            busy=lambda at_work: set_busy(live, at_work),
            failed=failed,
        )
    terminals, folder = host.open()
    order = CommandOrder(
        instance=live.instance,
        runs=runs,
        options=options,
        requirements=live.definition.requirements,
        values=live.values,
        life=live.life,
        folder=folder / str(live.id),
        opened=opened,
    )
    return CommandBody(order=order, terminals=terminals, clock=clock, failed=failed)
