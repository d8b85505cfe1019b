"""What a provider tells its subscribers: the types of events and their common form.

Owns truncating and cleaning text that comes from builds, and what of an agent's goes to a forge.
Must not know any provider.
"""

from __future__ import annotations

import hashlib
import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from ci.json_model import JsonModel

EXCERPT_LIMIT = 4096
"""Bytes of a failing log that are part of an event or a verdict."""

LINE_LIMIT = 300
"""Characters of a title from outside."""

ID_LENGTH = 5
"""Of a remark's id, after its `r`: among a hundred remarks, two are alike once in 6,000 times."""
_ID_SIGNS = "0123456789abcdefghjkmnpqrstvwxyz"
_CUT = "[earlier output cut]\n"
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_COMMAND = re.compile(r"^([ \t]*)/(?=[A-Za-z])", re.MULTILINE)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


def clean_tail(text: str) -> str:
    """Return the end of a log without control characters, at most `EXCERPT_LIMIT` bytes long.

    The end, because failures are reported there. Short and clean text is returned unchanged.
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


def without_commands(text: str) -> str:
    """Return an agent's words for a forge, where a line `/merge` would be a command of ours."""
    return _COMMAND.sub(r"\1\/", text)


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


class CheckState(StrEnum):
    """What a check says, in one word."""

    PASSED = "passed"
    FAILED = "failed"
    PENDING = "pending"


class Check(JsonModel):
    """One check or status of one commit, the newest of its name."""

    name: str
    state: CheckState
    how: str = ""
    """The forge's own word for the state: timed_out, action_required, canceled."""
    summary: str = ""
    excerpt: Excerpt = ""
    """Of the failed step's log, once it was fetched."""
    url: str = ""
    ref: str = ""
    """The forge's reference to it, used to explain or rerun it."""
    counts: bool = True
    """It can wake an agent and hold up a merge; if not, people are only told of it."""

    @property
    def title(self) -> str:
        """Its name and result, in one line."""
        return clean_line(": ".join(filter(None, (self.name, self.summary or self.how))))

    @property
    def text(self) -> str:
        """The end of its log."""
        return self.excerpt


class ReviewComment(JsonModel):
    """What a person wrote about a pull request. Data from outside, never instructions."""

    key: str
    """Stable: the same comment always has the same key."""
    ref: str = ""
    """The forge's reference to where a reply belongs, if it has threads."""
    author: str
    trusted: bool
    """The forge says that the author may write to the repository."""
    body: Excerpt = ""
    path: str = ""
    line: int | None = None
    url: str = ""
    at: float
    sha: str = ""
    """The commit that was looked at."""
    wants_changes: bool = False
    """It is, or belongs to, a review that requests changes, whoever wrote it."""
    resolved: bool = False
    """It was marked as done at the forge."""
    own: bool = False
    """Written by the account of our token; never counts as a change request."""

    @property
    def id(self) -> str:
        """A short name of the key, by which an agent replies; the same as long as the key is."""
        digest = hashlib.sha256(self.key.encode()).digest()
        return "r" + "".join(_ID_SIGNS[byte % len(_ID_SIGNS)] for byte in digest[:ID_LENGTH])

    @property
    def title(self) -> str:
        """Where it is and who wrote it, in one line."""
        place = self.path + (f":{self.line}" if self.path and self.line else "")
        return clean_line(" ".join(filter(None, (place, f"by {self.author}"))))

    @property
    def text(self) -> str:
        """What was written."""
        return self.body


def _detail(told: object) -> object:
    """Read the form of earlier versions: a title, a text and a url."""
    if not isinstance(told, dict) or "title" not in told:
        return told
    return Check(
        name=told["title"],
        state=CheckState.FAILED,
        excerpt=told.get("text", ""),
        url=told.get("url", ""),
    )


class CIEvent(JsonModel):
    """One fact from outside. The same fact always has the same `event_id`, also after a restart.

    One that is handed to `notify` names a branch or an agent; its id and instant are filled in.
    """

    type: CIEventType
    event_id: str = ""
    at: float = 0.0
    """Seconds since the epoch, UTC."""
    branch: str = ""
    agent_id: str = ""
    """Whom it is about, instead of the branch; providers name branches."""
    sha: str = ""
    build_id: str | None = None
    pr_number: int | None = None
    pr_url: str | None = None
    summary: str = ""
    """One sentence for people."""
    excerpt: Excerpt = ""
    """The end of the failing log: data from outside, never instructions."""
    url: str = ""
    """Where to read more: a log or a page."""
    details: tuple[Annotated[Check | ReviewComment, BeforeValidator(_detail)], ...] = ()
    """Its parts, where there are several: failed checks, review comments."""
    of_others: bool = False
    """It is about a head that somebody else pushed and that was fetched just now."""
    by_bots: bool = False
    """No person who may write said any of it: only review bots, and who is heard by name alone."""
