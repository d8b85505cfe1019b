"""The meaning of values in communications.json: breakpoint types, lifecycle states, loose lists.

Owns the rules that reader and writer share. Must not import pydantic (slow to start for every
signal) nor do I/O.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SHOWN = 80
EVERYONE = "*"
MOST_REPLIES = 50
LONGEST_REPLY = 4000
"""Characters of a reply to a remark."""


class BreakpointType(StrEnum):
    """Why an agent stops."""

    TASK_COMPLETE = "task_complete"
    BLOCKED = "blocked"
    PR_CREATED = "pr_created"
    QUESTION = "question"


STATE_FOR = {
    BreakpointType.TASK_COMPLETE: "complete",
    BreakpointType.BLOCKED: "blocked",
    BreakpointType.PR_CREATED: "pr_created",
    BreakpointType.QUESTION: "question",
}
"""The lifecycle_state we write ourselves; the first of the accepted words."""

DELIVERS = (BreakpointType.TASK_COMPLETE, BreakpointType.PR_CREATED)
"""Breakpoints that hand over the agent's branch; reviewers are answered with these."""

_WORDS_FOR = {
    BreakpointType.TASK_COMPLETE: ("complete", "completed", "task_complete", "done"),
    BreakpointType.BLOCKED: ("blocked",),
    BreakpointType.PR_CREATED: ("pr_created", "pr"),
    BreakpointType.QUESTION: ("question", "waiting"),
}


def shown(value: object) -> str:
    """Quote an untrusted value for an error text, at bounded length and on one line."""
    text = repr(value[:SHOWN] if isinstance(value, str) else value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def contradiction(lifecycle_state: str | None, kind: BreakpointType) -> str:
    """Say how a lifecycle_state contradicts a breakpoint; empty if they fit.

    A state that is missing or blank fits everything. Any other word must mean the same as the type:
    one that says that work continues ("running") contradicts as well, because acting on half of
    an edit would end a working attempt.
    """
    word = (lifecycle_state or "").strip().lower().replace("-", "_").replace(" ", "_")
    if not word or word in _WORDS_FOR[kind]:
        return ""
    return (
        f"lifecycle_state {shown(lifecycle_state)} does not fit breakpoint type {str(kind)!r}: "
        f"write {' or '.join(map(repr, _WORDS_FOR[kind]))}, or leave lifecycle_state out"
    )


def shortfall(
    kind: BreakpointType, *, blocked_on: tuple[str, ...], reason: str, question: str
) -> str:
    """Say what a breakpoint of this type lacks; empty if nothing."""
    if kind is BreakpointType.QUESTION and not question.strip():
        return "a question needs its text: set 'question'"
    if kind is BreakpointType.BLOCKED and not blocked_on and not reason.strip():
        return "blocked by what? set 'blocked_on' (task ids or free words) or 'reason'"
    return ""


def bad_replies(kind: BreakpointType, replies: Mapping[str, str]) -> str:
    """Say what is wrong with replies to reviewers' remarks; empty if nothing."""
    if not replies:
        return ""
    if kind not in DELIVERS:
        known = " or ".join(DELIVERS)
        return f"replies are posted beside the work: give them with {known}, not with {kind}"
    if len(replies) > MOST_REPLIES:
        return f"{len(replies)} replies are too many: give at most {MOST_REPLIES}"
    for remark, said in replies.items():
        if not remark.strip() or not said.strip():
            return f"reply {shown(remark)} is empty: name the remark's id and say something"
        if len(said) > LONGEST_REPLY:
            return (
                f"the reply to {shown(remark)} has {len(said):,} characters, at most "
                f"{LONGEST_REPLY:,}: say less"
            )
    return ""


def on_itself(kind: BreakpointType, blocked_on: Iterable[str], names: Iterable[str | None]) -> str:
    """Say that a breakpoint waits for its own task or agent; empty if it does not."""
    for name in names:
        if kind is BreakpointType.BLOCKED and name and name in blocked_on:
            return (
                f"blocked on itself: {shown(name)} is this very task, so nothing can ever unblock "
                "it; name what else has to change, or continue"
            )
    return ""


def one_or_many(value: Any) -> Any:
    """Accept a single text instead of a list; the model validates anything else."""
    if value is None:
        return ()
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list):
        return [item for item in value if not (isinstance(item, str) and not item.strip())]
    return value


def text(value: Any) -> str:
    """Read any value as a text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else repr(value)


def texts(value: Any) -> tuple[str, ...]:
    """Read a loosely written list of texts: one text, a list, or nothing."""
    items = value if isinstance(value, (list, tuple)) else [value]
    return tuple(said for item in items if (said := text(item)))


def requests(value: Any) -> tuple[tuple[str, str], ...]:
    """Read requests to other agents, `[to, text]` each; a bare text is meant for everyone."""
    rows = (_row(item, ("to", "text")) for item in _items(value))
    return tuple((row[0], row[1]) if row[1] else (EVERYONE, row[0]) for row in rows if any(row))


def deliveries(value: Any) -> tuple[tuple[str, str, str], ...]:
    """Read deliveries to an agent, `[from, text, original]` each; a bare text has no sender."""
    rows = (_row(item, ("from", "text", "original")) for item in _items(value))
    return tuple(
        (row[0], row[1], row[2]) if row[1] or row[2] else ("", row[0], "")
        for row in rows
        if any(row)
    )


def _items(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _row(item: Any, keys: tuple[str, ...]) -> list[str]:
    if isinstance(item, dict):
        cells = [item.get(key) for key in keys]
    else:
        cells = list(item)[: len(keys)] if isinstance(item, (list, tuple)) else [item]
    return [text(cell) for cell in cells] + [""] * (len(keys) - len(cells))
