"""What attempts used in a span of time, and which of it led to nothing: for the API and the page.

A cost that no program told is unknown, and never counts as zero. Must not change a record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from lifecycle.store.plain_queries import read_ended_attempts, read_ends
from orchestrator.control import costs

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.control.costs import Rows, UsageLine

SIGNALS = ("task_complete", "question", "blocked", "pr_created")
"""Outcomes by which an attempt says what it came to; every other one is a failure."""
Ended = Literal["well", "badly", "unknown"]


class SpentLineForm(TypedDict):
    """What attempts of one kind used together."""

    name: str
    attempts: int
    tokens: int
    attempts_with_tokens: int
    cost_usd: float | None
    """null where no attempt told it; a lower bound where `attempts_with_cost` is less than all"""
    attempts_with_cost: int
    seconds: float
    attempts_badly: int
    """that failed, or whose gates were red: they led to nothing yet"""
    badly_usd: float | None
    badly_with_cost: int


class SpentForm(TypedDict):
    """What one attempt used."""

    agent_id: str
    task_id: str
    title: str
    """empty where its record is gone"""
    plan: str
    attempt: int
    program: str
    model: str
    at: float
    """when it ended"""
    seconds: float
    tokens: int
    cached_tokens: int
    cost_usd: float | None
    outcome: str
    ended: Ended


class EndsForm(TypedDict):
    """How the lifecycles went that ended."""

    ended: int
    accepted: int
    success_rate: float | None
    mean_seconds: float | None


class CostsForm(TypedDict):
    """What attempts used that ended since an instant."""

    since: float
    until: float
    by: str
    lines: list[SpentLineForm]
    total: SpentLineForm
    cached_tokens: int
    lifecycles: EndsForm
    attempts: list[SpentForm]
    """the newest, as many as were asked for"""


class BudgetForm(TypedDict):
    """One limit of a budget."""

    scope: Literal["lifecycle", "plan", "day"]
    name: str
    what: Literal["tokens", "usd", "hours", "attempts"]
    budget: float
    used: float
    left: float
    exact: bool
    """false where attempts did not tell what they used"""


class RestForm(TypedDict):
    """An agent program that takes no attempt for now."""

    program: str
    why: str
    until: float | None


class BudgetsForm(TypedDict):
    """Every limit that holds now."""

    items: list[BudgetForm]
    programs: list[RestForm]
    """those at a usage limit, as some lifecycle found out"""


@dataclass(frozen=True, slots=True)
class SpentView:
    """The rows of a span, each with how its attempt ended."""

    rows: Rows

    @property
    def badly(self) -> Rows:
        """Those that led to nothing."""
        return [row for row in self.rows if row["ended"] == "badly"]


def spent_since(database: Path, since: float) -> SpentView:
    """Return what attempts used that ended since then, and how they ended as far as it is known."""
    if not database.exists():
        return SpentView([])
    rows = read_ended_attempts(database, since)
    for row in rows:
        row["ended"] = _ended(row["outcome"], red=bool(row["red"]))
    return SpentView(rows)


def _ended(outcome: str, *, red: bool) -> Ended:
    if not outcome:
        return "unknown"
    return "badly" if red or outcome not in SIGNALS else "well"


def costs_form(database: Path, since: float, until: float, by: str, attempts: int) -> CostsForm:
    """Return what attempts used since then."""
    return form_of(spent_since(database, since), database, since, until, by, attempts)


def form_of(  # noqa: PLR0913, PLR0917  # as above, and what was read
    view: SpentView, database: Path, since: float, until: float, by: str, attempts: int
) -> CostsForm:
    """Return what attempts used since then, of what was read of them."""
    badly = {line.name: line for line in costs.grouped(view.badly, by)}
    ends = costs.ends_since(read_ends(database, since) if database.exists() else (), since)
    newest: list[Any] = [
        {name: row[name] for name in SpentForm.__annotations__}
        for row in view.rows[: -attempts - 1 : -1]
    ]
    told: Any = ends.to_json()
    return {
        "since": since,
        "until": until,
        "by": by,
        "lines": [_line(line, badly.get(line.name)) for line in costs.grouped(view.rows, by)],
        "total": _line(costs.total(view.rows), costs.total(view.badly)),
        "cached_tokens": sum(row["cached_tokens"] for row in view.rows),
        "lifecycles": told,
        "attempts": newest,
    }


def _line(line: UsageLine, badly: UsageLine | None) -> SpentLineForm:
    told: Any = line.to_json() | {
        "attempts_badly": badly.attempts if badly else 0,
        "badly_usd": badly.cost_usd if badly and badly.with_cost else None,
        "badly_with_cost": badly.with_cost if badly else 0,
    }
    form: SpentLineForm = told
    return form
