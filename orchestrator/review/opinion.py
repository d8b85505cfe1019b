"""What a reviewer said of the work, as people and programs read it: always with its commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from lifecycle.judging.review_request import OPINION
from lifecycle.machine.opinion import IN_DIFF, PLACES
from lifecycle.machine.states import (
    Accepted,
    AwaitingHuman,
    Completed,
    PrPending,
    Suspended,
    Verifying,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lifecycle.machine.states import State
    from lifecycle.record import AgentLifecycle


class OpinionFindingForm(TypedDict):
    """One thing that a reviewer found."""

    severity: str
    """note, minor, major or critical"""
    text: str
    file: str
    line: int
    """0 for the file as a whole"""
    place: str
    """in words, where it does not point into the diff; else empty"""


class OpinionForm(TypedDict):
    """What a reviewer said of one commit."""

    by: str
    head: str
    current: bool
    """whether that is the commit at which the work stands"""
    attempt: int
    at: float
    approves: bool
    summary: str
    findings: list[OpinionFindingForm]


def opinion_form(record: AgentLifecycle) -> OpinionForm | None:
    """Return what a reviewer said last of the work; None where nobody did."""
    known = record.facts.get(OPINION)
    if not known:
        return None
    head = str(known["head"])
    return {
        "by": str(known["by"]),
        "head": head,
        "current": _head_of(record.work) in ("", head),
        "attempt": int(known["attempt"]),
        "at": float(known["at"]),
        "approves": bool(known["approves"]),
        "summary": str(known["summary"]),
        "findings": [
            {
                "severity": str(each["severity"]),
                "text": str(each["text"]),
                "file": str(each["file"]),
                "line": int(each["line"]),
                "place": PLACES.get(each["place"], ""),
            }
            for each in known["findings"]
        ],
    }


def _head_of(work: State | None) -> str:
    inner = work.inner if isinstance(work, Suspended) else work
    match inner:
        case Completed(head=head) | Verifying(head=head) | PrPending(head=head):
            return head
        case AwaitingHuman(head=head):
            return head
        case Accepted() | None:
            return ""
        case _:  # an attempt follows, whose commit nobody read yet
            return "?"


def opinion_lines(told: OpinionForm) -> Iterator[str]:
    """Return it in lines: the verdict, then each finding."""
    count = len(told["findings"])
    verdict = "approved" if told["approves"] else "did not approve"
    about = told["head"][:12] + ("" if told["current"] else ", an earlier commit")
    found = f", with {count} finding{'s' * (count != 1)}" if count else ""
    said = f": {told['summary']}" if told["summary"] else ""
    yield f"{told['by']} {verdict} {about}{found}{said}"
    for each in told["findings"]:
        yield f"{where(each)}: {each['text']}"


def where(finding: OpinionFindingForm) -> str:
    """Say how grave a finding is and where it points."""
    place = f"{finding['file']}:{finding['line']}" if finding["line"] else finding["file"]
    said = f"{finding['severity']}, {place}" if place else finding["severity"]
    return f"{said} ({finding['place']})" if finding["place"] != PLACES[IN_DIFF] else said
