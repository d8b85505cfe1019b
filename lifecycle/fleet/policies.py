"""What follows when a supervised agent ends: restart policies, as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Then(StrEnum):
    """What is done once an agent is gone."""

    RESTART = "restart"
    """A fresh agent under the same id takes the next task."""
    REQUEUE = "requeue"
    """Its task goes back into the queue, then as `RESTART`."""
    END = "end"
    """Nobody follows; the others go on."""
    SHUT_DOWN = "shut_down"
    """Everything is shut down, with exit code 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """What follows on each end of one type of agent."""

    done: Then
    error: Then
    wait: float = 1.0
    """Seconds before the restart after an error; doubled with each further error in a row."""
    longest_wait: float = 60.0
    forced: bool = True
    """Cancel what does not end within its grace. Without it, it is only named and waited for."""

    def wait_after(self, errors: int) -> float:
        """Return the seconds to wait before the restart after so many errors in a row."""
        if not errors:
            return 0.0
        return min(self.wait * 2.0 ** min(errors - 1, 60), self.longest_wait)


CODER = RestartPolicy(done=Then.RESTART, error=Then.REQUEUE)
ARCHITECT = RestartPolicy(done=Then.RESTART, error=Then.SHUT_DOWN)
POLICIES: Mapping[str, RestartPolicy] = MappingProxyType({"coder": CODER, "architect": ARCHITECT})
"""By agent type."""
