"""The door of a host and the budget of a token: pure rules, and what follows from them for many."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field

import pytest

from ci.errors import LimitedError, UnreachableError
from ci.http.circuit_breaker import CircuitBreaker, CircuitBreakers
from ci.http.rate_limit import RateBudget

HOUR = 3600.0
START = 1_700_000_000.0


def github(limit: int, remaining: int, reset: float, **more: str) -> dict[str, str]:
    told = {"limit": str(limit), "remaining": str(remaining), "reset": str(int(reset))}
    return {f"x-ratelimit-{name}": value for name, value in told.items()} | more


def fail(door: CircuitBreaker, now: float, times: int = 1) -> float:
    until = now
    for _ in range(times):
        until = door.failed(door.enter(now), now, "no answer", 0.5)
    return until


def test_the_door_stays_shut_for_twice_as_long_each_time_up_to_two_minutes() -> None:
    door, now, waits = CircuitBreaker("h"), 0.0, []
    fail(door, now, times=2)
    for _ in range(7):
        until = fail(door, now)
        waits.append(until - now)
        with pytest.raises(UnreachableError) as raised:
            door.enter(until - 0.001)
        assert raised.value.retry_at == until
        now = until
    assert waits == [5, 10, 20, 40, 80, 120, 120]
    door.passed()
    fail(door, now, times=2)
    door.check(now)


def test_the_time_for_which_it_is_shut_is_spread() -> None:
    waits = set()
    for chance in (0.0, 0.25, 0.999):
        door = CircuitBreaker("h")
        fail(door, 0.0, times=2)
        waits.add(round(door.failed(door.enter(0.0), 0.0, "", chance), 1))
    assert waits == {4.0, 4.5, 6.0}


def test_a_good_answer_in_between_keeps_it_open() -> None:
    door = CircuitBreaker("h")
    for _ in range(5):
        fail(door, 0.0, times=2)
        door.enter(0.0)
        door.passed()
    door.check(0.0)


def test_exactly_one_goes_in_after_the_time() -> None:
    door = CircuitBreaker("h")
    until = fail(door, 0.0, times=3)
    probe = door.enter(until)
    for _ in range(3):
        with pytest.raises(UnreachableError):
            door.enter(until)
    door.left(probe)
    again = door.enter(until)
    assert door.failed(again, until, "still no answer", 0.5) == until + 10


def test_those_who_were_inside_when_it_was_shut_say_nothing_new() -> None:
    door = CircuitBreaker("h")
    tickets = [door.enter(0.0) for _ in range(8)]
    ends = [door.failed(each, 0.0, "no answer", 0.5) for each in tickets]
    assert ends == [1.0, 2.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0]
    probe = door.enter(5.0)
    door.left(tickets[0])
    with pytest.raises(UnreachableError):
        door.enter(5.0)
    door.failed(tickets[1], 5.0, "late", 0.5)
    door.failed(probe, 5.0, "no answer", 0.5)
    with pytest.raises(UnreachableError) as raised:
        door.check(5.0)
    assert raised.value.retry_at == 15.0


def test_a_limit_shuts_it_until_its_end_and_is_no_failure() -> None:
    door = CircuitBreaker("h")
    door.limit(30.0)
    door.limit(20.0)
    with pytest.raises(LimitedError) as raised:
        door.enter(29.0)
    assert raised.value.retry_at == 30.0
    door.enter(30.0)


def test_there_is_one_door_to_a_host() -> None:
    breakers = CircuitBreakers()
    assert breakers.of("https://a") is breakers.of("https://a")
    assert breakers.of("https://a") is not breakers.of("https://b")


def test_a_budget_is_read_as_github_and_as_gitlab_tell_it() -> None:
    now = 1_700_000_000.0
    hub = RateBudget().told(github(5000, 4999, now + 60), now, counted=True)
    assert (hub.limit, hub.remaining, hub.resets_at, hub.spent) == (5000, 4999, now + 60, 1)
    lab_headers = {"ratelimit-limit": "2000", "ratelimit-remaining": "1", "ratelimit-reset": "60"}
    lab = RateBudget().told(lab_headers, now, counted=False)
    assert (lab.limit, lab.remaining, lab.resets_at, lab.spent) == (2000, 1, now + 60, 0)
    polled = hub.told(github(5000, 4998, now + 60, **{"x-poll-interval": "75"}), now, counted=True)
    assert polled.poll_interval == 75


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-ratelimit-limit": "5000"},
        github(5000, 10, 1e12),
        github(5000, -1, 1_700_000_060),
        {**github(30, 0, 1_700_000_060), "x-ratelimit-resource": "search"},
        {"x-ratelimit-limit": "nan", "x-ratelimit-remaining": "inf", "x-ratelimit-reset": "x"},
    ],
)
def test_what_makes_no_sense_leaves_the_budget_as_it_was(headers: dict[str, str]) -> None:
    now = 1_700_000_000.0
    before = RateBudget().told(github(5000, 4000, now + 60), now, counted=False)
    after = before.told(headers, now, counted=True)
    assert (after.remaining, after.spent) == (4000, 1)


def test_nobody_waits_while_there_is_plenty_or_nothing_is_known() -> None:
    assert RateBudget().pause(0.0) == 0.0
    assert RateBudget(100, 51, 1000.0).pause(0.0) == 0.0
    assert RateBudget(100, 50, 1000.0).pause(0.0) == 25.0
    assert RateBudget(100, 50, 1000.0).pause(1000.0) == 0.0


def test_the_reserve_is_left_alone_until_the_limit_starts_anew() -> None:
    assert RateBudget(100, 11, 1000.0).pause(0.0) == 1000.0
    assert RateBudget(100, 10, 1000.0).pause(0.0) == 1000.0
    assert RateBudget(100, 0, 1000.0).pause(0.0) == 1000.0
    assert RateBudget(100, 30, 1000.0, asked=0).pause(0.0, reserve=0.2) == 100.0
    assert RateBudget(100, 0, 1e9).pause(0.0) == HOUR


@dataclass
class Token:
    """A limit of so many in an hour, as a forge keeps it."""

    limit: int
    resets_at: float = START + HOUR
    used: int = 0
    refused: int = 0
    lowest: int = field(init=False)
    instants: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lowest = self.limit

    def ask(self, now: float, *, counts: bool) -> dict[str, str]:
        if now >= self.resets_at:
            self.used, self.resets_at = 0, self.resets_at + HOUR
        if counts:
            self.refused += self.used >= self.limit
            self.used += 1
            self.instants.append(now - START)
        self.lowest = min(self.lowest, self.limit - self.used)
        return github(self.limit, max(0, self.limit - self.used), self.resets_at)


def run(token: Token, runners: int, *, wish: float, hours: float, unchanged: float = 0.0) -> None:
    """Let them all ask as often as they wish and their budget lets them."""
    chance = random.Random(1)  # noqa: S311  # a simulation
    budgets = [RateBudget()] * runners
    waiting = [(START + chance.random(), number) for number in range(runners)]
    while waiting[0][0] < START + hours * HOUR:
        now, number = waiting[0]
        counts = chance.random() >= unchanged
        headers = token.ask(now, counts=counts)
        budgets[number] = budgets[number].told(headers, now, counted=counts)
        pause = max(budgets[number].pause(now), wish * (0.8 + 0.4 * chance.random()))
        heapq.heapreplace(waiting, (now + pause, number))


def test_twenty_runners_on_one_token_never_use_it_up() -> None:
    token = Token(5000)
    run(token, 20, wish=0.1, hours=3)
    assert token.refused == 0
    assert token.lowest >= 500 - 20
    # Nor does the eagerness of the first minutes leave the rest of the hour without any.
    for hour in range(3):
        asked = [at - hour * HOUR for at in token.instants if hour * HOUR <= at < (hour + 1) * HOUR]
        assert 4000 < len(asked) <= 5000
        assert all(
            sum(quarter <= at < quarter + 900 for at in asked) > 100
            for quarter in (0, 900, 1800, 2700)
        )


def test_one_runner_alone_uses_what_it_may() -> None:
    token = Token(5000)
    run(token, 1, wish=0.1, hours=1)
    assert token.refused == 0
    assert 4000 < token.used <= 4510


def test_questions_that_cost_nothing_are_hardly_slowed_down() -> None:
    token = Token(5000, used=4000)
    budget = RateBudget()
    for second in range(100):
        headers = token.ask(START + second, counts=False)
        budget = budget.told(headers, START + second, counted=False)
    assert budget.pause(START + 100) < 0.1
    assert budget.spent == 0


def test_runners_that_mostly_hear_of_nothing_new_leave_the_reserve_too() -> None:
    token = Token(5000)
    run(token, 20, wish=0.1, hours=0.9, unchanged=0.7)
    assert token.refused == 0
    assert token.lowest >= 500 - 20


def test_who_shares_a_budget_asks_less_often() -> None:
    budget = RateBudget().told(github(5000, 1000, START + HOUR), START, counted=True)
    alone = budget.pause(START)
    shared = budget.shared_by(50)
    assert shared.pause(START) == pytest.approx(50 * alone)
    later = shared.told(github(5000, 990, START + HOUR), START + 1, counted=True)
    assert later.users == 50
    fresh = later.told(github(5000, 4999, START + 2 * HOUR), START + HOUR, counted=True)
    assert (fresh.users, fresh.pause(START + HOUR)) == (50, 0.0)
