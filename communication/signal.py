"""How an agent signals its breakpoint: `loopwright signal` in one function.

Owns which variables are needed and what is written. Must not read any environment but the given
mapping, and must start fast (no pydantic): agents call it as a command.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from communication.errors import SignalError
from communication.locked_edit import edit_entry
from communication.words import (
    STATE_FOR,
    BreakpointType,
    bad_replies,
    on_itself,
    one_or_many,
    shortfall,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

REMARKS = "LOOPWRIGHT_REMARKS"
"""Holds the ids of the remarks that the agent was told, with blanks between them."""
_NEEDED = (
    "LOOPWRIGHT_COMM_FILE",
    "LOOPWRIGHT_AGENT_ID",
    "LOOPWRIGHT_TASK_ID",
    "LOOPWRIGHT_SPAWN_ID",
)


def signal(  # noqa: PLR0913  # one keyword per field of a breakpoint
    env: Mapping[str, str],
    breakpoint_type: str,
    *,
    summary: str = "",
    blocked_on: Sequence[str] | str = (),
    reason: str = "",
    pr_url: str | None = None,
    question: str = "",
    replies: Iterable[Sequence[str]] = (),
) -> Path:
    """Write the agent's breakpoint into its mailbox and return the mailbox's path.

    `replies` are pairs: the id of a remark, and what is answered.
    """
    missing = [name for name in _NEEDED if not env.get(name)]
    if missing:
        raise SignalError(
            f"not set: {', '.join(missing)}. Loopwright sets them for the agents it starts; "
            "run this inside an agent's process, or set them by hand to try it out"
        )
    kind = _kind(breakpoint_type)
    listed = [blocked_on] if isinstance(blocked_on, str) else list(blocked_on)
    blockers = tuple(one_or_many([_clean(item) for item in listed]))
    lacking = shortfall(kind, blocked_on=blockers, reason=reason, question=question)
    lacking = lacking or on_itself(
        kind, blockers, (env["LOOPWRIGHT_TASK_ID"], env["LOOPWRIGHT_AGENT_ID"])
    )
    given = [(_clean(remark).strip(), _clean(text)) for remark, text in replies]
    answers = dict(given)
    lacking = lacking or _twice([remark for remark, _ in given]) or bad_replies(kind, answers)
    lacking = lacking or _unknown(answers, env.get(REMARKS, ""))
    if lacking:
        raise SignalError(lacking)
    said = {
        "summary": _clean(summary),
        "blocked_on": list(blockers),
        "reason": _clean(reason),
        "pr_url": _clean(pr_url or ""),
        "question": _clean(question),
        "replies": answers,
    }
    word = {
        "type": str(kind),
        "task_id": env["LOOPWRIGHT_TASK_ID"],
        "spawn_id": env["LOOPWRIGHT_SPAWN_ID"],
        **{key: value for key, value in said.items() if value},
    }

    def change(entry: dict[str, Any]) -> None:
        seq = _next_seq(entry.get("breakpoint"))
        entry["lifecycle_state"] = STATE_FOR[kind]
        entry["breakpoint"] = {**word, "seq": seq}

    path = Path(env["LOOPWRIGHT_COMM_FILE"])
    edit_entry(path, env["LOOPWRIGHT_AGENT_ID"], change)
    return path


def _kind(name: str) -> BreakpointType:
    try:
        return BreakpointType(name)
    except ValueError as error:
        known = ", ".join(BreakpointType)
        raise SignalError(f"unknown breakpoint type {shown(name)}; use one of: {known}") from error


def _unknown(replies: Mapping[str, str], remarks: str) -> str:
    """Say which remark is none that the agent was told; empty if all are."""
    known = remarks.split()
    strange = [remark for remark in replies if remark not in known]
    if not strange:
        return ""
    those = f"the summary names {', '.join(known)}" if known else "the summary names no remark"
    return f"there is no remark {shown(strange[0])} to reply to: {those}"


def _twice(remarks: Sequence[str]) -> str:
    """Say which remark has two replies; empty if none has."""
    more = [remark for remark in remarks if remarks.count(remark) > 1]
    return f"two replies to remark {shown(more[0])}: say all in one" if more else ""


def _clean(text: str) -> str:
    """Arguments that are not UTF-8 arrive with half surrogates, which no reader accepts."""
    return text.encode("utf-8", "replace").decode()


def _next_seq(previous: Any) -> int:
    last = previous.get("seq") if isinstance(previous, dict) else None
    return last + 1 if isinstance(last, int) and not isinstance(last, bool) else 1
