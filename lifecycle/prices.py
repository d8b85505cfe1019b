"""What tokens cost at the prices that a person set. Pure; must not know who used them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.agents.outcome import Tokens

_PARTS = ("input", "cached", "output")
_NEEDED = ("input", "output")
_MILLION = 1_000_000


def check_price(program: str, price: Mapping[str, float]) -> None:
    """Refuse a price by which nothing can be counted."""
    form = f"{program} = {{ input = 1.25, output = 10.0 }}, in dollars per million tokens"
    for part, dollars in price.items():
        if part not in _PARTS:
            raise ValueError(f"{part!r} is no part of a price; write {form}")
        if not (math.isfinite(dollars) and dollars >= 0):
            raise ValueError(f"{dollars:g} is no price of {part}; write {form}")
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
