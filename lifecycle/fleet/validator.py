"""What may be done to a population of agents, and why not. Pure; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import MutableMapping, MutableSet

MAX_AGENTS = 25
"""Agents that a population holds at most."""

A = TypeVar("A")


class PopulationState(Protocol[A]):
    """What a population is kept in; any object with these four will do."""

    @property
    def agents(self) -> MutableMapping[str, A]:
        """All agents by name."""
        ...

    @property
    def paused_agents(self) -> MutableSet[str]:
        """Names of those that are paused."""
        ...

    @property
    def auto_resume(self) -> MutableMapping[str, int]:
        """Turns that are left until a paused agent goes on by itself."""
        ...

    @property
    def turn(self) -> int:
        """The present turn."""
        ...


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """Whether something may be done; `reason` says why not."""

    valid: bool
    reason: str = ""


_FINE = ValidationResult(valid=True)


class LifecycleValidator:
    """Judges the four operations on a population."""

    def __init__(self, max_agents: int = MAX_AGENTS) -> None:
        self.max_agents = max_agents

    def validate_add(
        self, name: str, initial_state: object, state: PopulationState[Any]
    ) -> ValidationResult:
        """Tell whether one more agent may come."""
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
        return _FINE

    def validate_remove(self, name: str, state: PopulationState[Any]) -> ValidationResult:
        """Tell whether an agent may be removed."""
        return _FINE if name in state.agents else _unknown(name)

    def validate_pause(
        self, name: str, auto_resume_turns: object, state: PopulationState[Any]
    ) -> ValidationResult:
        """Tell whether an agent may be paused, for so many turns."""
        if name not in state.agents:
            return _unknown(name)
        if name in state.paused_agents:
            return _no(f"agent {name!r} is paused already")
        if auto_resume_turns is None:
            return _FINE
        whole = isinstance(auto_resume_turns, int) and not isinstance(auto_resume_turns, bool)
        if not whole or auto_resume_turns < 1:  # type: ignore[operator]  # a whole number here
            return _no(
                "auto_resume_turns must be None or a whole number from 1, "
                f"not {auto_resume_turns!r}"
            )
        return _FINE

    def validate_resume(self, name: str, state: PopulationState[Any]) -> ValidationResult:
        """Tell whether an agent may be resumed."""
        if name not in state.agents:
            return _unknown(name)
        return _FINE if name in state.paused_agents else _no(f"agent {name!r} is not paused")


def _no(reason: str) -> ValidationResult:
    return ValidationResult(valid=False, reason=reason)


def _unknown(name: object) -> ValidationResult:
    return _no(f"there is no agent {name!r}")
