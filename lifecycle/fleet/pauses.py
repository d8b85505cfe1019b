"""Who is paused and for how many turns; must not decide whether that is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lifecycle.fleet.validator import PopulationState


class PauseTracker:
    """Keeps pauses and their counters in a population's state, always in line with each other."""

    def pause(self, name: str, turns: int | None, state: PopulationState[Any]) -> None:
        """Hold an agent, for so many turns or until it is resumed."""
        state.paused_agents.add(name)
        if turns is not None:
            state.auto_resume[name] = turns

    def release(self, name: str, state: PopulationState[Any]) -> None:
        """Forget the pause of an agent; harmless when there is none."""
        state.auto_resume.pop(name, None)
        state.paused_agents.discard(name)

    def count_down(self, state: PopulationState[Any]) -> list[str]:
        """Let a turn pass; returns whose pause ended with it."""
        due = []
        for name, turns in list(state.auto_resume.items()):
            if turns > 1:
                state.auto_resume[name] = turns - 1
            else:
                self.release(name, state)
                due.append(name)
        return due
