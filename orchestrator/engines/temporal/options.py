"""Every timeout, interval and queue of this engine, in one table.

Pure: the workflow reads it, so a change here is one of the workflow, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

LEASE = 60.0
"""Seconds without a beat after which a worker counts as lost."""
BEATS = 6
"""In one lease."""
DEADLINE_SLACK = timedelta(seconds=5)
"""By which the workflow's own timers are late: the coordinator's come first while it lives."""
STICKY = timedelta(seconds=3)
"""How long a dead host of workflows is waited for before another one takes over."""
DRAIN_WITHIN = timedelta(minutes=5)
"""How long a worker that leaves may take to save and push what it has."""
CACHED_WORKFLOWS = 200
LONG_HISTORY = 200
"""Events after which a run that rests gives way to a fresh one, also without an attempt in it."""
VERDICT_WITHIN = timedelta(seconds=20)
"""How long a call waits before it asks again under the same id."""
AGAIN_AFTER = 0.5
"""Seconds before a call that the server did not answer is made again, at first."""
AGAIN_CAP = 10.0
SLOT_WITHIN = 5.0
"""Seconds for which a worker keeps what it was given while all its slots are in use."""
PLACE_AGAIN_CAP = 60.0
"""Seconds, at most, between two offers of a lifecycle that workers refuse: each is history."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Of one kind of activity."""

    all: timedelta
    """From its start to its end."""
    beat: timedelta
    """Without a sign of life it is lost."""
    again: timedelta = timedelta(seconds=0.2)
    """Before it is tried a second time; later waits double."""
    again_cap: timedelta = timedelta(seconds=10)


KEEP = Timeouts(timedelta(minutes=2), timedelta(seconds=15))
ORDER = Timeouts(timedelta(days=1), timedelta(seconds=15))
"""One order of an attempt: the longest are gates, which have a limit of their own."""


def place_again_after(in_vain: int) -> timedelta:
    """Return the pause before a lifecycle is offered again that workers refused so often."""
    return timedelta(seconds=min(2.0 ** min(in_vain - 1, 10), PLACE_AGAIN_CAP))


def visit(lease: float) -> Timeouts:
    """Return those of an assignment: its beat is the lease, and it is never tried again."""
    return Timeouts(timedelta(days=30), timedelta(seconds=lease))


@dataclass(frozen=True, slots=True)
class Queues:
    """The task queues of one repository."""

    prefix: str

    @property
    def workflows(self) -> str:
        """Where decisions are made."""
        return f"{self.prefix}.workflows"

    @property
    def coordinator(self) -> str:
        """Where commits are kept."""
        return f"{self.prefix}.coordinator"

    def agents_with(self, label: str) -> str:
        """Where assignments wait for a worker: for any, or for one with this label."""
        return f"{self.prefix}.agents" + (f".{label}" if label else "")

    def worker(self, name: str) -> str:
        """Where one worker gets its orders."""
        return f"{self.prefix}.worker.{name}"

    def workflow_id(self, agent_id: str) -> str:
        """Return the id of the workflow that decides on a lifecycle."""
        return f"{self.prefix}.{agent_id}"

    def agent_of(self, workflow_id: str) -> str:
        """Return the lifecycle that a workflow decides on."""
        return workflow_id.removeprefix(f"{self.prefix}.")
