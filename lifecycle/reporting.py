"""How a runner tells what it does: log events, and each decision after it is committed.

Owns no sink: the builder of the loop says where log events go and who observes decisions. Must not
decide anything or keep what was told.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lifecycle.machine.events import Event
    from lifecycle.record import AgentLifecycle

_WARNINGS = ("_damaged", "_failed", "_illegal_transition", "_refused", "_short", "_small", "_gone")
_ALSO = ("lifecycle_waits_for_person", "budget_unheld", "settings_proposed")


class Report(Protocol):
    """Takes a log event with its fields, as structlog's methods do."""

    def __call__(self, event: str, /, **fields: object) -> object:
        """Log it."""
        ...


def is_warning(event: str) -> bool:
    """Tell whether somebody should look at this event."""
    return event.endswith(_WARNINGS) or event in _ALSO


def logged(event: str, /, **fields: object) -> None:
    """Report to the standard library's log: people hear of what waits for them, and of faults."""
    told = "; ".join(f"{name}: {value}" for name, value in fields.items())
    level = logging.WARNING if is_warning(event) else logging.INFO
    logging.getLogger("loopwright").log(level, "%s: %s", event, told)


def silent(event: str, /, **fields: object) -> None:
    """Report to nobody."""
    del event, fields


@dataclass(frozen=True, slots=True)
class Committed:
    """One committed decision, for views and logs."""

    agent_id: str
    event: str
    before: str
    after: str
    at: float
    fact: Event
    """The event itself, with all it says."""
    record: AgentLifecycle
    """As it is now; of several decisions in one commit, after the last."""
    ways: str = ""
    """What a person can type, where it comes to wait for one."""


class Observer(Protocol):
    """Who wants to know of each decision, after it is committed."""

    def __call__(self, news: Committed) -> None:
        """Take note without blocking; an error is reported, and changes nothing."""
        ...
