"""The board of all repositories: their rows in the same groups, and how each repository does.

A row is that of its repository's own board, at its place. Must not read any record itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from lifecycle.errors import LifecycleError
from orchestrator.terminal.text import span
from orchestrator.web.formats import dollars, many
from orchestrator.web.pages.board import GUARD, headline, row_piece
from orchestrator.web.pages.looks import GROUPS
from orchestrator.web.pages.site import piece
from orchestrator.web.reading.board import SHOWN, BoardFilter, board
from orchestrator.web.repositories.prefix import PAGES, prefixed
from templates.renderer import Html

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.runner.repositories import ServedRepository
    from orchestrator.web.reading.board import BoardForm, BoardRowForm

LASTS = 2.0
"""Seconds for which one piece is given to all who ask for the same view, if nothing changed."""
MOST_KEPT = 20
OLDEST = "what waits the longest comes first"
_ID = re.compile(r'(<li id="row-|data-event="(?:row|words):)')


@dataclass(frozen=True, slots=True)
class CommonFilter:
    """Which rows are wanted; nothing given is any."""

    repo: str = ""
    group: str = ""
    words: str = ""

    def address(self, **other: str) -> str:
        """Return the address of this view, or of one that differs from it."""
        fields = {"repo": self.repo, "group": self.group, "q": self.words, **other}
        told = urlencode({key: value for key, value in fields.items() if value})
        return f"/?{told}" if told else "/"


@dataclass(frozen=True, slots=True)
class _Row:
    """A row, and whose it is."""

    repository: ServedRepository
    row: BoardRowForm
    place: int
    """In its repository's own order."""


class CommonBoard:
    """Makes the board of all repositories; each view once for all who look at it."""

    def __init__(self, repositories: Sequence[ServedRepository]) -> None:
        self._repositories = repositories
        self._kept: dict[tuple[CommonFilter, bool], tuple[float, object, str]] = {}

    def version(self) -> object:
        """Return what changes when the board may."""
        return tuple(
            (each.status, each.trouble, each.mounted and each.mounted.services.board.version)
            for each in self._repositories
        )

    async def whole(self, asked: CommonFilter, now: float, *, operate: bool) -> str:
        """Return all below the bar at the top, with `GUARD` where the guard of forms belongs."""
        kept = self._kept.get((asked, operate))
        if kept and kept[1] == self.version() and 0 <= now - kept[0] < LASTS:
            return kept[2]
        found = await self._read(asked)
        values = self._values(found, asked, now)
        text = piece("parts/repositories.html", **values, operate=operate, guard=GUARD)
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[asked, operate] = now, self.version(), text
        return text

    def needs(self) -> int:
        """Return how many tasks need a person."""
        return sum(needs_of(each) for each in self._repositories)

    async def _read(self, asked: CommonFilter) -> list[tuple[ServedRepository, BoardForm]]:
        wanted = BoardFilter(asked.group, "", "", asked.words, everything=bool(asked.group))
        found = []
        for each in self._repositories:
            if each.mounted is None or (asked.repo and asked.repo != each.name):
                continue
            try:
                found.append((each, await board(each.mounted.services.board, wanted)))
            except LifecycleError as problem:
                each.trouble = f"its records cannot be read at present: {problem}"
        return found

    def _values(
        self, found: list[tuple[ServedRepository, BoardForm]], asked: CommonFilter, now: float
    ) -> dict[str, Any]:
        counts = {
            key: sum(each["counts"][key] for _, each in found)  # type: ignore[literal-required]
            for key in GROUPS
        }
        tabs = [(asked.address(group=""), "All", sum(counts.values()))]
        tabs += [
            (asked.address(group=key), GROUPS[key][0].replace(" outside", ""), counts[key])
            for key in GROUPS
        ]
        return {
            "headline": headline(counts["me"]),
            "summary": _summary(found, len(self._repositories), counts, now),
            "broken": [
                _told(each, now)
                for each in self._repositories
                if each.trouble and asked.repo in ("", each.name)
            ],
            "repositories": [
                {"name": "", "href": asked.address(repo=""), "bad": False, "needs": self.needs()},
                *(_tab(each, asked) for each in self._repositories),
            ],
            "here": asked.repo,
            "asked": asked,
            "tabs": tabs,
            "here_tab": 1 + list(GROUPS).index(asked.group) if asked.group else 0,
            "groups": _groups(found, asked, counts, now),
        }


