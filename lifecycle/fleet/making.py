"""Says how an agent runs that is asked for, and makes what will live behind its instance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lifecycle.fleet.errors import IsolationUnavailableError, SpawnValidationError
from lifecycle.fleet.inprocess import InProcessBody
from lifecycle.fleet.options import AgentSpawnOptions, ResourceLimits
from lifecycle.fleet.registry import IN_PROCESS, CommandAgent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from lifecycle.clock import Clock
    from lifecycle.fleet.body import Body, Failure
    from lifecycle.fleet.live import Live
    from lifecycle.fleet.options import IsolationLevel
    from lifecycle.fleet.registry import AgentDefinition
    from runtime.isolation.around import Opened
    from runtime.process import TerminalManager


@dataclass(frozen=True, slots=True)
class Plan:
    """How an agent will run."""

    options: AgentSpawnOptions
    """As asked for, with what the definition adds."""
    level: IsolationLevel
    limits: ResourceLimits | None


def chosen(definition: AgentDefinition, asked: AgentSpawnOptions | None) -> Plan:
    """Join what was asked for with what the definition wants; refuse what does not fit."""
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
    applied = {"isolation_level": level, "resource_limits": limits}
    return Plan(options.model_copy(update=applied), level, limits)


class Maker:
    """Makes bodies."""

    def __init__(
        self,
        *,
        clock: Clock,
        terminals: TerminalManager | None,
        folder: Path | None,
        opened: Opened | None,
        busy: Callable[[Live, bool], Awaitable[None]],
    ) -> None:
        self._clock = clock
        self._terminals = terminals
        self._folder = folder
        self._opened = opened
        self._busy = busy

    def make(self, live: Live, failed: Callable[[Failure], None]) -> Body:
        """Return the body of one start."""
        runs = live.definition.runs
        folder = None if self._folder is None else self._folder / str(live.id)
        if not isinstance(runs, CommandAgent):
            return InProcessBody(
                instance=live.instance,
                make=runs,
                level=live.level,
                limits=live.limits or ResourceLimits(),
                values=live.values,
                folder=folder,
                clock=self._clock,
                busy=lambda at_work: self._busy(live, at_work),
                failed=failed,
            )
        if self._terminals is None or folder is None:
            raise IsolationUnavailableError(
                f"level {live.level} cannot be given: this spawner was made without a "
                "TerminalManager or a folder; pass `terminals=TerminalManager(repo)`",
                live.id,
            )
        return self._command(live, runs, folder, self._terminals, failed)

    def _command(
        self,
        live: Live,
        runs: CommandAgent,
        folder: Path,
        terminals: TerminalManager,
        failed: Callable[[Failure], None],
    ) -> Body:
        from lifecycle.fleet.boxes import Boxes  # noqa: PLC0415  # in-process agents need no programs
        from lifecycle.fleet.command import CommandBody  # noqa: PLC0415  # as above
        from lifecycle.fleet.orders import Orders  # noqa: PLC0415  # as above

        boxes = Boxes(terminals, folder.parent.parent, self._opened)
        orders = Orders(
            instance=live.instance,
            runs=runs,
            limits=live.limits,
            values=live.values,
            life=live.life,
            folder=folder,
        )
        return CommandBody(
            orders=orders,
            terminals=terminals,
            box_for=partial(boxes.box_for, live.level, live.definition.requirements),
            clock=self._clock,
            failed=failed,
        )
