"""How a runner of a night sees clock, processes and workspaces."""

from __future__ import annotations

import heapq
import itertools
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lifecycle.clock import SteppedClock
from lifecycle.engine.requests import RequestPoller
from runtime.git.porcelain import GitCommit
from runtime.logs.files import size
from runtime.processes.activity import Activity
from tests.lifecycle.engine import simulated_ports as ports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lifecycle.clock import Timer
    from runtime.workspace import Workspace

PEOPLE_ARE_SLOW = 10.0
"""Seconds that a request lies there before a runner looks; twice a second is much for a night."""


class NightClock(SteppedClock):
    """Tells when the next timer is due that is no mere look for requests; looks less often."""

    def __init__(self, now: float) -> None:
        super().__init__(now)
        self._matter: list[tuple[float, int, Any]] = []
        self._count = itertools.count()

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call back when the clock is moved past the instant."""
        if isinstance(getattr(callback, "__self__", None), RequestPoller):
            return super().call_at(when + PEOPLE_ARE_SLOW, callback)
        timer = super().call_at(when, callback)
        heapq.heappush(self._matter, (when, next(self._count), timer))
        return timer

    def next_that_matters(self) -> float | None:
        """Return when the next of the others is due."""
        now, due = self.now(), self._matter
        while due and (due[0][0] <= now or due[0][2].cancelled):
            heapq.heappop(due)
        return due[0][0] if due else None


class NightTerminals(ports.Terminals):
    """Sees how long the logs of the living are, and nothing else of them."""

    def sample(self) -> Mapping[str, Activity]:
        """Return one measurement of everybody."""
        self._life.breathe()
        return {actor.mark: Activity(size(actor.order.log), 0, 1) for actor in self._world.alive()}


class NightSpaces(ports.Spaces):
    """Knows the commits of a workspace too."""

    async def recent_commits(
        self, workspace: Workspace, limit: int = 10, *, head: str | None = None
    ) -> tuple[GitCommit, ...]:
        """Return them, the newest first."""
        del head
        at = datetime.fromtimestamp(self._world.now, UTC)
        shas = self._space(workspace).commits[::-1][:limit]
        return tuple(GitCommit(sha, "work", "agent", at) for sha in shas)
