"""What a lifecycle waits for, or how it ended, in a few words, read off its stored state.

Works on plain values and imports nothing heavy, so that lists stay fast. Must not decide anything.
The word for the state itself comes from `lifecycle.state_words`.
"""

from __future__ import annotations

from lifecycle.state_words import QUEUED, STOPPED, word_of

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Span = Callable[[float], str]

A_PLACE = "a place"
"""It could go on at once if fewer agents were alive."""

UNREADABLE = "you; its record cannot be read: see `loopwright doctor`"
"""Its state may be any."""
START, GO_ON = "`loopwright up`, which starts it", "`loopwright up`, which goes on with it"


def waiting_for(
    kind: str, work: Mapping[str, Any] | None, present: float, span: Span, *, runs: bool = True
) -> str:
    """Say in a few words what has to happen next; nothing when an attempt is simply under way.

    Without a runner (`runs`) it is somebody who starts one.
    """
    waits = _WAITS.get(kind)
    text = "" if work is None or waits is None else waits(work, present, span)
    if runs or not kind:
        return text
    word = word_of(kind, work, runs=False)
    if word == QUEUED and text == A_PLACE:
        return START
    if word == STOPPED and kind != "Suspended":
        outside = kind in ("Blocked", "PrPending")
        return f"{GO_ON}; then {text}" if outside else GO_ON
    return text


def ended_with(kind: str, work: Mapping[str, Any] | None) -> str:
    """Say in a few words how it ended; nothing of what has not."""
    found = work or {}
    if kind == "Rejected":
        return str(found.get("text", ""))
    return f"merged as {str(found.get('commit', ''))[:7]}" if kind == "Accepted" else ""


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
    }.get(str(work.get("about")), f"you; {text}")


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
    return "your resume; its processes are frozen" if work.get("frozen") else ""


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
