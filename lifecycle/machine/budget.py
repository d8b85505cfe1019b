"""The values of a budget: what attempts used, what that costs, and how much they may use.

Pure; must not know who counts or when.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.agents.outcome import Tokens

UNITS = ("tokens", "usd", "hours", "attempts")
"""The parts of a budget as people name them."""
CENT = 0.01
HAIR = 0.0000005
"""Dollars by which sums of fractions may miss a budget."""
HOUR = 3600.0
_PARTS = ("input", "cached", "output")
_NEEDED = ("input", "output")
_MILLION = 1_000_000


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


def check_price(program: str, price: Mapping[str, float]) -> None:
    """Refuse a price by which nothing can be counted."""
    form = f"{program} = {{ input = 1.25, output = 10.0 }}, in dollars per million tokens"
    for part, dollars in price.items():
        if part not in _PARTS:
            raise ValueError(f"{part!r} is not part of a price; write {form}")
        if not (math.isfinite(dollars) and dollars >= 0):
            raise ValueError(f"{dollars:g} is not a price of {part}; write {form}")
    missing = [part for part in _NEEDED if part not in price]
    if missing:
        raise ValueError(f"{program} lacks a price of {' and '.join(missing)}; write {form}")


def price_of(
    prices: Mapping[str, Mapping[str, float]], program: str, model: str
) -> Mapping[str, float] | None:
    """Return the price of a program with that model, else of the program."""
    return prices.get(f"{program}:{model}") or prices.get(program)


def cost_of(price: Mapping[str, float], tokens: Tokens, *, input_holds_cached: bool) -> float:
    """Return dollars. What a program counts beside input and output costs as one of these."""
    plain = tokens.input - tokens.cached if input_holds_cached else tokens.input
    beside = max(0, tokens.total - plain - tokens.cached - tokens.output)
    thought = min(tokens.reasoning, beside)  # some count it among the output
    dollars = (
        (plain + beside - thought) * price["input"]
        + tokens.cached * price.get("cached", price["input"])
        + (tokens.output + thought) * price["output"]
    )
    return dollars / _MILLION
