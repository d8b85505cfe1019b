"""What a lifecycle waits for, in a few words, read off its stored state.

Works on plain values and imports nothing, so that lists stay fast. Must not decide anything.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Span = Callable[[float], str]

A_PLACE = "a place"
"""It could go on at once if fewer agents were alive."""

UNREADABLE = "you; its record cannot be read: see `loopwright doctor`"
"""Its state may be any."""


def waiting_for(kind: str, work: Mapping[str, Any] | None, present: float, span: Span) -> str:
    """Say in a few words what has to happen next; nothing when an attempt is simply under way."""
    waits = _WAITS.get(kind)
    return "" if work is None or waits is None else waits(work, present, span)


def since(work: Mapping[str, Any] | None, updated_at: float) -> float:
    """Return when the state began, as well as the row tells."""
    found = (work or {}).get("since")
    return float(found) if isinstance(found, (int, float)) else updated_at


def _queued(work: Mapping[str, Any], _present: float, _span: Span) -> str:
    return _listed(work.get("waiting_on")) or A_PLACE


def _again(work: Mapping[str, Any], present: float, span: Span) -> str:
    again_at = work.get("again_at")
    return f"another try in {span(again_at - present)}" if again_at else ""


def _blocked(work: Mapping[str, Any], _present: float, _span: Span) -> str:
    word = work.get("word") or {}
    return _listed(word.get("blocked_on")) or str(word.get("reason") or "something unnamed")


def _pull_request(work: Mapping[str, Any], _present: float, _span: Span) -> str:
    return f"the merge of {work.get('url') or 'its pull request'}"


def _backing_off(work: Mapping[str, Any], present: float, span: Span) -> str:
    left = float(work.get("until") or 0.0) - present
    return f"its next attempt in {span(left)}" if left > 0 else A_PLACE


def _human(work: Mapping[str, Any], _present: float, _span: Span) -> str:
    text = str(work.get("text") or "")
    return {
        "question": f"your answer: {text}",
        "review": "your approval of its summary",
        "blocked_timeout": f"you; still blocked on {_listed(work.get('blocked_on')) or text}",
        "pr_timeout": f"you; not merged: {work.get('url') or 'its pull request'}",
        "dependency": f"you; failed: {_listed(work.get('failed'))}",
    }.get(str(work.get("about")), text)


def _suspended(work: Mapping[str, Any], _present: float, _span: Span) -> str:
    del work
    return "your resume"


def _completed(work: Mapping[str, Any], _present: float, _span: Span) -> str:
    if work.get("merging"):
        return "its merge"
    problem = work.get("problem")
    return f"you; not merged: {problem}" if problem else "your accept or reject"


def _listed(names: Any) -> str:
    return ", ".join(str(name) for name in names or ())


def _working(work: Mapping[str, Any], _present: float, _span: Span) -> str:
    return "frozen until it is resumed" if work.get("frozen") else ""


_WAITS = {
    "Working": _working,
    "Queued": _queued,
    "Capturing": _again,
    "Verifying": _again,
    "Blocked": _blocked,
    "PrPending": _pull_request,
    "BackingOff": _backing_off,
    "AwaitingHuman": _human,
    "Suspended": _suspended,
    "Completed": _completed,
}
