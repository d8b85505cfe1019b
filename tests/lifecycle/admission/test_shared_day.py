"""The budget that all repositories of one process share in a day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lifecycle.admission.budgets import Budgets
from lifecycle.admission.shared_day import SharedDay
from lifecycle.machine.budget import Budget, Spent
from lifecycle.plan import PlanMark, Task
from lifecycle.settings import Settings
from tests.lifecycle.admission.test_budgets import Books

if TYPE_CHECKING:
    from lifecycle.admission.budgets import BudgetVerdict


def limit(**limits: Any) -> Budgets:
    return Budgets(repos_day=Budget(**limits), plan_name="night")


def joined(*names: str) -> tuple[SharedDay, dict[str, Books]]:
    day, books = SharedDay(names), {name: Books() for name in names}
    for name, each in books.items():
        each.accounts.shared = day
        day.joined(name, each.accounts)
    return day, books


def test_it_is_read_from_the_settings() -> None:
    settings = Settings(repos_day_budget_usd=5.0)
    assert settings.has_budget
    made = Budgets.of(settings, Task(id="T1"), PlanMark())
    assert made.repos_day == Budget(cost_usd=5.0)


def test_what_one_repository_used_counts_for_the_other() -> None:
    _, books = joined("app", "site")
    budgets = limit(tokens=100)
    assert books["app"].admit("a", budgets).over == ""
    books["app"].book("a", tokens=60)
    assert books["site"].admit("b", budgets).over == ""
    books["site"].accounts.reports("b", Spent(tokens=40))
    said = "budget of the day of all repositories: 100 of 100 tokens used"
    assert books["app"].admit("a2", budgets).over == said
    assert books["site"].accounts.verdict("b", budgets).over == said
    assert books["app"].admit("a2", Budgets(day=Budget(tokens=61), plan_name="x")).over == ""


def test_the_last_attempt_of_another_holds_and_its_end_lets_ask_again() -> None:
    _, books = joined("app", "site")
    budgets = limit(attempts=1)
    assert _free(books["app"].admit("a", budgets))
    held = books["site"].admit("b", budgets)
    assert (held.hold, held.over) == (True, "")
    before = books["site"].freed
    books["app"].accounts.gone("a")
    assert books["site"].freed == before + 1
    assert _free(books["site"].admit("b", budgets))


def test_nobody_begins_before_all_were_read_or_could_not_be() -> None:
    day, app = SharedDay(("app", "broken")), Books()
    app.accounts.shared = day
    day.joined("app", app.accounts)
    budgets = limit(tokens=100)
    assert app.admit("a", budgets).hold
    assert _free(app.admit("other", Budgets(plan_name="night")))
    before = app.freed
    day.settled("broken")
    assert app.freed == before + 1
    assert _free(app.admit("a", budgets))


def test_a_repository_alone_is_all_of_them() -> None:
    books = Books()
    books.book("a", cost_usd=5.0)
    assert books.admit("b", limit(cost_usd=4.0)).over.startswith("budget of the day of all")


def test_one_repository_tells_of_it_for_all() -> None:
    day, books = joined("app", "site")
    app, site = (books[name].accounts for name in ("app", "site"))
    books["app"].book("a", tokens=60)
    books["site"].book("b", tokens=30)
    assert app.of_all_today().tokens == site.of_all_today().tokens == 90
    assert day.tells("80 percent", site)
    assert not day.tells("80 percent", app)
    assert day.tells("80 percent", site), "asked again it is still its own"
    assert day.tells("100 percent", app)
    assert Books().accounts.of_all_today() == Spent()


def _free(verdict: BudgetVerdict) -> bool:
    return not verdict.over and not verdict.hold
