"""Sums of what attempts used: of those that ended, and of those under way. Pure bookkeeping.

Must not know what a sum means; that is for `accounts.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lifecycle.machine.money import NOTHING, Spent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lifecycle.record import Spending, SpendingSum


@dataclass(slots=True)
class Past:
    """Attempts that ended: what they used together, and how much the largest did."""

    spent: Spent = NOTHING
    most_tokens: int = 0
    most_usd: float = 0.0
    most_seconds: float = 0.0
    with_tokens: int = 0
    """Attempts that reported tokens."""
    with_cost: int = 0
    """Attempts that reported what they cost."""

    def add(self, each: Spending) -> None:
        """Count an attempt in."""
        self._count(each, 1)
        self.most_tokens = max(self.most_tokens, each.tokens)
        self.most_usd = max(self.most_usd, each.cost_usd or 0.0)
        self.most_seconds = max(self.most_seconds, each.seconds)

    def take_off(self, each: Spending) -> None:
        """Count an attempt out again; that one was so large stays known."""
        self._count(each, -1)

    def _count(self, each: Spending, sign: int) -> None:
        self.spent += Spent(
            tokens=sign * each.tokens,
            cost_usd=sign * (each.cost_usd or 0.0),
            seconds=sign * each.seconds,
            attempts=sign,
        )
        self.with_tokens += sign * (each.tokens > 0)
        self.with_cost += sign * each.tells_cost

    def add_sum(self, each: SpendingSum) -> None:
        """Count in what was summed up elsewhere."""
        self.spent += Spent(
            tokens=each.tokens,
            cost_usd=each.cost_usd,
            seconds=each.seconds,
            attempts=each.attempts,
        )
        self.most_tokens = max(self.most_tokens, each.most_tokens)
        self.most_usd = max(self.most_usd, each.most_usd)
        self.most_seconds = max(self.most_seconds, each.most_seconds)
        self.with_tokens += each.with_tokens
        self.with_cost += each.with_cost

    @classmethod
    def joined(cls, several: Iterable[Past]) -> Past:
        """Return several as one."""
        made = cls()
        for each in several:
            made.spent += each.spent
            made.most_tokens = max(made.most_tokens, each.most_tokens)
            made.most_usd = max(made.most_usd, each.most_usd)
            made.most_seconds = max(made.most_seconds, each.most_seconds)
            made.with_tokens += each.with_tokens
            made.with_cost += each.with_cost
        return made


@dataclass(frozen=True, slots=True)
class _Live:
    started: float
    reported: Spent = NOTHING


@dataclass(slots=True)
class Present:
    """Attempts under way; false when there is none."""

    live: dict[str, _Live] = field(default_factory=dict)
    _tokens: int = 0
    _usd: float = 0.0
    _starts: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.live)

    def begin(self, agent_id: str, now: float) -> None:
        """Count an attempt in."""
        self.live[agent_id] = _Live(now)
        self._starts += now

    def report(self, agent_id: str, so_far: Spent) -> None:
        """Take up what an attempt used so far."""
        before = self.live[agent_id]
        self.live[agent_id] = _Live(before.started, so_far)
        self._tokens += so_far.tokens - before.reported.tokens
        self._usd += so_far.cost_usd - before.reported.cost_usd

    def end(self, agent_id: str) -> None:
        """Count an attempt out."""
        self.report(agent_id, NOTHING)
        self._starts -= self.live.pop(agent_id).started
        if not self.live:
            # What rounding left behind must not grow from night to night.
            self._usd = self._starts = 0.0

    def only(self, agent_id: str) -> Present:
        """Return that attempt by itself."""
        made = Present()
        if agent_id in self.live:
            made.begin(agent_id, self.live[agent_id].started)
            made.report(agent_id, self.live[agent_id].reported)
        return made

    def spent(self, now: float) -> Spent:
        """Return what they used so far; their time runs by the clock."""
        return Spent(
            tokens=self._tokens,
            cost_usd=self._usd,
            seconds=max(0.0, len(self.live) * now - self._starts),
            attempts=len(self.live),
        )

    def at_most(self, floor: Spent, now: float) -> Spent:
        """Return no less than `at_least` does, without a look at each."""
        many, said = len(self.live), self.spent(now)
        return Spent(
            tokens=said.tokens + many * floor.tokens,
            cost_usd=said.cost_usd + many * floor.cost_usd,
            seconds=said.seconds + many * floor.seconds,
            attempts=many,
        )

    def at_least(self, floor: Spent, now: float) -> Spent:
        """Return what they used if none ends with less than `floor`."""
        return Spent(
            tokens=sum(max(each.reported.tokens, floor.tokens) for each in self.live.values()),
            cost_usd=sum(
                max(each.reported.cost_usd, floor.cost_usd) for each in self.live.values()
            ),
            seconds=sum(max(now - each.started, floor.seconds) for each in self.live.values()),
            attempts=len(self.live),
        )
