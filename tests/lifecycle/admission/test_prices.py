"""Dollars out of tokens, at the prices that a person set."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from lifecycle.machine.budget import cost_of, price_of
from lifecycle.settings import Settings
from orchestrator.approval.held_settings import is_held
from runtime.agents.catalogue import BUILT_IN, built_in
from runtime.agents.outcome import Tokens
from tests.runtime.agents.recorded import ALL, replay

MILLION = 1_000_000
PRICE = {"input": 1.0, "cached": 0.1, "output": 10.0}


def cost(*, input_holds_cached: bool, **tokens: int) -> float:
    millions = Tokens(**{name: number * MILLION for name, number in tokens.items()})
    return cost_of(PRICE, millions, input_holds_cached=input_holds_cached)


def test_what_came_out_of_the_cache_is_not_paid_twice() -> None:
    assert cost(input=5, cached=3, output=1, total=6, input_holds_cached=True) == pytest.approx(
        12.3
    )
    assert cost(input=2, cached=3, output=1, total=6, input_holds_cached=False) == pytest.approx(
        12.3
    )


def test_thoughts_cost_as_output_wherever_they_are_counted() -> None:
    among = {"input": 2, "output": 3, "reasoning": 2, "total": 5}
    beside = {"input": 2, "output": 1, "reasoning": 2, "total": 5}
    assert cost(**among, input_holds_cached=True) == pytest.approx(32.0)
    assert cost(**beside, input_holds_cached=True) == pytest.approx(32.0)


def test_what_is_written_to_a_cache_costs_as_input() -> None:
    assert cost(input=1, cached=2, output=1, total=7, input_holds_cached=False) == pytest.approx(
        1 + 0.2 + 10 + 3
    )


def test_cached_tokens_without_a_price_of_their_own_cost_as_input() -> None:
    tokens = Tokens(input=2 * MILLION, cached=MILLION, total=2 * MILLION)
    price = {"input": 1.0, "output": 2.0}
    assert cost_of(price, tokens, input_holds_cached=True) == pytest.approx(2.0)


def test_adapters_say_whether_their_input_holds_what_came_out_of_the_cache() -> None:
    """A recorded run whose total is less than its parts together has counted something twice."""
    twice = set()
    for name, case in ALL:
        told = replay(name, case, live=False).usage
        if told is not None and told.total < told.input + told.output + told.cached:
            twice.add(name)
    assert {name for name in BUILT_IN if built_in(name).input_holds_cached} == twice


def test_a_price_of_a_model_comes_before_that_of_its_program() -> None:
    other = {"input": 5.0, "output": 6.0}
    prices = {"codex": PRICE, "codex:mini": other}
    assert price_of(prices, "codex", "mini") == other
    assert price_of(prices, "codex", "") == PRICE
    assert price_of(prices, "codex", "large") == PRICE
    assert price_of(prices, "gemini", "mini") is None


@pytest.mark.parametrize(
    ("price", "said"),
    [
        ({"input": 1.0}, "codex lacks a price of output"),
        ({}, "codex lacks a price of input and output"),
        ({"input": -1.0, "output": 1.0}, "-1 is not a price of input"),
        ({"input": float("nan"), "output": 1.0}, "nan is not a price of input"),
        ({"input": 1.0, "output": 1.0, "thoughts": 1.0}, "'thoughts' is not part of a price"),
    ],
)
def test_a_price_by_which_nothing_can_be_counted_is_refused(
    price: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValidationError, match=said):
        Settings(prices={"codex": price})


def test_prices_and_exemptions_of_an_agent_wait_for_a_person() -> None:
    assert is_held("prices")
    assert is_held("budget_exempt")
