"""Allows or refuses attempts by their budgets, from the running sums of a runner.

Owns which attempts may begin under the budgets of lifecycle, plan, day, and of the day of all
repositories that the process serves. Reads the store once, at
the start; after that it is told, and answers without waiting. Must not end or begin anything.

A budget counts what programs told of ended attempts and of those under way; what was not told is
nothing, for nobody can know better. That a program tells at all is seen to before it starts, in
`unenforceable_budgets.py`. So tokens, dollars and hours are passed by no more than the attempts
that run at that moment, and attempts are counted exactly.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING

from lifecycle.admission.usage import Present
from lifecycle.machine.budget import NO_LIMIT, NOTHING, UNITS, Budget, BudgetShare, Spent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import tzinfo

    from lifecycle.admission.shared_day import SharedDay, UnderWay
    from lifecycle.clock import Clock
    from lifecycle.plan import Allowance, PlanMark, Task
    from lifecycle.record import Spending
    from lifecycle.settings import Settings
    from lifecycle.store.sqlite.store import SqliteStore

REMEMBERED_DAYS = 8
"""Days to which the clock may be set back."""
KEPT = 400 * 86_400.0
"""Seconds that the spending of an attempt is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """The budgets that hold for one lifecycle; those of plan and day it shares with others."""

    lifecycle: Budget = NO_LIMIT
    plan: Budget = NO_LIMIT
    day: Budget = NO_LIMIT
    repos_day: Budget = NO_LIMIT
    plan_name: str = ""

    @classmethod
    def set_for(cls, settings: Settings, task: Task, plan: PlanMark) -> Budgets | None:
        """Return the same; None where no budget is set."""
        unset = task.budget is None and plan.budget is None and not settings.has_budget
        return None if unset else cls.of(settings, task, plan)

    @classmethod
    def of(cls, settings: Settings, task: Task, plan: PlanMark) -> Budgets:
        """Return what task and plan say, and where they say nothing, the settings."""
        return cls(
            lifecycle=budget_of(task.budget, settings, ""),
            plan=budget_of(plan.budget, settings, "plan_"),
            day=budget_of(None, settings, "day_"),
            repos_day=budget_of(None, settings, "repos_day_"),
            plan_name=plan.name,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetVerdict:
    """What the budgets say of an attempt."""

    over: str = ""
    """The budget that is used up: it must not begin; one under way must be ended."""
    hold: bool = False
    """Those under way are the last attempts of a budget: ask again once one of them ended."""


_GO = BudgetVerdict()
_NOBODY = Present()
"""Of a plan that nobody works on; never written to."""


def _unwatched(agent_id: str) -> None:
    del agent_id


@dataclass(slots=True)
class _Life:
    """What one lifecycle used, and the attempt that was booked last."""

    birth: str
    attempt: int = 0
    last: Spending | None = None
    past: Spent = NOTHING


class Accounts:
    """The sums per lifecycle, plan and local calendar day; `zone` None for that of the machine.

    `freed` is called when an attempt came off the sums of those under way.
    """

    def __init__(
        self,
        store: SqliteStore,
        clock: Clock,
        *,
        zone: tzinfo | None = None,
        freed: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._clock, self._zone, self._freed = store, clock, zone, freed
        self.watch: Callable[[str], None] = _unwatched
        """Called with the lifecycle of which an attempt used something."""
        self.shared: SharedDay | None = None
        """The day of all repositories; without it this one is all."""
        self._lives: dict[str, _Life] = {}
        self._plans: defaultdict[str, Spent] = defaultdict(Spent)
        self._days: dict[date, Spent] = {}
        self._now: Present = Present()
        self._of_plan: defaultdict[str, Present] = defaultdict(Present)
        self._plan_of: dict[str, str] = {}
        self._today: tuple[float, float, date] = (0.0, 0.0, date.min)

    async def load(self) -> None:
        """Learn what was spent before; also drops what is older than `KEPT`."""
        now = self._clock.now()
        await self._store.forget_spending(now, KEPT)
        sums = await self._store.spending_sums()
        recent = self._start(self._day(now) - timedelta(days=REMEMBERED_DAYS - 1))
        spendings = await self._store.spendings(recent)
        self._lives.clear()
        self._plans.clear()
        self._days.clear()
        for each in sorted(sums, key=lambda each: each.ended):
            life = self._life(each.agent_id, each.birth)
            life.attempt = max(life.attempt, each.last_attempt)
            life.past += each.spent
            self._plans[each.plan] += each.spent
        for spending in spendings:
            self._to_day(spending.at, spending.spent)
            mine = self._lives[spending.agent_id]
            its_last = (spending.birth, spending.attempt) == (mine.birth, mine.attempt)
            if its_last and not spending.review:
                # An attempt that a runner's end cut short is booked once more when it is repeated.
                mine.last = spending

    async def meet(self, agent_id: str) -> None:
        """Learn what a lifecycle used before, as its loop begins; harmless where it is known."""
        if agent_id in self._lives:
            return
        for spending in await self._store.spendings(agent_id=agent_id):
            life = self._life(agent_id, spending.birth)
            life.past += spending.spent
            if not spending.review:
                life.attempt, life.last = spending.attempt, spending

    def part(self, agent_id: str) -> None:
        """Drop a lifecycle whose loop is over; plan and day still count what it used."""
        self._lives.pop(agent_id, None)

    def started(self, agent_id: str, plan: str, attempts: int = 1) -> None:
        """Count an attempt as under way from now on; or a review of its work, which is none."""
        self._leave(agent_id)
        now = self._clock.now()
        self._plan_of[agent_id] = plan
        self._now.begin(agent_id, now, attempts)
        self._of_plan[plan].begin(agent_id, now, attempts)

    def reports(self, agent_id: str, so_far: Spent) -> None:
        """Take up what an attempt says it used so far, instead of what it said before.

        How long it runs is known here; what is said about that is passed over.
        """
        if agent_id in self._plan_of:
            self._now.report(agent_id, so_far)
            self._of_plan[self._plan_of[agent_id]].report(agent_id, so_far)
            self.watch(agent_id)

    def booked(self, spending: Spending) -> None:
        """Count an attempt that ended; the same one again replaces itself."""
        self._leave(spending.agent_id)
        life = self._life(spending.agent_id, spending.birth)
        if spending.review:  # told once, in the commit of its result
            self._add(life, spending)
        else:
            self._book_attempt(life, spending)
        self._free()
        self.watch(spending.agent_id)

    def _book_attempt(self, life: _Life, spending: Spending) -> None:
        before = life.last if spending.attempt == life.attempt else None
        if before is not None:
            life.past -= before.spent
            self._plans[before.plan] -= before.spent
            if (day := self._day(before.at)) in self._days:
                self._days[day] -= before.spent
        if before is not None or spending.attempt > life.attempt:
            life.attempt, life.last = spending.attempt, spending
            self._add(life, spending)

    def _add(self, life: _Life, spending: Spending) -> None:
        life.past += spending.spent
        self._plans[spending.plan] += spending.spent
        self._to_day(spending.at, spending.spent)

    def gone(self, agent_id: str) -> None:
        """Forget an attempt that was never begun, or of which nobody can say anything."""
        if self._leave(agent_id):
            self._free()

    def admit(self, agent_id: str, budgets: Budgets, *, birth: str | None = None) -> BudgetVerdict:
        """Say whether an attempt may begin, and count it as under way if so."""
        verdict = self.verdict(agent_id, budgets, birth=birth)
        if not verdict.over and not verdict.hold:
            self.started(agent_id, budgets.plan_name)
        return verdict

    def verdict(
        self, agent_id: str, budgets: Budgets, *, birth: str | None = None
    ) -> BudgetVerdict:
        """Say what the budgets mean for the attempt under way, else for the next one.

        Without `birth` the latest lifecycle of this agent is meant.
        """
        now, live = self._clock.now(), agent_id in self._plan_of
        unread = self.shared is not None and not self.shared.complete
        hold = bool(budgets.repos_day) and unread and not live
        for scope, budget, past, present in self._scopes(agent_id, budgets, birth, now):
            used = past + present.spent(now)
            # One under way was let in by their number; who begins counts those that ended.
            if over := budget.over(replace(used, attempts=0 if live else past.attempts), scope):
                return BudgetVerdict(over=over)
            most = budget.attempts
            hold = hold or (not live and most is not None and used.attempts >= most)
        return BudgetVerdict(hold=hold) if hold else _GO

    def shares(
        self, agent_id: str, budgets: Budgets, *, birth: str | None = None
    ) -> tuple[BudgetShare, ...]:
        """Return what is used of each budget, for who holds an attempt to them elsewhere."""
        now = self._clock.now()
        return tuple(
            BudgetShare(scope=scope, budget=budget, used=past + present.spent(now))
            for scope, budget, past, present in self._scopes(agent_id, budgets, birth, now)
        )

    def _scopes(
        self, agent_id: str, budgets: Budgets, birth: str | None, now: float
    ) -> Iterator[tuple[str, Budget, Spent, Present | UnderWay]]:
        """Return each budget that is set, with what ended attempts used of it and who uses it."""
        name = self._plan_of.get(agent_id, budgets.plan_name)
        if budgets.lifecycle:
            own, mine = self._own(agent_id, birth), self._now.only(agent_id)
            yield "the lifecycle", budgets.lifecycle, own, mine
        if budgets.plan:
            plan, shared = self._plans.get(name, NOTHING), self._of_plan.get(name, _NOBODY)
            yield "the plan", budgets.plan, plan, shared
        if budgets.day:
            yield "the day", budgets.day, self._of_day(now), self._now
        if budgets.repos_day:
            name = "the day of all repositories"
            if self.shared is None:
                yield name, budgets.repos_day, self._of_day(now), self._now
            else:
                yield name, budgets.repos_day, *self.shared.of_today(now)

    def of_today(self, now: float) -> tuple[Spent, Spent]:
        """Return what ended attempts of the day used, and what those under way used so far."""
        return self._of_day(now), self._now.spent(now)

    def of_all_today(self) -> Spent:
        """Return what was used today in all repositories, with what is under way."""
        if self.shared is None:
            return self.spent()
        past, present = self.shared.of_today(self._clock.now())
        return past + present.used

    def ask_again(self) -> None:
        """Let who waits for a budget ask again."""
        self._freed()

    def _free(self) -> None:
        self._freed()
        if self.shared is not None:
            self.shared.freed(by=self)

    def _own(self, agent_id: str, birth: str | None) -> Spent:
        life = self._lives.get(agent_id)
        return NOTHING if life is None or birth not in (None, life.birth) else life.past

    def spent(self, *, agent_id: str | None = None, plan: str | None = None) -> Spent:
        """Return what a lifecycle or a plan used so far, with what is under way; else the day."""
        now = self._clock.now()
        if agent_id is not None:
            past, present = self._own(agent_id, None), self._now.only(agent_id)
        elif plan is not None:
            past, present = self._plans.get(plan, NOTHING), self._of_plan.get(plan, _NOBODY)
        else:
            past, present = self._of_day(now), self._now
        return past + present.spent(now)

    def _life(self, agent_id: str, birth: str) -> _Life:
        life = self._lives.get(agent_id)
        if life is None or life.birth != birth:
            life = self._lives[agent_id] = _Life(birth)
        return life

    def _leave(self, agent_id: str) -> bool:
        plan = self._plan_of.pop(agent_id, None)
        if plan is None:
            return False
        self._now.end(agent_id)
        self._of_plan[plan].end(agent_id)
        if not self._of_plan[plan]:
            del self._of_plan[plan]
        return True

    def _of_day(self, at: float) -> Spent:
        return self._days.get(self._day(at), NOTHING)

    def _to_day(self, at: float, spent: Spent) -> None:
        """Add to the sums of a day, and drop days long past."""
        day = self._day(at)
        if day not in self._days and len(self._days) >= REMEMBERED_DAYS:
            del self._days[min(self._days)]
        self._days[day] = self._days.get(day, NOTHING) + spent

    def _day(self, at: float) -> date:
        begin, end, today = self._today
        if begin <= at < end:
            return today
        today = datetime.fromtimestamp(at, tz=self._zone).date()
        self._today = (self._start(today), self._start(today + timedelta(days=1)), today)
        return today

    def _start(self, day: date) -> float:
        return datetime.combine(day, time.min, tzinfo=self._zone).timestamp()


def budget_of(own: Allowance | None, settings: Settings, prefix: str) -> Budget:
    """Return a budget: each part as the plan file gives it, else as the settings do."""
    return Budget.of(
        {unit: getattr(own, unit, None) for unit in UNITS},
        {unit: getattr(settings, f"{prefix}budget_{unit}") for unit in UNITS},
    )
