"""Whether and when a failed instance is started again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lifecycle.fleet.api.options import RestartPolicy, RestartPolicyType
from lifecycle.fleet.spawner.restart_policy import (
    CrashLoop,
    FailureHistory,
    GiveUp,
    Restart,
    decide,
    delay,
)

RULE = CrashLoop()
T = RestartPolicyType


def policy(kind: T, **fields: object) -> RestartPolicy:
    return RestartPolicy.model_validate({"type": kind, "use_jitter": False, **fields})


def delays(which: RestartPolicy, chance: float = 0.5) -> list[float]:
    return [delay(which, number, chance) for number in range(1, 6)]


def test_delays_go_by_the_policy() -> None:
    assert delays(policy(T.IMMEDIATE)) == [0, 0, 0, 0, 0]
    assert delays(policy(T.LINEAR, initial_delay=2)) == [2, 4, 6, 8, 10]
    assert delays(policy(T.EXPONENTIAL)) == [2, 4, 8, 16, 32]
    assert delays(policy(T.EXPONENTIAL, backoff_multiplier=3)) == [3, 9, 27, 60, 60]


@pytest.mark.parametrize("kind", [T.LINEAR, T.EXPONENTIAL])
def test_no_delay_is_longer_than_the_longest(kind: T) -> None:
    assert max(delays(policy(kind, initial_delay=2, max_delay=5))) == 5
    assert max(delays(policy(kind, initial_delay=2, max_delay=5, use_jitter=True), 1.0)) == 5


@pytest.mark.parametrize(("chance", "share"), [(0.0, 0.75), (0.5, 1.0), (1.0, 1.25)])
def test_jitter_is_a_quarter_either_way(chance: float, share: float) -> None:
    plain = policy(T.EXPONENTIAL)

    assert delay(plain.model_copy(update={"use_jitter": True}), 2, chance) == 4 * share
    assert delay(plain, 2, chance) == 4


def after(failures: list[float], restarts: int = 0) -> FailureHistory:
    history = FailureHistory(restart_count=restarts)
    for at in failures:
        history = history.failed(at, RULE)
    return history


def decided(which: RestartPolicy | None, history: FailureHistory, now: float) -> Restart | GiveUp:
    return decide(which, history, now, RULE, 0.5)


def test_without_a_policy_nothing_is_started_again() -> None:
    assert isinstance(decided(None, after([1.0]), 1.0), GiveUp)
    assert isinstance(decided(RestartPolicy.NONE, after([1.0]), 1.0), GiveUp)


def test_restarts_end_after_the_last_retry() -> None:
    which = policy(T.LINEAR, max_retries=2)

    assert decided(which, after([1.0], restarts=1), 1.0) == Restart(2.0, 2)
    given_up = decided(which, after([1.0], restarts=2), 1.0)
    assert isinstance(given_up, GiveUp)
    assert "max_retries of 2" in given_up.reason


def test_the_circuit_breaker_opens_after_failing_for_too_long() -> None:
    which = policy(T.IMMEDIATE, max_retries=10, circuit_breaker_timeout=60)

    assert isinstance(decided(which, after([0.0, 59.0]), 59.0), Restart)
    given_up = decided(which, after([0.0, 60.0]), 60.0)
    assert isinstance(given_up, GiveUp)
    assert "circuit breaker open" in given_up.reason


def test_a_healthy_moment_closes_the_circuit_and_resets_the_count() -> None:
    which = policy(T.IMMEDIATE, max_retries=1, circuit_breaker_timeout=60)
    history = after([0.0], restarts=1).healthy().failed(100.0, RULE)

    assert history.restart_count == 0
    assert decided(which, history, 100.0) == Restart(0.0, 1)


def test_a_crash_loop_ends_the_restarts_also_with_healthy_moments_between() -> None:
    which = policy(T.IMMEDIATE, max_retries=10)
    history = FailureHistory()
    for number in range(5):
        history = history.healthy().failed(number * 149.0, RULE)

    given_up = decided(which, history, 596.0)

    assert isinstance(given_up, GiveUp)
    assert "crash loop: 5 failures within 600 s" in given_up.reason
    later = history.healthy().failed(1300.0, RULE)
    assert isinstance(decided(which, later, 1300.0), Restart)


def test_without_a_rule_failures_with_healthy_moments_between_are_restarted() -> None:
    which = policy(T.IMMEDIATE, max_retries=10)
    history = FailureHistory()
    for number in range(50):
        history = history.healthy().failed(float(number), None)
        assert decide(which, history, float(number), None, 0.5) == Restart(0.0, 1)
    assert len(history.failures) == 1


def test_settings_say_what_a_crash_loop_is() -> None:
    rule = CrashLoop(failures=2, within=10.0)
    history = FailureHistory().failed(1.0, rule).failed(5.0, rule)

    assert isinstance(decide(policy(T.IMMEDIATE), history, 5.0, rule, 0.5), GiveUp)
    assert timedelta(seconds=rule.within) == timedelta(seconds=10)
