"""What was done, night by night: for the API and the page. Must not change a record."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypedDict

from lifecycle.state_words import NEEDS_YOU, RECORD_STATES, spelled, word_of
from lifecycle.store.plain_queries import read_rows, read_spent, read_states
from orchestrator.control.costs import night_of
from orchestrator.control.search import title_of
from orchestrator.wording.lifecycle_row import LifecycleRow, row_of, word_in

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from orchestrator.wording.lifecycle_row import Columns

_STEP = 200
_SEARCHED = 4000
"""Records that one page looks through for states; a page may then be short."""


class PastForm(TypedDict):
    """A lifecycle of a night."""

    lifecycle: LifecycleRow
    title: str


class NightForm(TypedDict):
    """What was begun between an evening and the next one."""

    begins: float
    ends: float
    lifecycles: int
    by_state: dict[str, int]
    """of all that were begun then, also of those that are not on this page"""
    attempts: int
    """that ended then"""
    cost_usd: float | None
    """null where no attempt told it; a lower bound where `attempts_with_cost` is less than all"""
    attempts_with_cost: int
    items: list[PastForm]


class HistoryForm(TypedDict):
    """A page, the newest first."""

    nights: list[NightForm]
    next: int | None
    """`cursor` of the next page; null after the last. A night may go on there."""


def history_form(  # noqa: PLR0913  # all but the first two by name
    database: Path,
    present: float,
    *,
    words: Sequence[str] = (),
    tags: Sequence[str] = (),
    since: float | None = None,
    until: float | None = None,
    before: int | None = None,
    limit: int = 50,
    runs: bool = True,
) -> HistoryForm:
    """Return lifecycles, also earlier ones of agents that have another now, by night."""
    if not database.exists():
        return {"nights": [], "next": None}
    found: list[Columns] = []
    more = before
    for _ in range(0, _SEARCHED, _STEP):
        rows = read_rows(
            database,
            states=sorted({each for word in words for each in RECORD_STATES[word]}),
            tags=tags,
            created_after=since,
            created_before=until,
            before=more,
            limit=_STEP,
        )
        more = rows[-1]["cursor"] if len(rows) == _STEP else None
        found += [row for row in rows if not words or word_in(row, runs=runs) in words]
        if more is None or len(found) > limit:
            break
    if len(found) > limit:
        found = found[:limit]
        more = found[-1]["cursor"]
    nights: dict[float, NightForm] = {}
    for columns in found:
        begins, ends = night_of(columns["created_at"])
        if begins not in nights:
            nights[begins] = _night(database, begins, ends, runs=runs)
        row: PastForm = {
            "lifecycle": row_of(columns, present, runs=runs),
            "title": title_of(columns),
        }
        nights[begins]["items"].append(row)
    return {"nights": list(nights.values()), "next": more}


def _night(database: Path, begins: float, ends: float, *, runs: bool) -> NightForm:
    counted = Counter[str]()
    for coarse, kind, reason, number in read_states(database, begins, ends):
        try:
            word = word_of(kind, {"reason": reason}, coarse, runs=runs)
        except KeyError:
            word = NEEDS_YOU  # damaged
        counted[word] += number
    attempts, cost, told = read_spent(database, begins, ends)
    return {
        "begins": begins,
        "ends": ends,
        "lifecycles": counted.total(),
        "by_state": {spelled(word): counted[word] for word in RECORD_STATES if counted[word]},
        "attempts": attempts,
        "cost_usd": cost if told else None,
        "attempts_with_cost": told,
        "items": [],
    }
