"""The population of agents: who joins, leaves, pauses and goes on, under fixed rules.

Owns the order of check, change and log. Knows nothing of processes: what follows from a change is
done by whoever owns the state (`orchestrator.population` for running loops).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lifecycle.fleet.pauses import PauseTracker
from lifecycle.fleet.validator import (
    MAX_AGENTS,
    LifecycleValidator,
    PopulationState,
    ValidationResult,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "MAX_AGENTS",
    "LifecycleManager",
    "LifecycleValidator",
    "PauseTracker",
    "PopulationState",
    "ValidationResult",
]

A = TypeVar("A")


class Logger(Protocol):
    """Takes events with fields, as structlog's loggers do."""

    def info(self, event: str, /, **fields: Any) -> object:
        """Log what was done."""
        ...

    def warning(self, event: str, /, **fields: Any) -> object:
        """Log what was refused."""
        ...


class LifecycleManager:
    """Adds, removes, pauses and resumes agents in the state it is given; refusals change nothing.

    Each call is O(1) beside the name's collisions and runs without a break, so that tasks of one
    event loop may share a state.
    """

    def __init__(
        self,
        validator: LifecycleValidator | None = None,
        pause_tracker: PauseTracker | None = None,
        *,
        logger: Logger | None = None,
    ) -> None:
        self.validator = validator or LifecycleValidator()
        self.pause_tracker = pause_tracker or PauseTracker()
        self.logger: Logger = logger or _structlog()

    def add_agent(
        self, name: str, agent: A, initial_state: Mapping[str, Any], state: PopulationState[A]
    ) -> str:
        """Add an agent; returns the name it got, or the given one if it was refused."""
        found = self.validator.validate_add(name, initial_state, state)
        if not found.valid:
            self._refused("add_agent", name, found, state)
            return name
        resolved = _free(name, state.agents)
        state.agents[resolved] = agent
        self._done("add_agent", name, state, resolved_name=resolved)
        return resolved

    def remove_agent(self, name: str, state: PopulationState[Any]) -> bool:
        """Remove an agent with its pause; says whether it was there."""
        found = self.validator.validate_remove(name, state)
        if not found.valid:
            return self._refused("remove_agent", name, found, state)
        self.pause_tracker.release(name, state)
        del state.agents[name]
        return self._done("remove_agent", name, state)

    def pause_agent(
        self, name: str, auto_resume_turns: int | None, state: PopulationState[Any]
    ) -> bool:
        """Pause an agent, for so many turns or until it is resumed; says whether it took effect."""
        found = self.validator.validate_pause(name, auto_resume_turns, state)
        if not found.valid:
            return self._refused("pause_agent", name, found, state)
        self.pause_tracker.pause(name, auto_resume_turns, state)
        return self._done("pause_agent", name, state, auto_resume_turns=auto_resume_turns)

    def resume_agent(self, name: str, state: PopulationState[Any]) -> bool:
        """Let a paused agent go on; says whether it took effect."""
        found = self.validator.validate_resume(name, state)
        if not found.valid:
            return self._refused("resume_agent", name, found, state)
        self.pause_tracker.release(name, state)
        return self._done("resume_agent", name, state)

    def get_active_agents(self, state: PopulationState[A]) -> dict[str, A]:
        """Return the agents that are not paused."""
        paused = state.paused_agents
        return {name: agent for name, agent in state.agents.items() if name not in paused}

    def process_auto_resume(self, state: PopulationState[Any]) -> list[str]:
        """Let a turn pass: count pauses down; returns who goes on now. Call it once per turn."""
        resumed = self.pause_tracker.count_down(state)
        for name in resumed:
            self._done("resume_agent", name, state)
        return resumed

    def _done(
        self, operation: str, name: str, state: PopulationState[Any], **fields: object
    ) -> bool:
        self.logger.info(
            "lifecycle_operation", operation=operation, agent_name=name, **fields, turn=state.turn
        )
        return True

    def _refused(
        self, operation: str, name: str, found: ValidationResult, state: PopulationState[Any]
    ) -> bool:
        self.logger.warning(
            "lifecycle_validation_failed",
            operation=operation,
            agent_name=name,
            reason=found.reason,
            turn=state.turn,
        )
        return False


def _free(name: str, taken: Mapping[str, object]) -> str:
    """Return the name, or the first of name_1, name_2, ... that nobody has."""
    free, number = name, 0
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def _structlog() -> Logger:
    import structlog  # noqa: PLC0415  # not needed by who brings a logger

    logger: Logger = structlog.get_logger(__name__)
    return logger
