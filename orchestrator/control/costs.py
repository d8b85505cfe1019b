"""What attempts used, added up as people ask for it, and how much of each budget is left.

Works on rows of `lifecycle.store.plain_queries`. A cost that no program reported is unknown, and
never counts as zero.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from lifecycle.machine.budget import HOUR, UNITS, Budget
from lifecycle.record import LOOSE
from lifecycle.store.plain_queries import (
    read_plan_marks,
    read_task_budgets,
    read_used,
    read_used_by_plans,
)
from orchestrator.errors import OrchestratorError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import tzinfo
    from pathlib import Path

Rows = list[dict[str, Any]]

UNKNOWN = "unknown"
NIGHT = "night"
EVENING = time(18)
"""When a night begins; it lasts until the next evening, so that the morning after belongs to it."""
_SPAN = re.compile(r"([1-9][0-9]{0,4})([hd])")
_OVER = "accepted"
"""The coarse state of a lifecycle whose budget does not matter any more."""


class SinceError(OrchestratorError):
    """A text does not name an instant."""


@dataclass(slots=True)
class UsageLine:
    """What attempts of one kind used together."""

    name: str
    attempts: int = 0
    tokens: int = 0
    with_tokens: int = 0
    """Attempts that reported tokens."""
    cost_usd: float = 0.0
    """Of those whose cost is known."""
    with_cost: int = 0
    seconds: float = 0.0

    def add(self, row: dict[str, Any]) -> None:
        """Count an attempt in."""
        self.attempts += 1
        self.tokens += row["tokens"]
        self.with_tokens += row["tokens"] > 0
        self.cost_usd += row["cost_usd"] or 0.0
        self.with_cost += row["cost_usd"] is not None
        self.seconds += row["seconds"]

    def add_sum(self, row: dict[str, Any]) -> None:
        """Count in what several attempts used together."""
        self.attempts += row["attempts"]
        self.tokens += row["tokens"]
        self.with_tokens += row["with_tokens"]
        self.cost_usd += row["cost_usd"]
        self.with_cost += row["with_cost"]
        self.seconds += row["seconds"]

    def to_json(self) -> dict[str, Any]:
        """Return plain values; an unknown cost is null."""
        return {
            "name": self.name,
            "attempts": self.attempts,
            "tokens": self.tokens,
            "attempts_with_tokens": self.with_tokens,
            "cost_usd": self.cost_usd if self.with_cost else None,
            "attempts_with_cost": self.with_cost,
            "seconds": self.seconds,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPart:
    """One limit of a budget, and how much of it is used."""

    scope: str
    """lifecycle, plan or day."""
    name: str
    """Of which one."""
    what: str
    """tokens, usd, hours or attempts."""
    budget: float
    used: float
    """As far as programs reported it."""
    exact: bool
    """False where attempts did not report what they used: more may be used than is known."""

    @property
    def left(self) -> float:
        """How much there is at most."""
        return max(0.0, self.budget - self.used)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "scope": self.scope,
            "name": self.name,
            "what": self.what,
            "budget": self.budget,
            "used": self.used,
            "left": self.left,
            "exact": self.exact,
        }


@dataclass(frozen=True, slots=True)
class EndedLifecycles:
    """How the lifecycles went that ended in a time."""

    ended: int
    accepted: int
    seconds: float
    """From creation to end, of all of them."""

    @property
    def success_rate(self) -> float | None:
        """How many of 1 were accepted; unknown where none ended."""
        return self.accepted / self.ended if self.ended else None

    @property
    def mean_seconds(self) -> float | None:
        """How long one took; unknown where none ended."""
        return self.seconds / self.ended if self.ended else None

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "ended": self.ended,
            "accepted": self.accepted,
            "success_rate": self.success_rate,
            "mean_seconds": self.mean_seconds,
        }


def ends_since(ends: Iterable[tuple[str, float, float]], since: float) -> EndedLifecycles:
    """Count the lifecycles (coarse state, creation, end) that ended since an instant."""
    found = [(state, end - start) for state, start, end in ends if end >= since]
    accepted = sum(state == _OVER for state, _ in found)
    return EndedLifecycles(len(found), accepted, sum(taken for _, taken in found))


def instant_of(
    text: str, now: float, zone: tzinfo | None = None, *, option: str = "--since"
) -> float:
    """Return the instant of `night`, `12h`, `7d` (this day and six before it) or a date."""
    if text == NIGHT:
        return night_of(now, zone)[0]
    if found := _SPAN.fullmatch(text):
        number, unit = int(found[1]), found[2]
        if unit == "h":
            return now - number * HOUR
        return _start(_day(now, zone) - timedelta(days=number - 1), zone)
    try:
        return _start(date.fromisoformat(text), zone)
    except (ValueError, OverflowError, OSError) as problem:
        raise SinceError(
            f"{option} {text!r} is not a valid time; use days (7d), hours (12h), a date "
            "(2027-01-31) or `night`"
        ) from problem


def night_of(at: float, zone: tzinfo | None = None) -> tuple[float, float]:
    """Return the evening before an instant, and the evening after it."""
    moment = datetime.fromtimestamp(at, tz=zone)
    day = moment.date() - timedelta(days=moment.time() < EVENING)
    first, last = (
        datetime.combine(each, EVENING, tzinfo=zone).timestamp()
        for each in (day, day + timedelta(days=1))
    )
    return first, last


def grouped(rows: Rows, by: str, zone: tzinfo | None = None) -> list[UsageLine]:
    """Add rows up: days and hours in their order, others by what was used most lately first."""
    lines: dict[str, UsageLine] = {}
    for row in rows if by in ("day", "hour") else reversed(rows):
        name = _name(row, by, zone)
        lines.setdefault(name, UsageLine(name)).add(row)
    return list(lines.values())


def total(rows: Rows) -> UsageLine:
    """Add up all."""
    made = UsageLine("total")
    for row in rows:
        made.add(row)
    return made


def budgets(
    database: Path, limits: Mapping[str, Any], now: float, zone: tzinfo | None = None
) -> list[BudgetPart]:
    """Return every limit that holds now: of this day, of each plan, of each lifecycle at hand.

    `limits` are those of the settings, by their names there. Only what has one is added up.
    """
    today, there = _day(now, zone), database.exists()
    parts: list[BudgetPart] = []
    if _limited(limits, "day_"):
        start, end = _start(today, zone), _start(today + timedelta(days=1), zone)
        line = UsageLine("day", *(read_used(database, start, end) if there else ()))
        parts += _parts("day", str(today), _budget(None, limits, "day_"), line)
    if not there:
        return parts
    marks = {name or LOOSE: own for name, own in read_plan_marks(database)}
    if _limited(limits, "plan_") or any(marks.values()):
        used = (UsageLine(name or LOOSE, *sums) for name, *sums in read_used_by_plans(database))
        plans = {line.name: line for line in used}
        for name in sorted({*plans, *marks}):
            budget = _budget(marks.get(name), limits, "plan_")
            parts += _parts("plan", name, budget, plans.get(name) or UsageLine(name))
    for agent_id, own, *sums in read_task_budgets(database, every=_limited(limits, "")):
        line = UsageLine(agent_id, *sums)
        parts += _parts("lifecycle", agent_id, _budget(own, limits, ""), line)
    return parts


def _limited(limits: Mapping[str, Any], prefix: str) -> bool:
    return any(limits.get(f"{prefix}budget_{unit}") is not None for unit in UNITS)


def _budget(own: dict[str, Any] | None, limits: Mapping[str, Any], prefix: str) -> Budget:
    return Budget.of(own or {}, {unit: limits.get(f"{prefix}budget_{unit}") for unit in UNITS})


def _parts(scope: str, name: str, budget: Budget, line: UsageLine) -> Iterator[BudgetPart]:
    hours = None if budget.seconds is None else budget.seconds / HOUR
    given: Iterable[tuple[str, float | None, float, bool]] = (
        ("tokens", budget.tokens, line.tokens, line.with_tokens == line.attempts),
        ("usd", budget.cost_usd, line.cost_usd, line.with_cost == line.attempts),
        ("hours", hours, line.seconds / HOUR, True),
        ("attempts", budget.attempts, line.attempts, True),
    )
    for what, limit, used, exact in given:
        if limit is not None:
            yield BudgetPart(
                scope=scope, name=name, what=what, budget=limit, used=used, exact=exact
            )


def _name(row: dict[str, Any], by: str, zone: tzinfo | None) -> str:
    if by == "day":
        return str(_day(row["at"], zone))
    if by == "hour":
        return f"{datetime.fromtimestamp(row['at'], tz=zone):%Y-%m-%d %H:00}"
    if by in ("agent", "task"):
        return str(row[f"{by}_id"])
    return str(row[by] or name_of_nothing(by))


def name_of_nothing(by: str) -> str:
    """Return how a line is called whose attempts named no plan, program or model."""
    return LOOSE if by == "plan" else UNKNOWN


def _day(at: float, zone: tzinfo | None) -> date:
    return datetime.fromtimestamp(at, tz=zone).date()


def _start(day: date, zone: tzinfo | None) -> float:
    return datetime.combine(day, time.min, tzinfo=zone).timestamp()
