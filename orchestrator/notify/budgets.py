"""When a budget is used up to four fifths, and when wholly: each told once.

Reads the running sums of a runner. What follows from a budget is decided elsewhere.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from lifecycle.admission.budgets import Budgets
from lifecycle.machine.budget import dollars, hours
from lifecycle.notify.message import BUDGET, Notification, id_of
from lifecycle.plan import plan_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lifecycle.machine.budget import Budget, Spent
    from lifecycle.plan import Task
    from lifecycle.record import AgentLifecycle
    from lifecycle.services import SharedServices

MARKS = (1.0, 0.8)
_NEARLY = 1e-9


def reached(shared: SharedServices, record: AgentLifecycle, task: Task) -> Iterator[Notification]:
    """Return what is to be told of the budgets that hold for a lifecycle, as they are now."""
    settings, mark = shared.settings(), plan_of(record)
    if task.budget is None and mark.budget is None and not settings.has_budget:
        return
    budgets, accounts, now = Budgets.of(settings, task, mark), shared.accounts, shared.clock.now()
    name = record.task_id or record.agent_id
    if budgets.lifecycle:
        used = accounts.spent(agent_id=record.agent_id)
        key = ("lifecycle", record.agent_id, record.birth)
        yield from _of(f"the budget of {name}", key, budgets.lifecycle, used, now, record)
    if budgets.plan:
        used = accounts.spent(plan=budgets.plan_name)
        key = ("plan", budgets.plan_name, "")
        yield from _of(f"the budget of the plan {budgets.plan_name}", key, budgets.plan, used, now)
    day = datetime.fromtimestamp(now).astimezone().date().isoformat()
    if budgets.day:
        yield from _of("today's budget", ("day", day, ""), budgets.day, accounts.spent(), now)
    if budgets.repos_day:
        what, used = "today's budget of all repositories", accounts.of_all_today()
        for found in _of(what, ("repos_day", day, ""), budgets.repos_day, used, now):
            if accounts.shared is None or accounts.shared.tells(found.id, accounts):
                yield found


def _of(  # noqa: PLR0913, PLR0917  # one budget: its name, its key, its limit, its use
    what: str,
    key: tuple[str, str, str],
    budget: Budget,
    used: Spent,
    now: float,
    record: AgentLifecycle | None = None,
) -> Iterator[Notification]:
    for unit, limit, spent, said in _units(budget, used):
        share = spent / limit
        mark = next((each for each in MARKS if share >= each - _NEARLY), None)
        if mark is None:
            continue
        percent = f"{mark:.0%}".rstrip("%")
        what_now = "it starts nothing more" if mark == 1.0 else "it goes on"
        yield Notification(
            id=id_of(BUDGET, *key, unit, limit, percent),
            at=now,
            type=BUDGET,
            reason=percent,
            about=":".join(("budget", *key, unit)),
            agent_id=record.agent_id if record else "",
            task_id=record.task_id if record else "",
            text=f"{percent} % of {what} {'are' if mark < 1 else 'is'} used: {said}; {what_now}",
            command="loopwright costs",
        )


def _units(budget: Budget, used: Spent) -> Iterator[tuple[str, float, float, str]]:
    if budget.tokens:
        said = f"{used.tokens:,} of {budget.tokens:,} tokens"
        yield "tokens", budget.tokens, used.tokens, said
    if budget.cost_usd:
        said = f"{dollars(used.cost_usd)} of {dollars(budget.cost_usd)}"
        yield "usd", budget.cost_usd, used.cost_usd, said
    if budget.seconds:
        said = f"{hours(used.seconds)} of {hours(budget.seconds)} hours"
        yield "hours", budget.seconds, used.seconds, said
    if budget.attempts:
        said = f"{used.attempts:,} of {budget.attempts:,} attempts"
        yield "attempts", budget.attempts, used.attempts, said
