"""A summary as a page shows it: our own words as Markdown, what is quoted apart from them.

Owns how the parts are told apart. Must not read anything.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from orchestrator.wording.markdown import rendered
from templates.renderer import Html

if TYPE_CHECKING:
    from collections.abc import Iterator

_QUOTED = re.compile(
    r"^<<<(?P<kind>data|text) (?P<marker>[0-9a-f]{8,})(?: \((?P<origin>[^\n]*)\))?\n"
    r"(?P<body>.*?)\n?^>>>(?P=kind) (?P=marker)$",
    re.MULTILINE | re.DOTALL,
)
_HEADING = re.compile(r"^(#{1,5}) ", re.MULTILINE)
BELOW = 3
"""The level of headings that are marked otherwise."""
MOST_LINES = 120
"""Lines of a difference that are shown beside a summary."""


class SummaryPart(NamedTuple):
    """A piece of a summary."""

    kind: str
    """`own` words, or quoted `data`, or the `text` of a person in charge."""
    text: str
    origin: str = ""
    html: Html | None = None


class ChangedLine(NamedTuple):
    """A line of a difference: `a` added, `d` deleted, `h` where it is, or nothing of these."""

    kind: str
    text: str


def parts(text: str) -> list[SummaryPart]:
    """Return the pieces of a summary, in order."""
    return list(_parts(text))


def _parts(text: str) -> Iterator[SummaryPart]:
    place = 0
    for found in _QUOTED.finditer(text):
        yield from _own(text[place : found.start()])
        yield SummaryPart(found["kind"], found["body"], found["origin"] or "quoted")
        place = found.end()
    yield from _own(text[place:])


def _own(text: str) -> Iterator[SummaryPart]:
    if text.strip():
        first = _HEADING.search(text)
        top = len(first[1]) + 1 if first else BELOW
        yield SummaryPart("own", text, html=Html(rendered(text, top=top)))


def diff_lines(diff: str) -> tuple[list[ChangedLine], int]:
    """Return the changed lines of a difference, and how many are left out."""
    kinds = {"+": "a", "-": "d", "@": "h"}
    lines = [
        ChangedLine(kinds[line[0]], line if line[0] != "@" else "…")
        for line in diff.splitlines()[2:]
        if line[:1] in kinds
    ]
    return lines[:MOST_LINES], max(0, len(lines) - MOST_LINES)
