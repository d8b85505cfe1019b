"""Search as commands, API and pages ask for it: lifecycles, and where in them something was found.

Must not change a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from lifecycle.paths import Paths
from lifecycle.state_words import RECORD_STATES, meant, spelled
from lifecycle.store.plain_queries import read_rows
from lifecycle.store.search.index import SearchIndex
from orchestrator.wording.lifecycle_row import LifecycleRow, row_of

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.store.search.index import IndexProgress, SearchAnswer
    from orchestrator.wording.lifecycle_row import Columns

KINDS_IN_WORDS = {
    "task": "task",
    "words": "agent's words",
    "people": "people's words",
    "checks": "gate or CI output",
    "facts": "journal",
    "summary": "summary",
}
"""Every kind of text that is searched, and what people call it; a test compares them."""


class PartForm(TypedDict):
    """A piece of text."""

    text: str
    marked: bool
    """whether it is what was asked for"""


class PlaceForm(TypedDict):
    """One place in which something was found."""

    kind: str
    attempt: int | None
    parts: list[PartForm]
    """plain text, not HTML"""


class FoundForm(TypedDict):
    """A lifecycle in which everything was found."""

    lifecycle: LifecycleRow
    title: str
    found: list[PlaceForm]
    """at most three places"""


class IndexForm(TypedDict):
    """How far the search index is."""

    whole: bool
    taken_in: int
    of: int
    """lifecycles"""


class SearchForm(TypedDict):
    """What was found, the newest lifecycle first."""

    items: list[FoundForm]
    next: int | None
    """`cursor` of the next page; null after the last"""
    by_state: dict[str, int]
    """all lifecycles that fit, by state, whatever `state` was asked for"""
    index: IndexForm


def index_of(repo: Path) -> SearchIndex:
    """Return the search index of a repository."""
    paths = Paths.of(repo)
    return SearchIndex(paths.database, paths.search, paths.root / "summaries")


def found_form(
    database: Path, answer: SearchAnswer, progress: IndexProgress, present: float, *, runs: bool
) -> SearchForm:
    """Return what was found, with the rows of the lifecycles as they are now."""
    cursors = [hit.cursor for hit in answer.hits]
    rows = {row["cursor"]: row for row in read_rows(database, cursors=cursors)} if cursors else {}
    return {
        "items": [
            {
                "lifecycle": row_of(rows[hit.cursor], present, runs=runs),
                "title": title_of(rows[hit.cursor]),
                "found": [
                    {
                        "kind": place.kind,
                        "attempt": place.attempt or None,
                        "parts": [{"text": text, "marked": asked} for text, asked in place.parts],
                    }
                    for place in hit.places
                ],
            }
            for hit in answer.hits
            if hit.cursor in rows
        ],
        "next": answer.next,
        "by_state": {
            spelled(word): answer.by_state[word]
            for word in RECORD_STATES
            if word in answer.by_state
        },
        "index": {
            "whole": progress.whole,
            "taken_in": progress.done,
            "of": progress.of,
        },
    }


def states_meant(words: list[str]) -> list[str]:
    """Return the words of the index for states as somebody spells them."""
    return [word for text in words if (word := meant(text))]


def title_of(columns: Columns) -> str:
    """Return the title of a task, else the first line of its text, else its id."""
    task = (columns["facts"] or {}).get("task")
    title = task.get("title") if isinstance(task, dict) else ""
    first = str(columns["task"]).strip().partition("\n")[0]
    return str(title or first or columns["task_id"])
