"""Attempts under way, and what they used so far.

Pure bookkeeping. Must not know what a sum means for an attempt; that is for `budgets.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lifecycle.machine.budget import NOTHING, Spent


@dataclass(frozen=True, slots=True)
class _Live:
    started: float
    attempts: int = 1
    """None for a review, which uses everything else."""
    reported: Spent = NOTHING


@dataclass(slots=True)
class Present:
    """Attempts under way; false when there is none."""

    live: dict[str, _Live] = field(default_factory=dict)
    _tokens: int = 0
    _usd: float = 0.0
    _starts: float = 0.0
    _attempts: int = 0

    def __bool__(self) -> bool:
        return bool(self.live)

    def begin(self, agent_id: str, now: float, attempts: int = 1) -> None:
        """Count an attempt in, or a review, which is none."""
        self.live[agent_id] = _Live(now, attempts)
        self._starts += now
        self._attempts += attempts

    def report(self, agent_id: str, so_far: Spent) -> None:
        """Take up what an attempt used so far."""
        before = self.live[agent_id]
        self.live[agent_id] = replace(before, reported=so_far)
        self._tokens += so_far.tokens - before.reported.tokens
        self._usd += so_far.cost_usd - before.reported.cost_usd

    def end(self, agent_id: str) -> None:
        """Count an attempt out."""
        self.report(agent_id, NOTHING)
        over = self.live.pop(agent_id)
        self._starts -= over.started
        self._attempts -= over.attempts
        if not self.live:
            # Rounding errors must not add up over time.
            self._usd = self._starts = 0.0

    def only(self, agent_id: str) -> Present:
        """Return that attempt by itself."""
        made = Present()
        if agent_id in self.live:
            mine = self.live[agent_id]
            made.begin(agent_id, mine.started, mine.attempts)
            made.report(agent_id, mine.reported)
        return made

    def spent(self, now: float) -> Spent:
        """Return what they used so far; their time runs by the clock."""
        return Spent(
            tokens=self._tokens,
            cost_usd=self._usd,
            seconds=max(0.0, len(self.live) * now - self._starts),
            attempts=self._attempts,
        )
