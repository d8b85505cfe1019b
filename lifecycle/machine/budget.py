"""The values of a budget: what attempts used, and how much they may use.

Pure; must not know who counts or when.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

UNITS = ("tokens", "usd", "hours", "attempts")
"""The parts of a budget as people name them."""
CENT = 0.01
HAIR = 0.0000005
"""Dollars by which sums of fractions may miss a budget."""
HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What one or more attempts used, as far as it is known."""

    tokens: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0
    attempts: int = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            tokens=self.tokens + other.tokens,
            cost_usd=self.cost_usd + other.cost_usd,
            seconds=self.seconds + other.seconds,
            attempts=self.attempts + other.attempts,
        )

    def __sub__(self, other: Spent) -> Spent:
        return Spent(
            tokens=self.tokens - other.tokens,
            cost_usd=self.cost_usd - other.cost_usd,
            seconds=self.seconds - other.seconds,
            attempts=self.attempts - other.attempts,
        )


NOTHING = Spent()


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What may be used; None for as much as it takes. It is used up when all of it is used."""

    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None
    attempts: int | None = None

    @classmethod
    def of(cls, own: Mapping[str, float | None], other: Mapping[str, float | None]) -> Budget:
        """Return it from its parts by their `UNITS`: each as `own` has it, else as `other` does."""
        said = {unit: own.get(unit) for unit in UNITS}
        tokens, cost, time, attempts = (
            other.get(unit) if said[unit] is None else said[unit] for unit in UNITS
        )
        return cls(
            tokens=None if tokens is None else int(tokens),
            cost_usd=cost,
            seconds=None if time is None else time * HOUR,
            attempts=None if attempts is None else int(attempts),
        )

    def __bool__(self) -> bool:
        return (self.tokens, self.cost_usd, self.seconds, self.attempts) != (None,) * 4

    def over(self, spent: Spent, scope_name: str) -> str:
        """Say what is used up, such as 'budget of the plan: 12 of 12 attempts used'; else ''."""
        said = ""
        if self.tokens is not None and spent.tokens >= self.tokens:
            said = f"{spent.tokens:,} of {self.tokens:,} tokens"
        elif self.cost_usd is not None and spent.cost_usd > self.cost_usd - HAIR:
            said = f"{dollars(spent.cost_usd)} of {dollars(self.cost_usd)}"
        elif self.seconds is not None and spent.seconds >= self.seconds:
            said = f"{hours(spent.seconds)} of {hours(self.seconds)} hours"
        elif self.attempts is not None and spent.attempts >= self.attempts:
            said = f"{spent.attempts:,} of {self.attempts:,} attempts"
        return f"budget of {scope_name}: {said} used" if said else ""


NO_LIMIT = Budget()


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetShare:
    """What of a budget was used when an attempt was let in: what it may use is the rest."""

    scope: str
    budget: Budget
    used: Spent = NOTHING

    def over(self, so_far: Spent) -> str:
        """Say what is used up once the attempt used that; it was let in by their number."""
        used = self.used + so_far - Spent(attempts=self.used.attempts + so_far.attempts)
        return self.budget.over(used, self.scope)


def dollars(cost_usd: float) -> str:
    """Write money: in cents, and more finely where cents would hide it."""
    if abs(round(cost_usd, 2) - cost_usd) < HAIR or cost_usd >= 1:
        return f"${cost_usd:,.2f}"
    return f"${cost_usd:.4f}" if cost_usd >= CENT else f"${cost_usd:.6f}"


def hours(seconds: float) -> str:
    """Write a time in hours, as budgets are given; finely where a tenth would hide it."""
    if seconds >= HOUR:
        return f"{seconds / HOUR:,.1f}"
    return f"{seconds / HOUR:.3g}" if seconds >= 1 else "0"
