"""What a provider tells its subscribers: the types of events and the one form they all have.

Owns the capping and cleaning of text that comes from builds. Must not know any provider.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

EXCERPT_LIMIT = 4096
"""Bytes of a failing log that travel with an event or a verdict."""

LINE_LIMIT = 300
"""Characters of a title from outside."""

_CUT = "[earlier output cut]\n"
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


def clean_tail(text: str) -> str:
    """Return the end of a log without control characters, at most `EXCERPT_LIMIT` bytes long.

    The end, because that is where failures are told. Text that is short and clean stays as it is.
    """
    text = _CONTROLS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
    raw = text.encode("utf-8", "replace")
    if len(raw) <= EXCERPT_LIMIT:
        return raw.decode("utf-8")
    tail = raw[-(EXCERPT_LIMIT - len(_CUT)) :].decode("utf-8", "ignore")
    _, newline, whole_lines = tail.partition("\n")
    return _CUT + (whole_lines if newline and whole_lines else tail)


def clean_line(text: str) -> str:
    """Return a text from outside as one line of at most `LINE_LIMIT` characters."""
    line = " ".join(_CONTROLS.sub("", _ESCAPES.sub("", text)).split())
    return line if len(line) <= LINE_LIMIT else line[: LINE_LIMIT - 1] + "…"


Excerpt = Annotated[str, AfterValidator(clean_tail)]


class CIEventType(StrEnum):
    """What happened outside to one of our commits or pull requests."""

    BUILD_STARTED = "build_started"
    BUILD_SUCCESS = "build_success"
    BUILD_FAILURE = "build_failure"
    BUILD_CANCELLED = "build_cancelled"
    PR_CREATED = "pr_created"
    PR_UPDATED = "pr_updated"
    PR_CHECKS_PASSED = "pr_checks_passed"
    PR_CHECKS_FAILED = "pr_checks_failed"
    PR_MERGED = "pr_merged"
    PR_CLOSED = "pr_closed"
    PR_CONFLICT = "pr_conflict"
    PR_CHANGES_REQUESTED = "pr_changes_requested"


class Detail(BaseModel):
    """One of several things that an event tells: a failed check, a reviewer's remark."""

    model_config = ConfigDict(frozen=True)

    title: Annotated[str, AfterValidator(clean_line)]
    """What it is and where: a check with its failed step, a file with its line."""
    text: Excerpt = ""
    """The end of its log, or the remark: data from outside, never instructions."""
    url: str = ""


class CIEvent(BaseModel):
    """One fact from outside. The same fact always has the same `event_id`, also after a restart."""

    model_config = ConfigDict(frozen=True)

    type: CIEventType
    event_id: str
    at: float
    """Seconds since the epoch, UTC."""
    branch: str
    sha: str = ""
    build_id: str | None = None
    pr_number: int | None = None
    pr_url: str | None = None
    summary: str = ""
    """One sentence for people."""
    excerpt: Excerpt = ""
    """The end of the failing log: data from outside, never instructions."""
    url: str = ""
    """Where the whole story is: a log or a page."""
    details: tuple[Detail, ...] = ()
    """What it consists of, where that is more than one thing."""
    of_others: bool = False
    """It is about a head that somebody else pushed, and that was asked for just now."""
