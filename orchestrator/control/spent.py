"""What attempts used in a span of time, and which of it led to nothing: for the API and the page.

A cost that no program told is unknown, and never counts as zero. Must not change a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

from lifecycle.store.plain_queries import read_ended_attempts, read_ended_sums, read_ends
from orchestrator.control import costs
from orchestrator.control.costs import UsageLine

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.control.costs import Rows

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


def spent_since(
    database: Path, since: float, until: float, by: tuple[str, ...], attempts: int
) -> dict[str, CostsForm]:
    """Return what attempts used that ended since then, by each of these; read once for all."""
    there = database.exists()
    sums = read_ended_sums(database, since, by) if there else []
    newest = read_ended_attempts(database, since, attempts) if there and attempts else []
    for row in (*sums, *newest):
        row["ended"] = _ended(row["outcome"], red=bool(row["red"]))
    ends: Any = costs.ends_since(read_ends(database, since) if there else (), since).to_json()
    total = _line(_total(sums), _total(_badly(sums)))
    listed: list[Any] = [{name: row[name] for name in SpentForm.__annotations__} for row in newest]
    return {
        name: {
            "since": since,
            "until": until,
            "by": name,
            "lines": _lines(sums, name),
            "total": total,
            "cached_tokens": int(sum(row["cached_tokens"] for row in sums)),
            "lifecycles": ends,
            "attempts": listed,
        }
        for name in by
    }


def costs_form(database: Path, since: float, until: float, by: str, attempts: int) -> CostsForm:
    """Return what attempts used since then."""
    return spent_since(database, since, until, (by,), attempts)[by]


def _ended(outcome: str, *, red: bool) -> Ended:
    if not outcome:
        return "unknown"
    return "badly" if red or outcome not in SIGNALS else "well"


def _badly(sums: Rows) -> Rows:
    """Return those that led to nothing."""
    return [row for row in sums if row["ended"] == "badly"]


def _lines(sums: Rows, by: str) -> list[SpentLineForm]:
    badly = _grouped(_badly(sums), by)
    lines = [_line(line, badly.get(name)) for name, line in _grouped(sums, by).items()]
    return sorted(lines, key=lambda line: line["name"]) if by in ("day", "hour") else lines


def _grouped(sums: Rows, by: str) -> dict[str, UsageLine]:
    lines: dict[str, UsageLine] = {}
    for row in sums:
        name = str(row[by] or costs.name_of_nothing(by))
        lines.setdefault(name, UsageLine(name)).add_sum(row)
    return lines


def _total(sums: Rows) -> UsageLine:
    made = UsageLine("total")
    for row in sums:
        made.add_sum(row)
    return made


def _line(line: UsageLine, badly: UsageLine | None) -> SpentLineForm:
    told: Any = line.to_json() | {
        "attempts_badly": badly.attempts if badly else 0,
        "badly_usd": badly.cost_usd if badly and badly.with_cost else None,
        "badly_with_cost": badly.with_cost if badly else 0,
    }
    form: SpentLineForm = told
    return form
