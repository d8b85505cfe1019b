"""A notification, and what became of it in each channel: the values that the store keeps.

Owns the types and reasons of notifications, and the id by which one reason is told once. Must not
know when something is to be told, or how it is sent.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum

NEEDS_YOU = "needs_you"
GIVEN_UP = "given_up"
BUDGET = "budget"
USAGE_LIMIT = "usage_limit"
ALL_DONE = "all_done"
RUNNER_STOPPED = "runner_stopped"
SEVERAL = "several"
"""Stands for more than one, where a channel would get too many."""
TEST = "test"

REASONS: dict[str, tuple[str, ...]] = {
    NEEDS_YOU: (
        "question",
        "no_progress",
        "settings",
        "conflict",
        "blocked",
        "review",
        "ci_limit",
        "pr_timeout",
        "dependency",
        "setup",
        "worker",
        "second_opinion",
    ),
    GIVEN_UP: ("max_retries", "usage_limit", "environment", "error"),
    BUDGET: ("80", "100"),
    USAGE_LIMIT: ("met", "over"),
    ALL_DONE: (),
    RUNNER_STOPPED: (),
}
"""What can be told: by type, the reasons of that type."""


class SendState(StrEnum):
    """What became of a notification in one channel."""

    WAITING = "waiting"
    SENT = "sent"
    FOLDED = "folded"
    """It went as a part of another one."""
    DROPPED = "dropped"
    """Its channel is no longer in the settings, or failed for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One message for people."""

    id: str
    """The same for the same reason, whoever finds it and however often."""
    at: float
    type: str
    reason: str = ""
    about: str = ""
    """The lasting reason that several may be about: a usage limit that is met, then over."""
    agent_id: str = ""
    task_id: str = ""
    text: str = ""
    command: str = ""
    """What a person types."""

    @property
    def name(self) -> str:
        """Type and reason, as settings name them."""
        return f"{self.type}.{self.reason}" if self.reason else self.type


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """One notification on its way into one channel."""

    ord: int
    channel: str
    state: SendState = SendState.WAITING
    tries: int = 0
    due_at: float = 0.0
    settled_at: float | None = None
    problem: str = ""
    refused: int = 0
    """How often the channel refused it in a way that will not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelUse:
    """How one channel does."""

    channel: str
    waiting: int = 0
    sent: int = 0
    failing_since: float | None = None
    """When the oldest notification that it could not take was made; None while it takes them."""
    tries: int = 0
    problem: str = ""
    next_at: float | None = None
    """When the next one is due."""


def id_of(*reason: object) -> str:
    """Return the id of a reason; equal reasons have equal ids, in every run."""
    text = json.dumps([str(each) for each in reason])
    return f"msg_{hashlib.sha256(text.encode()).hexdigest()[:26]}"


def names() -> tuple[str, ...]:
    """Return every name by which settings choose what is told: types, and types with a reason."""
    return tuple(
        name
        for kind, reasons in REASONS.items()
        for name in (kind, *(f"{kind}.{reason}" for reason in reasons))
    )
