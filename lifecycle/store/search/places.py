"""Where in a lifecycle something was found: the text around it, its kind and its attempt.

Must not decide what is found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lifecycle.store.search.texts import KINDS, PIECE, TEXT, attempt_before

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

MARK, END = "\x02", "\x03"
_TOKENS = 28
_FEW = 3
"""Places of one lifecycle that are told."""


@dataclass(frozen=True, slots=True)
class FoundPlace:
    """Where something was found in a lifecycle."""

    kind: str
    attempt: int
    """0 where it belongs to none."""
    parts: tuple[tuple[str, bool], ...]
    """The text around it in pieces, each with whether it is what was asked for."""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A lifecycle in which everything was found."""

    cursor: int
    places: tuple[FoundPlace, ...]


def hits_on(index: sqlite3.Connection, match: str, page: Sequence[int]) -> tuple[SearchHit, ...]:
    """Return the lifecycles of a page, given by their cursors, the newest first."""
    if not page:
        return ()
    # Between the first and the last of a page may be many that are not on it.
    wanted = f"rowid IN ({', '.join(map(str, page))})"
    shown = ", ".join(
        f"iif({wanted}, snippet(fts, {at}, '{MARK}', '{END}', '…', {_TOKENS}), ''), "
        f"iif({wanted}, {kind}, '')"
        for at, kind in enumerate(KINDS)
    )
    rows = index.execute(
        f"SELECT rowid, {wanted}, {shown} FROM fts "  # noqa: S608  # numbers, and our own text
        "WHERE fts MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid DESC",
        (match, page[-1], page[0]),
    )
    return tuple(SearchHit(row[0], _places(row[2:])) for row in rows if row[1])


def _places(row: Sequence[str | None]) -> tuple[FoundPlace, ...]:
    found = [
        place_of(kind, snippet, row[2 * at + 1] or "")
        for at, kind in enumerate(KINDS)
        if MARK in (snippet := row[2 * at] or "")
    ]
    return tuple(found[:_FEW])


def place_of(kind: str, snippet: str, column: str) -> FoundPlace:
    """Return the place that a snippet shows: the piece of the column in which the first mark is."""
    first = snippet.index(MARK)
    start = max(snippet.rfind(TEXT, 0, first), snippet.rfind(PIECE, 0, first)) + 1
    end = snippet.find(PIECE, first)
    shown = snippet[start:] if end < 0 else snippet[start:end]
    core = snippet[: end if end >= 0 else None].replace(MARK, "").replace(END, "")
    at = column.find(core.strip("…").strip()) + len(core.strip("…").strip()) - 1
    attempt = attempt_before(column, max(0, at))
    parts = list[tuple[str, bool]]()
    for number, piece in enumerate(shown.strip().split(MARK)):
        marked, ended, rest = piece.partition(END)
        if number and ended:
            parts += [(marked, True), (rest, False)]
        else:
            parts.append((piece, False))
    return FoundPlace(kind, attempt, tuple((text, asked) for text, asked in parts if text))
