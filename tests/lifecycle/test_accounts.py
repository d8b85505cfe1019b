"""Budgets: what is counted, what is used up, and who must wait for whom."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from pydantic import ValidationError

from lifecycle.accounts import GROWTH, SILENT, Accounts, Budgets, Verdict
from lifecycle.clock import SteppedClock
from lifecycle.machine.money import Budget, Spent
from lifecycle.plan import Allowance, Plan, PlanMark, Task
from lifecycle.record import AgentLifecycle, Commit, Spending
from lifecycle.settings import Settings
from lifecycle.store.memory import MemoryStore

HOUR = 3600.0
NOON = datetime(2027, 3, 10, 12, tzinfo=UTC).timestamp()
GO = Verdict()


class Books:
    """Accounts on a stepped clock, and short words for what is told to them."""

    def __init__(
        self, zone: Any = UTC, store: MemoryStore | None = None, now: float = NOON
    ) -> None:
        self.clock = SteppedClock(now)
        self.zone = zone
        self.store = store or MemoryStore(clock=self.clock.now)
        self.freed = 0
        self.accounts = Accounts(self.store, self.clock, zone=zone, freed=self._count)

    def _count(self) -> None:
        self.freed += 1

    def spending(self, agent_id: str, attempt: int = 1, **fields: Any) -> Spending:
        return Spending(
            **{
                "agent_id": agent_id,
                "attempt": attempt,
                "birth": f"birth of {agent_id}",
                "plan": "night",
                "at": self.clock.now(),
                **fields,
            }
        )

    def book(self, agent_id: str, attempt: int = 1, **fields: Any) -> Spending:
        made = self.spending(agent_id, attempt, **fields)
        self.accounts.booked(made)
        return made

    def end(self, agent_id: str, attempt: int = 1, **fields: Any) -> Spending:
        """Count an attempt as the loop does: with what is reckoned for it."""
        made = self.accounts.charged(self.spending(agent_id, attempt, **fields))
        self.accounts.booked(made)
        return made

    def admit(self, agent_id: str, budgets: Budgets) -> Verdict:
        return self.accounts.admit(agent_id, budgets)

    async def restarted(self) -> Books:
        """Return the books of a runner that starts now on the same records."""
        made = Books(self.zone, self.store, self.clock.now())
        await made.accounts.load()
        return made


@pytest.fixture
def books() -> Books:
    return Books()


def plan(**limits: Any) -> Budgets:
    return Budgets(plan=Budget(**limits), plan_name="night")


def day(**limits: Any) -> Budgets:
    return Budgets(day=Budget(**limits), plan_name="night")


def own(**limits: Any) -> Budgets:
    return Budgets(lifecycle=Budget(**limits), plan_name="night")


@pytest.mark.parametrize(
    ("budget", "spent", "said"),
    [
        (Budget(), Spent(tokens=9, cost_usd=9, seconds=9, attempts=9), ""),
        (Budget(tokens=1_000_000), Spent(tokens=999_999), ""),
        (
            Budget(tokens=1_000_000),
            Spent(tokens=1_204_331),
            "budget of the plan: 1,204,331 of 1,000,000 tokens used",
        ),
        (Budget(cost_usd=5.0), Spent(cost_usd=4.999), ""),
        (Budget(cost_usd=5.0), Spent(cost_usd=5.02), "budget of the plan: $5.02 of $5.00 used"),
        (Budget(cost_usd=0.004), Spent(cost_usd=1), "budget of the plan: $1.00 of $0.004000 used"),
        (Budget(cost_usd=float("inf")), Spent(cost_usd=1e9), ""),
        (Budget(seconds=7200), Spent(seconds=7200), "budget of the plan: 2.0 of 2.0 hours used"),
        (Budget(seconds=60), Spent(seconds=90), "budget of the plan: 0.025 of 0.0167 hours used"),
        (Budget(attempts=12), Spent(attempts=12), "budget of the plan: 12 of 12 attempts used"),
    ],
)
def test_a_budget_is_used_up_when_all_of_it_is_used(
    budget: Budget, spent: Spent, said: str
) -> None:
    assert budget.over(spent, "the plan") == said


def test_sums_of_cents_do_not_miss_a_budget_by_a_hair() -> None:
    spent = sum((Spent(cost_usd=0.1) for _ in range(8)), Spent())

    assert spent.cost_usd < 0.8
    assert Budget(cost_usd=0.8).over(spent, "the day")


def test_task_and_plan_come_before_the_settings() -> None:
    chosen = Settings(
        budget_tokens=100, budget_hours=2.0, plan_budget_usd=3.0, plan_budget_attempts=4,
        day_budget_usd=5.0,
    )  # fmt: skip
    task = Task(id="T1", budget=Allowance(tokens=7, attempts=2))
    mark = Plan(tasks=(task,), name="night", budget=Allowance(usd=1.5)).mark()

    assert Budgets.of(chosen, task, mark) == Budgets(
        lifecycle=Budget(tokens=7, seconds=2 * HOUR, attempts=2),
        plan=Budget(cost_usd=1.5, attempts=4),
        day=Budget(cost_usd=5.0),
        plan_name="night",
    )
    assert Budgets.of(Settings(), Task(id="T1"), PlanMark()) == Budgets(plan_name="run")


@pytest.mark.parametrize(
    "wrong",
    [{"tokens": 0}, {"usd": -1.0}, {"hours": float("inf")}, {"attempts": 1.5}, {"tokens": "many"},
     {"tokens": True}, {"dollars": 3}],
    ids=str,
)  # fmt: skip
def test_a_budget_that_cannot_be_meant_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Task.model_validate({"id": "T1", "budget": wrong})
    with pytest.raises(ValidationError):
        Plan.model_validate({"tasks": [], "budget": wrong})


def test_a_lifecycle_ends_when_its_own_budget_is_used_up(books: Books) -> None:
    books.book("a", 1, tokens=60)
    assert books.admit("a", own(tokens=100)) == GO
    books.book("a", 2, tokens=60)

    assert books.admit("a", own(tokens=100)).over == (
        "budget of the lifecycle: 120 of 100 tokens used"
    )
    assert books.admit("b", own(tokens=100)) == GO, "each lifecycle has its own"


def test_what_an_attempt_reports_counts_while_it_runs(books: Books) -> None:
    assert books.admit("a", own(tokens=100)) == GO
    books.accounts.reports("a", Spent(tokens=99))
    assert books.accounts.verdict("a", own(tokens=100)) == GO
    books.accounts.reports("a", Spent(tokens=100))
    assert books.accounts.verdict("a", own(tokens=100)).over
    books.accounts.reports("a", Spent(tokens=40))
    assert books.accounts.verdict("a", own(tokens=100)) == GO, "a later report replaces it"

    books.book("a", tokens=70)

    assert books.accounts.spent(agent_id="a") == Spent(tokens=70, attempts=1), "and so does the end"


def test_a_report_of_nobody_under_way_is_passed_over(books: Books) -> None:
    books.accounts.reports("a", Spent(tokens=1000))

    assert books.admit("b", plan(tokens=10)) == GO


def test_hours_run_by_the_clock_whatever_a_program_says(books: Books) -> None:
    limits = own(seconds=HOUR)
    books.admit("a", limits)
    books.accounts.reports("a", Spent(seconds=10 * HOUR))
    assert books.accounts.verdict("a", limits) == GO

    books.clock.advance(HOUR)

    assert books.accounts.verdict("a", limits).over == (
        "budget of the lifecycle: 1.0 of 1.0 hours used"
    )


def test_the_last_attempt_of_a_budget_may_finish(books: Books) -> None:
    limits = own(attempts=1)
    assert books.admit("a", limits) == GO
    assert books.accounts.verdict("a", limits) == GO

    books.book("a")

    assert books.admit("a", limits).over == "budget of the lifecycle: 1 of 1 attempts used"


def test_attempts_of_parallel_loops_are_counted_exactly(books: Books) -> None:
    limits = plan(attempts=3)
    books.book("z")
    assert [books.admit(each, limits).hold for each in "abc"] == [False, False, True]

    books.accounts.gone("a")
    assert books.admit("c", limits) == GO, "one that never began left its place"
    books.book("b")
    assert books.admit("d", limits).hold
    books.book("c")

    assert books.admit("d", limits).over == "budget of the plan: 3 of 3 attempts used"


def test_nobody_runs_beside_the_first_attempt_of_which_nothing_is_known(books: Books) -> None:
    limits = plan(tokens=10_000)
    assert books.admit("a", limits) == GO

    held = books.admit("b", limits)

    assert held.hold
    assert held.why == "budget of the plan: an attempt under way may use up the rest"
    assert books.admit("other", Budgets(plan=limits.plan, plan_name="other")) == GO
    before = books.freed
    books.book("a", tokens=100)
    assert books.freed == before + 1
    assert [books.admit(each, limits).hold for each in "bcd"] == [False, False, False]


def test_the_largest_attempt_so_far_tells_how_many_may_run(books: Books) -> None:
    books.book("z", tokens=100)
    limits = plan(tokens=100 + 3 * GROWTH * 100)

    assert [books.admit(each, limits).hold for each in "abcd"] == [False, False, False, True]

    books.accounts.reports("a", Spent(tokens=GROWTH * 100 + 1))
    books.accounts.gone("c")
    assert books.admit("d", limits) == GO
    books.accounts.gone("d")
    books.accounts.reports("a", Spent(tokens=GROWTH * 200))
    assert books.admit("d", limits).hold, "one that reports more counts with that"


def test_without_the_waiting_the_same_night_passes_its_budget_by_three_attempts(
    books: Books,
) -> None:
    books.book("z", tokens=100)
    limits = plan(tokens=250)
    for each in "abcd":
        assert not books.accounts.verdict(each, limits).over
        books.accounts.started(each, "night")
    for each in "abcd":
        books.book(each, tokens=100)

    assert books.accounts.spent(plan="night").tokens == 500 > 250 + 100


SILENT_ONE: dict[str, Any] = {"program": "codex", "silent_tokens": 1, "silent_usd": 1}


@pytest.mark.parametrize(
    ("limits", "unit"), [(plan(tokens=10_000), "tokens"), (plan(cost_usd=10.0), "dollars")]
)
def test_a_budget_ends_after_three_attempts_that_told_nothing_of_it(
    books: Books, limits: Budgets, unit: str
) -> None:
    for number in range(1, SILENT + 1):
        assert books.admit("a", limits) == GO
        assert books.admit("b", limits).hold, "nothing is known, so they run one at a time"
        books.end("a", number, **SILENT_ONE)

    over = books.admit("b", limits).over

    assert over == (
        f"budget of the plan: 3 attempts told nothing of their {unit}, "
        "so it cannot be held; use hours or attempts"
    )
    assert books.admit("b", plan(seconds=HOUR, attempts=9)) == GO, "those hold all the same"


def test_before_it_ends_so_an_attempt_may_tell_something(books: Books) -> None:
    limits = plan(tokens=10_000)
    books.end("a", 1, **SILENT_ONE)
    books.end("a", 2, **SILENT_ONE)
    assert books.admit("b", limits) == GO
    books.end("a", 3, **SILENT_ONE)
    assert books.accounts.verdict("b", limits) == GO, "one under way may be the first to tell"

    books.end("b", program="codex", tokens=700)

    assert books.admit("a", limits) == GO
    assert books.end("a", 4, **SILENT_ONE).charged_tokens == 700


def test_a_program_that_tells_goes_on_beside_one_that_does_not(books: Books) -> None:
    limits = plan(tokens=10_000)
    books.end("z", program="claude", tokens=100)
    for number in range(1, SILENT + 1):
        books.end("a", number, **SILENT_ONE)

    assert books.accounts.verdict("b", limits, programs=("claude",)) == GO
    assert books.accounts.verdict("b", limits, programs=("codex",)).over
    assert books.accounts.verdict("b", limits, programs=("claude", "codex")).over
    assert books.accounts.verdict("b", limits).over, "it may be any"


def test_one_that_was_turned_away_is_neither_charged_nor_counted(books: Books) -> None:
    books.end("z", program="codex", tokens=100, cost_usd=1.0)
    for number in range(1, SILENT + 2):
        turned_away = books.end("a", number, program="codex")
        assert (turned_away.charged_tokens, turned_away.charged_usd) == (0, 0.0)

    assert books.admit("a", plan(tokens=10_000, cost_usd=10.0)) == GO


def test_tokens_that_name_no_cost_are_charged_at_the_price_of_their_model(books: Books) -> None:
    books.end("z", 1, program="claude", model="opus", tokens=100, cost_usd=1.0)
    books.end("z", 2, program="claude", model="opus", tokens=300, cost_usd=2.0)
    books.end("z", 3, program="claude", model="haiku", tokens=100, cost_usd=0.1)

    def charge(number: int, **fields: Any) -> float:
        return books.end("a", number, program="claude", silent_usd=1, **fields).charged_usd

    assert charge(1, model="opus", tokens=4_000) == pytest.approx(30.0)
    assert charge(2, model="haiku", tokens=4_000) == pytest.approx(4.0)
    assert charge(3, model="sonnet", tokens=4_000) == 2.0, "unknown: what the largest cost"
    assert charge(4, silent_tokens=1) == 2.0
    assert charge(5, model="opus", tokens=1) == pytest.approx(0.0075)
    assert books.accounts.spent(agent_id="a").cost_usd == pytest.approx(38.0075)


def test_what_is_reckoned_teaches_nothing(books: Books) -> None:
    books.end("z", 1, program="codex", tokens=100)
    for number in (1, 2):
        assert books.end("a", number, **SILENT_ONE).charged_tokens == 100
    assert books.end("b", **{**SILENT_ONE, "program": "claude"}).charged_tokens == 0


def test_an_interrupted_attempt_stays_charged_when_it_is_repeated(books: Books) -> None:
    books.end("z", program="codex", tokens=100)
    books.end("a", 1, **SILENT_ONE)
    again = books.end("a", 1, program="codex", tokens=30, silent_usd=1)
    assert (again.tokens, again.charged_tokens, again.processes) == (30, 100, 2)

    third = books.end("a", 1, program="codex", tokens=30, silent_tokens=1, silent_usd=1)

    assert (third.charged_tokens, third.silent_tokens) == (200, 2)
    assert books.accounts.spent(agent_id="a").tokens == 230


def test_tokens_of_a_live_attempt_count_as_dollars_at_the_known_price(books: Books) -> None:
    limits = own(cost_usd=5.0)
    assert books.admit("a", limits) == GO
    books.accounts.reports("a", Spent(tokens=9_000_000), program="claude")
    assert books.accounts.verdict("a", limits) == GO, "nothing is known of a price"
    books.end("z", program="claude", model="opus", tokens=100, cost_usd=1.0)

    books.accounts.reports("a", Spent(tokens=499), program="claude")
    assert books.accounts.verdict("a", limits) == GO
    books.accounts.reports("a", Spent(tokens=500), program="claude")
    assert (
        books.accounts.verdict("a", limits).over == "budget of the lifecycle: $5.00 of $5.00 used"
    )
    books.accounts.reports("a", Spent(tokens=500, cost_usd=0.5), program="claude")
    assert books.accounts.verdict("a", limits) == GO, "a cost that it names counts"


async def test_a_restart_knows_as_much_and_counts_the_same(books: Books) -> None:
    told: list[dict[str, Any]] = [
        {"program": "claude", "model": "opus", "tokens": 100, "cost_usd": 1.0},
        {"program": "claude", "model": "opus", "tokens": 50, "silent_usd": 1},
        {**SILENT_ONE, "program": "claude"},
        {"program": "codex", "tokens": 70, "silent_usd": 1},
        SILENT_ONE,
        SILENT_ONE,
    ]
    for number, fields in enumerate(told, start=1):
        record = AgentLifecycle(agent_id=f"agent-{number}", task="Work")
        made = books.end(record.agent_id, **fields)
        await books.store.commit(Commit(record=record, spending=made))

    again = await books.restarted()

    assert again.accounts.spent(plan="night") == books.accounts.spent(plan="night")
    assert again.accounts.spent() == Spent(tokens=460, cost_usd=2.5, attempts=6)
    both = [each.accounts.verdict("x", plan(cost_usd=9.0)).over for each in (books, again)]
    assert both[0] == both[1] != "", "three attempts of codex told no dollars"
    for fields in told:
        assert again.end("y", **fields) == books.end("y", **fields)


def test_one_that_costs_nothing_is_known_to_cost_nothing(books: Books) -> None:
    books.book("z", tokens=10, cost_usd=0.0)

    assert [books.admit(each, plan(cost_usd=1.0)).hold for each in "ab"] == [False, False]


def test_a_used_up_budget_ends_all_that_share_it(books: Books) -> None:
    books.book("z", tokens=10)
    limits = plan(tokens=100)
    for each in "ab":
        assert books.admit(each, limits) == GO
        books.accounts.reports(each, Spent(tokens=45))

    assert books.accounts.verdict("a", limits).over
    assert books.accounts.verdict("b", limits).over
    assert books.accounts.verdict("c", limits).over
    assert books.accounts.verdict("c", Budgets(plan=limits.plan, plan_name="other")) == GO


def test_an_attempt_booked_again_takes_its_own_place(books: Books) -> None:
    books.book("a", tokens=10, cost_usd=1.0)
    books.book("a", tokens=30, cost_usd=None)
    assert books.accounts.spent(agent_id="a") == Spent(tokens=30, attempts=1)
    assert books.accounts.spent(plan="night") == Spent(tokens=30, attempts=1)

    books.book("a", 2, tokens=1)
    books.book("a", 1, tokens=99)

    assert books.accounts.spent() == Spent(tokens=31, attempts=2), "an older one is counted already"


def test_a_new_lifecycle_of_the_same_agent_begins_with_nothing_spent(books: Books) -> None:
    books.book("a", 4, tokens=100)
    limits = own(tokens=100)
    assert books.accounts.verdict("a", limits).over
    assert books.accounts.verdict("a", limits, birth="another") == GO

    books.book("a", 1, tokens=5, birth="another")

    assert books.accounts.spent(agent_id="a").tokens == 5
    assert books.accounts.spent(plan="night").tokens == 105, "the plan remembers both"


async def test_a_restart_forgets_nothing(books: Books) -> None:
    record = AgentLifecycle(agent_id="a", task="Work")
    for number in (1, 2):
        spending = books.spending("a", number, tokens=40, cost_usd=0.25, seconds=HOUR)
        await books.store.commit(Commit(record=record, spending=spending))
        books.accounts.booked(spending)

    again = await books.restarted()

    for which in ({"agent_id": "a"}, {"plan": "night"}, {}):
        assert again.accounts.spent(**which) == books.accounts.spent(**which)
    assert again.admit("a", own(tokens=80)).over
    again.book("a", 2, tokens=40)
    assert again.accounts.spent().attempts == 2, "booked again after a crash, it counts once"
    assert [again.admit(each, plan(tokens=80 + 2 * GROWTH * 40)).hold for each in "bcd"] == [
        False,
        False,
        True,
    ], "the largest is remembered, too"


def test_a_day_begins_at_local_midnight() -> None:
    zone = ZoneInfo("America/New_York")
    evening = datetime(2027, 3, 13, 23, 30, tzinfo=zone)
    books = Books(zone, now=evening.timestamp())
    limits = day(tokens=100)
    books.book("a", tokens=100)
    assert books.admit("b", limits).over == "budget of the day: 100 of 100 tokens used"

    books.clock.advance(HOUR / 2)

    assert books.admit("b", limits) == GO
    books.book("b", tokens=100)
    books.clock.advance(23 * HOUR - 1)
    assert books.admit("c", limits).over, "the clocks were put forward: this day has 23 hours"
    books.clock.advance(1)
    assert books.admit("c", limits) == GO


def test_a_clock_that_is_set_forward_and_back_finds_the_day_as_it_was() -> None:
    books = Books()
    books.book("a", tokens=100)
    limits = day(tokens=100)
    books.clock.advance(timedelta(days=2).total_seconds())
    assert books.admit("b", limits) == GO
    books.book("b", tokens=1)

    books.clock.advance(-timedelta(days=2).total_seconds())

    assert books.admit("c", limits).over
    assert books.accounts.spent().tokens == 100


def test_a_clock_that_is_set_back_gives_no_time_away(books: Books) -> None:
    limits = own(seconds=HOUR)
    books.book("a", 1, seconds=HOUR - 60)
    books.admit("a", limits)
    books.clock.advance(-HOUR)

    assert books.accounts.spent(agent_id="a").seconds == HOUR - 60
    assert books.accounts.verdict("a", limits) == GO


def test_after_midnight_the_largest_of_the_days_before_is_still_known(books: Books) -> None:
    books.book("a", tokens=100)
    books.clock.advance(24 * HOUR)

    held = [books.admit(each, day(tokens=2 * GROWTH * 100)).hold for each in "abc"]

    assert held == [False, False, True]


def night(
    draw: random.Random, budgets: Budgets, *, as_it_goes: bool, kills: float = 0.0
) -> tuple[Spent, list[int]]:
    """Play a random night of parallel loops; returns what was spent, and by each attempt.

    Attempts report as they go, or only at the end; those are no larger than is reckoned with, and
    some are killed before they told anything. What these used counts as it is reckoned.
    """
    books = Books()
    live: dict[str, int] = {}
    bounds: dict[str, float] = {}
    attempts: dict[str, int] = {}
    used: list[int] = []

    def end(agent_id: str) -> None:
        tokens = live.pop(agent_id)
        if not as_it_goes:
            wanted = draw.choice((1, 10, 100, 1000)) * draw.random()
            tokens = max(1, int(min(wanted, bounds[agent_id])))
        killed = draw.random() < kills
        attempts[agent_id] = attempts.get(agent_id, 0) + 1
        told = {"silent_tokens": 1} if killed else {"tokens": tokens}
        made = books.end(agent_id, attempts[agent_id], **told)
        used.append(made.all_tokens)

    for _ in range(120):
        agent_id = f"agent-{draw.randrange(6)}"
        if agent_id not in live:
            if books.admit(agent_id, budgets) == GO:
                live[agent_id] = 0
                bounds[agent_id] = GROWTH * max(used, default=0) or float("inf")
        elif draw.random() < 0.4:
            end(agent_id)
        elif as_it_goes:
            live[agent_id] += draw.choice((1, 10, 100, 1000))
            books.accounts.reports(agent_id, Spent(tokens=live[agent_id]))
            for each in [each for each in live if books.accounts.verdict(each, budgets).over]:
                end(each)
    for each in sorted(live):
        end(each)
    return books.accounts.spent(plan="night"), used


@settings(max_examples=150, deadline=None)
@given(
    seed=some.integers(min_value=0, max_value=2**32),
    tokens=some.integers(min_value=1, max_value=5000),
    attempts=some.integers(min_value=1, max_value=40),
    as_it_goes=some.booleans(),
    of=some.sampled_from(("both", "day")),
)
def test_a_shared_budget_is_never_passed_by_more_than_one_attempt(
    seed: int, tokens: int, attempts: int, *, as_it_goes: bool, of: str
) -> None:
    budget = Budget(tokens=tokens, attempts=attempts)
    budgets = day(tokens=tokens, attempts=attempts) if of == "day" else Budgets(
        plan=budget, day=budget, plan_name="night"
    )  # fmt: skip

    spent, used = night(random.Random(seed), budgets, as_it_goes=as_it_goes)  # noqa: S311  # no secret

    assert spent.tokens == sum(used)
    assert len(used) <= attempts
    assert spent.tokens < tokens + max(used, default=0) + 1


@settings(max_examples=150, deadline=None)
@given(
    seed=some.integers(min_value=0, max_value=2**32),
    tokens=some.integers(min_value=1, max_value=5000),
    kills=some.floats(min_value=0.05, max_value=1.0),
    of=some.sampled_from(("plan", "day")),
)
def test_attempts_that_are_killed_before_they_tell_do_not_pass_it_either(
    seed: int, tokens: int, kills: float, of: str
) -> None:
    budgets = day(tokens=tokens) if of == "day" else plan(tokens=tokens)

    spent, used = night(random.Random(seed), budgets, as_it_goes=False, kills=kills)  # noqa: S311  # no secret

    assert spent.tokens == sum(used)
    assert spent.tokens < tokens + max(used, default=0) + 1
    unknown = next((number for number, each in enumerate(used) if each), len(used))
    assert unknown <= SILENT, "while nothing is known, only so many are let work"
    assert all(used[unknown:]), "from then on each of them counts"


def test_without_the_estimates_killed_attempts_go_on_for_ever(books: Books) -> None:
    limits = plan(tokens=1000)
    books.book("z", tokens=400, program="codex")
    for number in range(1, 100):
        assert books.admit("a", limits) == GO
        books.book("a", number, program="codex")

    assert books.accounts.spent(plan="night").tokens == 400


def test_one_that_met_a_limit_at_once_tells_nothing_of_what_work_costs(books: Books) -> None:
    books.book("z", cost_usd=0.0)

    assert [books.admit(each, plan(cost_usd=1.0)).hold for each in "ab"] == [False, True]
