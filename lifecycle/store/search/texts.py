"""What of a lifecycle can be searched, and as which kind of text. Pure.

Works on what is stored, as it is stored: a record that cannot be read is searched all the same.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

KINDS = ("task", "words", "people", "checks", "facts", "summary")
"""What was asked, what agents said, what people said, what gates and CI printed, what else
happened, and what attempts were told. The order is that of the columns of the index."""
LONGEST = {
    "task": 8000, "words": 8000, "people": 8000, "checks": 8000, "facts": 4000, "summary": 6000,
}  # fmt: skip
"""Characters of each kind that one lifecycle has in the index; the newest text comes first."""
PIECE, TEXT, DIGIT = "\x1e", "\x1f", 0x10
"""A piece is PIECE, its attempt with each digit as the control character DIGIT + digit, TEXT, and
the text: none of these is a part of a word, so that nobody finds a number that is only ours."""
_FENCE = re.compile(r"(?:<<<|>>>)text [0-9a-f]{8}(?: \([^)\n]*\))?")
"""What a summary puts around the words of others."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\ud800-\udfff]+")
PEOPLE = frozenset(
    ("Unblocked", "Answered", "Guided", "SummaryApproved", "PauseRequested", "ResumeRequested",
     "StopRequested", "AcceptRequested", "RejectRequested"),
)  # fmt: skip
"""Facts that are a person's; a test compares them with the machine's own list."""
_FROM_OUTSIDE = frozenset(("CiReported", "PullRequestMoved", "Reviewed"))
_SAID = ("question", "summary", "reason")
_MEANT = ("text", "note", "why")


@dataclass(slots=True)
class Texts:
    """The texts of one lifecycle, by their kind, each with its attempt."""

    pieces: dict[str, dict[str, int]] = field(default_factory=lambda: {kind: {} for kind in KINDS})

    def add(self, kind: str, text: object, attempt: int = 0) -> None:
        """Take a text in; the same one counts once."""
        if isinstance(text, str) and (plain := _CONTROL.sub(" ", _FENCE.sub("", text)).strip()):
            self.pieces[kind].pop(plain, None)
            self.pieces[kind][plain] = attempt

    def columns(self) -> list[str]:
        """Return what the index keeps: of each kind the newest, up to its length."""
        return [_column(self.pieces[kind], LONGEST[kind]) for kind in KINDS]


def _column(pieces: dict[str, int], most: int) -> str:
    made, left = list[str](), most
    for text, attempt in reversed(pieces.items()):
        if left <= 0:
            break
        made.append(f"{PIECE}{_hidden(attempt)}{TEXT}{text[:left]}")
        left -= len(text)
    return "\n".join(made)


def _hidden(attempt: int) -> str:
    return "".join(chr(DIGIT + int(digit)) for digit in str(attempt)) if attempt > 0 else ""


def attempt_before(column: str, at: int) -> int:
    """Return the attempt of the piece that holds a place of a column; 0 if it has none."""
    start = column.rfind(PIECE, 0, at + 1)
    digits = column[start + 1 : column.find(TEXT, start)] if start >= 0 else ""
    return int("".join(str(ord(each) - DIGIT) for each in digits)) if digits else 0


def task_texts(texts: Texts, row: dict[str, Any]) -> None:
    """Take in what the record itself holds."""
    task = (_object(row["facts"]).get("task") or {}) if row["facts"] else {}
    for path in _list(row["changed_files"]):
        texts.add("facts", path)
    for name in ("acceptance", "verify"):
        for each in task.get(name) or () if isinstance(task, dict) else ():
            texts.add("task", each)
    texts.add("task", " ".join(map(str, _list(row["tags"]))))
    texts.add("task", row["task"])
    for name in ("description", "title") if isinstance(task, dict) else ():
        texts.add("task", task.get(name))
    texts.add("task", f"{row['task_id']} {row['agent_id']}")
    texts.add("facts", row["error"])


def journal_texts(texts: Texts, body: str) -> None:
    """Take in one fact of a journal."""
    fact = _object(body)
    kind, attempt = str(fact.get("kind", "")), _number(fact.get("attempt"))
    for column, text in _of_fact(kind, fact):
        texts.add(column, text, attempt)


def attempt_texts(texts: Texts, row: dict[str, Any]) -> None:
    """Take in one row of the ledger."""
    number = _number(row["attempt"])
    texts.add("facts", row["error"], number)
    texts.add("words", row["summary"], number)
    if row["report"]:
        texts.add("words", _object(row["report"]).get("last_words"), number)


def _of_fact(kind: str, fact: dict[str, Any]) -> Iterator[tuple[str, object]]:
    if kind in PEOPLE:
        for name in _MEANT:
            yield "people", fact.get(name)
        return
    word, report = fact.get("word"), fact.get("report")
    if isinstance(word, dict):
        for name in _SAID:
            yield "words", word.get(name)
    if isinstance(report, dict):
        yield "facts", report.get("detail")
        yield "words", report.get("last_words")
    for gate in _objects(fact.get("gates")):
        yield "checks", f"{gate.get('command', '')}\n{gate.get('excerpt', '')}"
    outside = "checks" if kind in _FROM_OUTSIDE else "facts"
    yield outside, fact.get("text")
    yield outside, fact.get("excerpt")
    for detail in _objects(fact.get("details")):
        yield outside, f"{detail.get('title', '')}\n{detail.get('text', '')}"
    yield "facts", fact.get("problem")


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _list(text: str | None) -> list[Any]:
    try:
        found = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _objects(value: object) -> Sequence[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
