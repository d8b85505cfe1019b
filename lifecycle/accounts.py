"""The running sums of a runner, and what they mean for the next attempt and for those under way.

Owns which attempts may begin under the budgets of lifecycle, plan and day. Reads the store once, at
the start; after that it is told, and answers without waiting. Must not end or begin anything.

How a shared budget is held: an attempt under way counts with what it reported, and at least with
`GROWTH` times the largest attempt seen in that scope. Another may begin only if all those together
leave something. So a budget is passed by the usage of one attempt at most, as long as programs
report while they run, or none uses more than `GROWTH` times the largest before it.

One that worked and told nothing is charged what its program is known to use; while nothing is known
of it, a budget in tokens or dollars ends it after `SILENT` of those.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING

from lifecycle.machine.money import NO_LIMIT, UNITS, Budget, Spent, unheld
from lifecycle.tallies import Known, Past, Present

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import tzinfo

    from lifecycle.clock import Clock
    from lifecycle.plan import Allowance, PlanMark, Task
    from lifecycle.record import Spending
    from lifecycle.settings import Settings
    from lifecycle.store.port import LifecycleStore

GROWTH = 2
"""How much larger than the largest so far an attempt may turn out without harm."""
SILENT = 3
"""Attempts of a program in a scope that worked and told nothing, while nothing is known of that
program: after so many a budget in what they keep silent about cannot be held."""
REMEMBERED_DAYS = 8
"""Days whose attempts tell how large one may be, and to which the clock may be set back."""
KEPT = 400 * 86_400.0
"""Seconds that the spending of an attempt is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """The budgets that hold for one lifecycle; those of plan and day it shares with others."""

    lifecycle: Budget = NO_LIMIT
    plan: Budget = NO_LIMIT
    day: Budget = NO_LIMIT
    plan_name: str = ""

    @classmethod
    def of(cls, settings: Settings, task: Task, plan: PlanMark) -> Budgets:
        """Return what task and plan say, and where they say nothing, the settings."""
        return cls(
            lifecycle=budget_of(task.budget, settings, ""),
            plan=budget_of(plan.budget, settings, "plan_"),
            day=budget_of(None, settings, "day_"),
            plan_name=plan.name,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the budgets say of an attempt."""

    over: str = ""
    """The budget that is used up: it must not begin; one under way must be ended."""
    hold: bool = False
    """It could pass a budget together with those under way: ask again once one of them ended."""
    why: str = ""
    """The budget because of which it is held."""


_GO = Verdict()
_NO_PAST, _NOBODY = Past(), Present()
"""Of a scope that nobody has used yet; never written to."""


@dataclass(slots=True)
class _Life:
    """What one lifecycle used, and the attempt that was booked last."""

    birth: str
    attempt: int = 0
    last: Spending | None = None
    past: Past = field(default_factory=Past)


class Accounts:
    """The sums per lifecycle, plan and local calendar day; `zone` None for that of the machine.

    `freed` is called when an attempt came off the sums of those under way.
    """

    def __init__(
        self,
        store: LifecycleStore,
        clock: Clock,
        *,
        zone: tzinfo | None = None,
        freed: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._clock, self._zone, self._freed = store, clock, zone, freed
        self._lives: dict[str, _Life] = {}
        self._plans: defaultdict[str, Past] = defaultdict(Past)
        self._days: defaultdict[date, Past] = defaultdict(Past)
        self._now: Present = Present()
        self._of_plan: defaultdict[str, Present] = defaultdict(Present)
        self._plan_of: dict[str, str] = {}
        self._known = Known()
        self._today: tuple[float, float, date] = (0.0, 0.0, date.min)

    async def load(self) -> None:
        """Learn what was spent before; also lets go of what is older than `KEPT`."""
        now = self._clock.now()
        await self._store.forget_spending(now, KEPT)
        sums = await self._store.spending_sums()
        recent = self._start(self._day(now) - timedelta(days=REMEMBERED_DAYS - 1))
        spendings = await self._store.spendings(recent)
        self._lives.clear()
        self._plans.clear()
        self._days.clear()
        self._known = Known()
        for each in sorted(sums, key=lambda each: each.ended):
            life = self._life(each.agent_id, each.birth)
            life.attempt = max(life.attempt, each.last_attempt)
            life.past.add_sum(each)
            self._plans[each.plan].add_sum(each)
            self._known.add_sum(each)
        for spending in spendings:
            self._days[self._day(spending.at)].add(spending)
            mine = self._lives[spending.agent_id]
            if (spending.birth, spending.attempt) == (mine.birth, mine.attempt):
                # An attempt that a runner's end cut short is booked once more when it is repeated.
                mine.last = spending

    async def meet(self, agent_id: str) -> None:
        """Learn what a lifecycle used before, as its loop begins; harmless where it is known."""
        if agent_id in self._lives:
            return
        for spending in await self._store.spendings(agent_id=agent_id):
            life = self._life(agent_id, spending.birth)
            life.attempt, life.last = spending.attempt, spending
            life.past.add(spending)

    def part(self, agent_id: str) -> None:
        """Let go of a lifecycle whose loop is over; plan and day go on counting what it used."""
        self._lives.pop(agent_id, None)

    def started(self, agent_id: str, plan: str) -> None:
        """Count an attempt as under way from now on."""
        self._leave(agent_id)
        now = self._clock.now()
        self._plan_of[agent_id] = plan
        self._now.begin(agent_id, now)
        self._of_plan[plan].begin(agent_id, now)

    def reports(self, agent_id: str, so_far: Spent, *, program: str = "", model: str = "") -> None:
        """Take up what an attempt says it used so far, in place of what it said before.

        How long it runs is known here; what is said about that is passed over. Where it names no
        cost yet, its tokens count at the price they usually have.
        """
        if agent_id in self._plan_of:
            if so_far.tokens and not so_far.cost_usd:
                so_far = self._priced(agent_id, so_far, program, model)
            self._now.report(agent_id, so_far)
            self._of_plan[self._plan_of[agent_id]].report(agent_id, so_far)

    def charged(self, spending: Spending) -> Spending:
        """Return what an attempt used with what is reckoned for it if it kept silent.

        To be asked once at each end of a process, before that is written down and booked.
        """
        life = self._lives.get(spending.agent_id)
        before = life.last if life is not None and life.birth == spending.birth else None
        again = before is not None and before.attempt == spending.attempt
        return self._known.charged(spending, before if again else None)

    def booked(self, spending: Spending) -> None:
        """Count an attempt that ended; the same one again takes its own place."""
        self._leave(spending.agent_id)
        life = self._life(spending.agent_id, spending.birth)
        if spending.attempt > life.attempt:
            self._add(life, spending)
        elif spending.attempt == life.attempt and life.last is not None:
            before = life.last
            for past in (life.past, self._plans[before.plan], self._past_of(before.at)):
                past.take_off(before)
            self._known.take_off(before)
            self._add(life, spending)
        self._freed()

    def gone(self, agent_id: str) -> None:
        """Forget an attempt that was never begun, or of which nobody can say anything."""
        if self._leave(agent_id):
            self._freed()

    def admit(
        self,
        agent_id: str,
        budgets: Budgets,
        *,
        birth: str | None = None,
        programs: Collection[str] = (),
    ) -> Verdict:
        """Say whether an attempt may begin, and count it as under way if so."""
        verdict = self.verdict(agent_id, budgets, birth=birth, programs=programs)
        if not verdict.over and not verdict.hold:
            self.started(agent_id, budgets.plan_name)
        return verdict

    def verdict(
        self,
        agent_id: str,
        budgets: Budgets,
        *,
        birth: str | None = None,
        programs: Collection[str] = (),
    ) -> Verdict:
        """Say what the budgets mean for the attempt under way, else for the next one.

        Without `birth` the latest lifecycle of this agent is meant. `programs` are those that the
        next one may be; without, it may be any.
        """
        now, live = self._clock.now(), agent_id in self._plan_of
        name = self._plan_of[agent_id] if live else budgets.plan_name
        scopes = []
        if budgets.lifecycle:
            own, mine = self._own(agent_id, birth), self._now.only(agent_id)
            scopes.append((budgets.lifecycle, own, mine, "the lifecycle"))
        if budgets.plan:
            plan, shared = self._plans.get(name) or _NO_PAST, self._of_plan.get(name) or _NOBODY
            scopes.append((budgets.plan, plan, shared, "the plan"))
        if budgets.day:
            scopes.append((budgets.day, self._past_of(now), self._now, "the day"))
        for budget, past, present, scope in scopes:
            if over := budget.over(_used(past, present, now, live=live), scope):
                return Verdict(over=over)
            # One under way may be the first to tell: this only stops who is about to begin.
            if not live and (over := self._unheld(budget, past, scope, programs)):
                return Verdict(over=over)
        for budget, past, present, scope in () if live else scopes:
            known = past if present is not self._now else Past.joined(self._days.values())
            if present and _crowded(budget, past, known, present, now):
                return _held(scope, present)
        return _GO

    def _unheld(self, budget: Budget, past: Past, scope: str, programs: Collection[str]) -> str:
        """Say of which budget nobody tells how much of it is used."""
        known = self._known
        for unit, limit, missing, told in (
            ("tokens", budget.tokens, past.missing_tokens, known.most_tokens),
            ("dollars", budget.cost_usd, past.missing_usd, known.most_usd),
        ):
            for program in () if limit is None else programs or missing:
                if program not in told and missing.get(program, 0) >= SILENT:
                    return unheld(scope, missing[program], unit)
        return ""

    def _priced(self, agent_id: str, so_far: Spent, program: str, model: str) -> Spent:
        life = self._lives.get(agent_id)
        last = life.last if life is not None else None
        if last is not None and program in ("", last.program):
            program, model = last.program, model or last.model
        price = self._known.usual_price(program, model)
        return so_far if price is None else replace(so_far, cost_usd=so_far.tokens * price)

    def _own(self, agent_id: str, birth: str | None) -> Past:
        life = self._lives.get(agent_id)
        return _NO_PAST if life is None or birth not in (None, life.birth) else life.past

    def spent(self, *, agent_id: str | None = None, plan: str | None = None) -> Spent:
        """Return what a lifecycle or a plan used so far, with what is under way; else the day."""
        now = self._clock.now()
        if agent_id is not None:
            life = self._lives.get(agent_id)
            past = life.past if life is not None else Past()
            present = self._now.only(agent_id)
        elif plan is not None:
            past, present = self._plans.get(plan) or Past(), self._of_plan.get(plan) or Present()
        else:
            past, present = self._past_of(now), self._now
        return past.spent + present.spent(now)

    def _life(self, agent_id: str, birth: str) -> _Life:
        life = self._lives.get(agent_id)
        if life is None or life.birth != birth:
            life = self._lives[agent_id] = _Life(birth)
        return life

    def _add(self, life: _Life, spending: Spending) -> None:
        life.attempt, life.last = spending.attempt, spending
        for past in (life.past, self._plans[spending.plan], self._past_of(spending.at)):
            past.add(spending)
        self._known.add(spending)

    def _leave(self, agent_id: str) -> bool:
        plan = self._plan_of.pop(agent_id, None)
        if plan is None:
            return False
        self._now.end(agent_id)
        self._of_plan[plan].end(agent_id)
        if not self._of_plan[plan]:
            del self._of_plan[plan]
        return True

    def _past_of(self, at: float) -> Past:
        """Return the sums of a day, and let go of days long past."""
        day = self._day(at)
        if day not in self._days and len(self._days) >= REMEMBERED_DAYS:
            del self._days[min(self._days)]
        return self._days[day]

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


def _crowded(budget: Budget, past: Past, known: Past, present: Present, now: float) -> bool:
    """Tell whether those under way could use up a budget before another one begins."""
    if (budget.tokens is not None and not known.with_tokens) or (
        budget.cost_usd is not None and not known.with_cost
    ):
        return True  # nothing is known yet of how much one may use
    floor = Spent(
        tokens=GROWTH * known.most_tokens,
        cost_usd=GROWTH * known.most_usd,
        # The clock ends all of them on time, so there is no need to think of longer ones.
        seconds=known.most_seconds,
    )
    if not budget.over(past.spent + present.at_most(floor, now), "it"):
        return False  # nearly always; spares a look at each of them
    return bool(budget.over(past.spent + present.at_least(floor, now), "it"))


def _used(past: Past, present: Present, now: float, *, live: bool) -> Spent:
    """Return what is used as the next attempt sees it, or one under way."""
    used = past.spent + present.spent(now)
    # One under way was let in by the number of attempts; who begins counts those booked.
    return replace(used, attempts=0 if live else past.spent.attempts)


def _held(scope: str, present: Present) -> Verdict:
    many = len(present.live)
    these = "an attempt" if many == 1 else f"{many} attempts"
    return Verdict(hold=True, why=f"budget of {scope}: {these} under way may use up the rest")