def needs_of(repository: ServedRepository) -> int:
    """Return how many tasks of a repository need a person."""
    there = repository.mounted
    return 0 if there is None else int(there.services.board.needs())


def _tab(repository: ServedRepository, asked: CommonFilter) -> dict[str, Any]:
    return {
        "name": repository.name,
        "href": asked.address(repo=repository.name),
        "bad": not repository.well,
        "status": str(repository.status),
        "needs": needs_of(repository),
    }


def _told(repository: ServedRepository, now: float) -> dict[str, str]:
    again = repository.again_at
    soon = "" if again is None else f"It is tried again within {span(max(again - now, 1.0))}."
    return {"name": repository.name, "trouble": repository.trouble, "again": soon}


def _groups(
    found: list[tuple[ServedRepository, BoardForm]],
    asked: CommonFilter,
    counts: dict[str, int],
    now: float,
) -> list[dict[str, Any]]:
    groups = []
    for key, (name, colour, says) in GROUPS.items():
        if asked.group and asked.group != key:
            continue
        rows = sorted(
            (
                _Row(repository, row, place)
                for repository, each in found
                for group in each["groups"]
                if group["group"] == key
                for place, row in enumerate(group["rows"])
            ),
            key=_order(key),
        )
        shown = rows if asked.group else rows[: SHOWN[key]]
        if not shown and key != "me" and not asked.group:
            continue
        groups.append(
            {
                "key": key,
                "name": name,
                "colour": colour,
                "says": OLDEST if key == "me" else says,
                "rows": [_row(each, now) for each in shown],
                "total": counts[key],
                # Of what is over a repository keeps the newest alone; its own pages have the rest.
                "rest": counts[key] - len(shown) if not asked.group else 0,
                "more": asked.address(group=key),
                "older": "",
                "empty": "Nothing needs you." if key == "me" else "Nothing here.",
            }
        )
    return groups


def _order(key: str) -> Any:
    """Return how rows of a group stand: what waits for a person the longest first."""

    def place(each: _Row) -> tuple[Any, ...]:
        if key == "me":
            return each.row["since"], each.repository.name, each.place
        if key == "done":
            return -each.row["since"], each.repository.name, each.place
        return each.repository.name, each.place

    return place


def _row(each: _Row, now: float) -> Html:
    name = each.repository.name
    text = row_piece(each.row, now=now, operate=False, repo=name)
    # Two repositories may have a task of one id.
    text = Html(_ID.sub(rf"\g<1>{name}-", text))
    return Html(prefixed(text.encode(), f"{PAGES}{name}").decode())


def _summary(
    found: list[tuple[ServedRepository, BoardForm]],
    all_: int,
    counts: dict[str, int],
    now: float,
) -> str:
    cost = dollars(sum(each["spend"]["cost_usd"] for _, each in found))
    limits = (each.mounted.runner.settings().repos_day_budget_usd for each, _ in found)
    most = next((f" of {dollars(limit)}" for limit in limits if limit), "")
    newest = max((each["newest"] for _, each in found), default=0.0)
    parts = [
        f"{len(found)} of {many(all_, 'repository', 'repositories')}",
        f"{counts['working']} working",
        f"{counts['waiting']} waiting outside",
        f"{counts['queued']} queued",
        f"{counts['done']} done",
        f"{cost}{most} today",
    ]
    event = f" Newest event {span(now - newest)} ago." if newest else ""
    return f"{', '.join(parts)}.{event}"
