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

from lifecycle.admission.budgets import Accounts, Budgets, BudgetVerdict
from lifecycle.clock import SteppedClock
from lifecycle.machine.budget import Budget, Spent
from lifecycle.plan import Allowance, Plan, PlanMark, Task
from lifecycle.record import AgentLifecycle, Spending, Transaction
from lifecycle.settings import Settings
from lifecycle.store.sqlite.store import SqliteStore
from tests.fuzzing import examples

HOUR = 3600.0
NOON = datetime(2027, 3, 10, 12, tzinfo=UTC).timestamp()
GO = BudgetVerdict()
LOOPS = 6


class Books:
    """Accounts on a stepped clock, and short words for what is told to them."""

    def __init__(
        self, zone: Any = UTC, store: SqliteStore | None = None, now: float = NOON
    ) -> None:
        self.clock = SteppedClock(now)
        self.zone = zone
        self.store = store or SqliteStore.in_memory(clock=self.clock.now)
        self.records: dict[str, AgentLifecycle] = {}
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

    async def commit(self, agent_id: str, attempt: int = 1, **fields: Any) -> None:
        """Book the end of an attempt, and write it down."""
        made = self.book(agent_id, attempt, **fields)
        fresh = AgentLifecycle(agent_id=agent_id, task="Work")
        record = self.records.setdefault(agent_id, fresh)
        await self.store.commit(Transaction(record=record, spending=made))

    def admit(self, agent_id: str, budgets: Budgets) -> BudgetVerdict:
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


def test_a_review_uses_the_budgets_of_its_attempt_and_is_none(books: Books) -> None:
    books.accounts.started("a", "night")
    books.book("a", cost_usd=1.0)
    books.accounts.started("a", "night", attempts=0)
    books.accounts.reports("a", Spent(cost_usd=2.0))
    under_way = books.accounts.spent(plan="night")
    assert (under_way.attempts, under_way.cost_usd) == (1, 3.0)
    books.book("a", review=1, cost_usd=2.5)
    books.book("a", review=2, cost_usd=0.5)
    for told in (books.accounts.spent(), books.accounts.spent(agent_id="a")):
        assert (told.attempts, told.cost_usd) == (1, 4.0)
    books.book("a", cost_usd=1.5)
    assert books.accounts.spent().cost_usd == 4.5, "the attempt itself is replaced, no review is"


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


def test_a_budget_in_tokens_lets_attempts_run_side_by_side(books: Books) -> None:
    limits = plan(tokens=100)
    assert [books.admit(each, limits) for each in "abc"] == [GO, GO, GO]
    for each in "ab":
        books.book(each, tokens=50)

    assert books.accounts.verdict("c", limits).over == (
        "budget of the plan: 100 of 100 tokens used"
    ), "it ends the one that is under way, too"
    assert books.admit("a", limits).over
    before = books.freed
    books.book("c", tokens=40)
    assert books.freed == before + 1
    assert books.accounts.spent(plan="night").tokens == 140


def test_an_attempt_that_told_nothing_counts_as_nothing_but_for_its_time_and_itself(
    books: Books,
) -> None:
    books.book("a", 1, tokens=60, cost_usd=1.0)
    for number in range(2, 9):
        books.book("a", number, seconds=HOUR)

    assert books.accounts.verdict("a", own(tokens=100, cost_usd=2.0)) == GO
    assert books.accounts.spent(agent_id="a") == Spent(
        tokens=60, cost_usd=1.0, seconds=7 * HOUR, attempts=8
    )
    assert books.admit("a", own(tokens=100, attempts=8)).over
    assert books.admit("a", own(tokens=100, seconds=7 * HOUR)).over


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
    for number in (1, 2):
        await books.commit("a", number, tokens=40, cost_usd=0.25, seconds=HOUR)

    again = await books.restarted()

    for which in ({"agent_id": "a"}, {"plan": "night"}, {}):
        assert again.accounts.spent(**which) == books.accounts.spent(**which)
    assert again.admit("a", own(tokens=80)).over
    again.book("a", 2, tokens=40)
    assert again.accounts.spent().attempts == 2, "booked again after a crash, it counts once"
    assert [again.admit(each, plan(attempts=4)).hold for each in "bcd"] == [False, False, True]


async def test_a_lifecycle_whose_loop_is_over_is_forgotten_until_one_begins_again(
    books: Books,
) -> None:
    def used() -> tuple[int, int]:
        mine, shared = books.accounts.spent(agent_id="a"), books.accounts.spent(plan="night")
        return mine.tokens, shared.tokens

    await books.commit("a", 1, tokens=100)
    await books.commit("a", 2, tokens=30)
    books.accounts.part("a")
    assert used() == (0, 130), "the plan counts on"
    for _ in range(2):
        await books.accounts.meet("a")
        assert used() == (130, 130)
    await books.commit("a", 2, tokens=50)
    assert used() == (150, 150), "a repeated attempt takes its own place"


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


def night(draw: random.Random, budgets: Budgets, *, as_it_goes: bool) -> tuple[Spent, list[int]]:
    """Play a random night of parallel loops; returns what was spent, and by each attempt.

    Attempts report as they go, or only at the end, and some tell nothing.
    """
    books = Books()
    live: dict[str, int] = {}
    attempts: dict[str, int] = {}
    used: list[int] = []

    def end(agent_id: str) -> None:
        tokens = live.pop(agent_id)
        if not as_it_goes:
            tokens = draw.choice((0, 1, 10, 100, 1000))
        attempts[agent_id] = attempts.get(agent_id, 0) + 1
        books.book(agent_id, attempts[agent_id], tokens=tokens)
        used.append(tokens)

    for _ in range(120):
        agent_id = f"agent-{draw.randrange(LOOPS)}"
        if agent_id not in live:
            if books.admit(agent_id, budgets) == GO:
                live[agent_id] = 0
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


@settings(max_examples=examples(40), deadline=None)
@given(
    seed=some.integers(min_value=0, max_value=2**32),
    tokens=some.integers(min_value=1, max_value=5000),
    attempts=some.integers(min_value=1, max_value=40),
    as_it_goes=some.booleans(),
    of=some.sampled_from(("both", "day")),
)
def test_a_shared_budget_is_never_passed_by_more_than_the_attempts_under_way(
    seed: int, tokens: int, attempts: int, *, as_it_goes: bool, of: str
) -> None:
    budget = Budget(tokens=tokens, attempts=attempts)
    budgets = day(tokens=tokens, attempts=attempts) if of == "day" else Budgets(
        plan=budget, day=budget, plan_name="night"
    )  # fmt: skip

    spent, used = night(random.Random(seed), budgets, as_it_goes=as_it_goes)  # noqa: S311  # no secret

    assert spent.tokens == sum(used)
    assert len(used) <= attempts
    most = max(used, default=0)
    assert spent.tokens < tokens + (1 if as_it_goes else LOOPS) * most + 1
