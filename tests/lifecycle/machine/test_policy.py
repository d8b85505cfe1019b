"""The arithmetic of waiting."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lifecycle.machine.policy import Policy, delay
from tests.lifecycle.machine.walking import WALKS


def test_the_first_wait_is_the_interval_itself() -> None:
    assert delay(Policy(retry_interval=30), 1) == 30


def test_no_interval_is_no_wait() -> None:
    assert delay(Policy(retry_interval=0), 7) == 0


def test_lifecycles_that_failed_together_do_not_come_back_together() -> None:
    assert len({delay(Policy(seed=seed), 3) for seed in range(50)}) > 40


@WALKS
@given(
    interval=st.floats(0, 86_400),
    cap=st.floats(0, 604_800),
    nth=st.integers(1, 10_000),
    seed=st.integers(0, 2**32),
)
def test_no_wait_exceeds_the_cap(interval: float, cap: float, nth: int, seed: int) -> None:
    policy = Policy(retry_interval=interval, retry_interval_cap=cap, seed=seed)
    assert 0 <= delay(policy, nth) <= cap


@WALKS
@given(seed=st.integers(0, 2**32), nth=st.integers(2, 6))
def test_waits_double_a_quarter_up_or_down(seed: int, nth: int) -> None:
    wait = delay(Policy(retry_interval=1, retry_interval_cap=1000, seed=seed), nth)
    assert 0.75 <= wait / 2 ** (nth - 1) <= 1.25
