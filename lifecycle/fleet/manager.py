"""The population of agents: rules for adding, removing, pausing and resuming them.

Owns what is allowed, and the order of check, change and log. Must not know processes: the owner of
the state acts on a change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from lifecycle.fleet.validation import ValidationResult
from lifecycle.reporting import logged

if TYPE_CHECKING:
    from collections.abc import Container, MutableMapping, MutableSet

MAX_AGENTS = 25
"""The largest number of agents in a population."""

A = TypeVar("A")


class PopulationState(Protocol[A]):
    """The state of a population; any object with these four attributes works."""

    @property
    def agents(self) -> MutableMapping[str, A]:
        """All agents by name."""
        ...

    @property
    def paused_agents(self) -> MutableSet[str]:
        """Names of the paused agents."""
        ...

    @property
    def auto_resume(self) -> MutableMapping[str, int]:
        """Turns left until a paused agent resumes by itself."""
        ...

    @property
    def turn(self) -> int:
        """The present turn."""
        ...


@dataclass(slots=True)
class Population(Generic[A]):
    """A population in memory."""

    agents: dict[str, A] = field(default_factory=dict)
    paused_agents: set[str] = field(default_factory=set)
    auto_resume: dict[str, int] = field(default_factory=dict)
    turn: int = 0


_VALID = ValidationResult(valid=True)


class LifecycleValidator:
    """Validates the four operations on a population."""

    def __init__(self, max_agents: int = MAX_AGENTS) -> None:
        self.max_agents = max_agents

    def validate_add(
        self, name: object, initial_state: object, state: PopulationState[Any]
    ) -> ValidationResult:
        """Tell whether one more agent may be added."""
        if not isinstance(name, str):
            return _no(f"an agent's name must be a text, not {name!r}")
        if not name:
            return _no("an agent's name must not be empty")
        if not isinstance(initial_state, Mapping):
            return _no(f"the initial state of {name!r} must be a dict, not {initial_state!r}")
        count = len(state.agents)
        if count >= self.max_agents:
            return _no(
                f"there are {count} agents already and {self.max_agents} is the limit; "
                "remove one first"
            )
        return _VALID

    def validate_remove(self, name: object, state: PopulationState[Any]) -> ValidationResult:
        """Tell whether an agent may be removed."""
        return _VALID if _is_known(name, state) else _unknown(name)

    def validate_pause(
        self, name: object, auto_resume_turns: object, state: PopulationState[Any]
    ) -> ValidationResult:
        """Tell whether an agent may be paused, for so many turns."""
        if not _is_known(name, state):
            return _unknown(name)
        if name in state.paused_agents:
            return _no(f"agent {name!r} is already paused")
        if auto_resume_turns is None:
            return _VALID
        whole = isinstance(auto_resume_turns, int) and not isinstance(auto_resume_turns, bool)
        if not whole or auto_resume_turns < 1:  # type: ignore[operator]  # a whole number here
            return _no(
                "auto_resume_turns must be None or a whole number from 1, "
                f"not {auto_resume_turns!r}"
            )
        return _VALID

    def validate_resume(self, name: object, state: PopulationState[Any]) -> ValidationResult:
        """Tell whether an agent may be resumed."""
        if not _is_known(name, state):
            return _unknown(name)
        return _VALID if name in state.paused_agents else _no(f"agent {name!r} is not paused")


class PauseTracker:
    """Keeps the pauses and their turn counters in a population's state consistent."""

    def pause(self, name: str, turns: int | None, state: PopulationState[Any]) -> None:
        """Pause an agent, for so many turns or until it is resumed."""
        state.paused_agents.add(name)
        if turns is not None:
            state.auto_resume[name] = turns

    def release(self, name: str, state: PopulationState[Any]) -> None:
        """Remove the pause of an agent; harmless when there is none."""
        state.auto_resume.pop(name, None)
        state.paused_agents.discard(name)

    def count_down(self, state: PopulationState[Any]) -> list[str]:
        """Count a turn; return the agents whose pause ended with it."""
        due = []
        for name, turns in list(state.auto_resume.items()):
            if turns > 1:
                state.auto_resume[name] = turns - 1
            else:
                self.release(name, state)
                due.append(name)
        return due


class Logger(Protocol):
    """Logs events with fields, as structlog's loggers do."""

    def info(self, event: str, /, **fields: Any) -> object:
        """Log what was done."""
        ...

    def warning(self, event: str, /, **fields: Any) -> object:
        """Log what was refused."""
        ...


class _DefaultLogger:
    """Logs where the caller's program keeps its log."""

    info = warning = staticmethod(logged)


class LifecycleManager:
    """Adds, removes, pauses and resumes agents in the state it is given; refusals change nothing.

    Each call is O(1) apart from name collisions and never awaits, so tasks of one event loop may
    share a state.
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
        self.logger: Logger = logger or _DefaultLogger()

    def add_agent(
        self, name: str, agent: A, initial_state: Mapping[str, Any], state: PopulationState[A]
    ) -> str:
        """Add an agent; return its name, or the given one if it was refused."""
        found = self.validator.validate_add(name, initial_state, state)
        if not found.valid:
            self._refused("add_agent", name, found, state)
            return name
        resolved = free_name(name, state.agents)
        state.agents[resolved] = agent
        self._done("add_agent", name, state, resolved_name=resolved)
        return resolved

    def remove_agent(self, name: str, state: PopulationState[Any]) -> bool:
        """Remove an agent and its pause; return whether it existed."""
        found = self.validator.validate_remove(name, state)
        if not found.valid:
            return self._refused("remove_agent", name, found, state)
        self.pause_tracker.release(name, state)
        del state.agents[name]
        return self._done("remove_agent", name, state)

    def pause_agent(
        self, name: str, auto_resume_turns: int | None, state: PopulationState[Any]
    ) -> bool:
        """Pause an agent, for so many turns or until resumed; return whether it took effect."""
        found = self.validator.validate_pause(name, auto_resume_turns, state)
        if not found.valid:
            return self._refused("pause_agent", name, found, state)
        self.pause_tracker.pause(name, auto_resume_turns, state)
        return self._done("pause_agent", name, state, auto_resume_turns=auto_resume_turns)

    def resume_agent(self, name: str, state: PopulationState[Any]) -> bool:
        """Resume a paused agent; return whether it took effect."""
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
        """Count a turn of all pauses; return the agents that resume now. Call it once per turn."""
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


def free_name(name: str, taken: Container[str]) -> str:
    """Return the name, or the first of name_1, name_2, ... that is free."""
    free, number = name, 0
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def _no(reason: str) -> ValidationResult:
    return ValidationResult(valid=False, reason=reason)


def _is_known(name: object, state: PopulationState[Any]) -> bool:
    """Tell whether this is the name of an agent; what is no text may not even be looked up."""
    return isinstance(name, str) and name in state.agents


def _unknown(name: object) -> ValidationResult:
    return _no(f"there is no agent {name!r}")
