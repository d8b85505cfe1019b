"""The facts that a snapshot is made of: one class for each kind, with its form in JSON.

Owns what a text may hold and how long an excerpt is. Must not know who finds the facts, nor what
is told of them.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict

from templates.fence import cap

_MAX_EXCERPT = 16 * 1024


def _storable(value: object) -> object:
    """Show bytes that are not UTF-8 (file names may hold them) so that JSON can carry them."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


def _excerpt(value: object) -> object:
    value = _storable(value)
    return cap(value, _MAX_EXCERPT) if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_storable)]
Excerpt = Annotated[str, BeforeValidator(_excerpt)]


class Fact(BaseModel):
    """What all facts have in common."""

    model_config = ConfigDict(frozen=True, from_attributes=True, allow_inf_nan=False)


class TaskFacts(Fact):
    """The task as it was when the snapshot was taken."""

    id: Text
    title: Text = ""
    description: Text = ""
    acceptance: tuple[Text, ...] = ()
    verify: tuple[Text, ...] = ()
    dependencies: tuple[Text, ...] = ()


class CommitFact(Fact):
    """One commit of the agent's branch."""

    sha: Text
    subject: Text = ""


class FileChangeFact(Fact):
    """One file that differs, and how: added, modified, deleted, renamed, ..."""

    path: Text
    kind: Text = "modified"


class SavedWorkFact(Fact):
    """Uncommitted work kept under a ref before a process was stopped."""

    ref: Text
    files: tuple[Text, ...] = ()


class Dependency(Fact):
    """Another task this one needs."""

    id: Text
    title: Text = ""
    said: bool = False
    """By the agent itself, when it was blocked; not by the plan."""


class Blocker(Fact):
    """What the agent waited for, and whether that is over."""

    what: Text
    since: float | None = None
    cleared: bool = False
    how: Text = ""


class RequestFact(Fact):
    """A message of another agent; `original` is our request it answers, if it answers one."""

    sender: Text
    text: Excerpt
    original: Excerpt = ""


class Communications(Fact):
    """The agent's own mailbox entry and what others wrote to it."""

    mission: Excerpt = ""
    working_on: Excerpt = ""
    done: Excerpt = ""
    next: Excerpt = ""
    requests: tuple[RequestFact, ...] = ()
    deliveries: tuple[RequestFact, ...] = ()


class OutcomeFact(Fact):
    """How the last attempt, or the wait after it, ended; the kinds are named in the template."""

    kind: Text
    text: Excerpt = ""
    evidence: Excerpt = ""


class GateResult(Fact):
    """One verify command, run by the runner on one commit."""

    command: Text
    ok: bool
    code: int | None = None
    excerpt: Excerpt = ""
    failed_before: bool | None = None
    """It failed already on the untouched code, before the first attempt; None: not known."""
    at_commit: Text = ""


class FailedCheck(Fact):
    """One red check of the outside world."""

    name: Text
    summary: Excerpt = ""
    excerpt: Excerpt = ""
    url: Text = ""


class PullRequestFact(Fact):
    """The agent's pull request."""

    url: Text
    number: int | None = None
    state: Text = ""


class RemarkFact(Fact):
    """What a reviewer wrote: where, and who."""

    where: Text
    excerpt: Excerpt = ""
    url: Text = ""
    id: Text = ""
    """By which the agent replies to it."""


class CIFacts(Fact):
    """What CI says about one commit, and the pull request it belongs to."""

    status: Text = "none"
    sha: Text = ""
    failed: tuple[FailedCheck, ...] = ()
    pr: PullRequestFact | None = None


class AnswerFact(Fact):
    """A person's answer to the agent's question."""

    answer: Excerpt
    question: Excerpt = ""
    by: Text = ""
    attempt: int = 0
    """Which attempt asked."""


class Guidance(Fact):
    """Something a person wants the next attempt to know."""

    text: Excerpt
    by: Text = ""


class LedgerEntry(Fact):
    """One earlier attempt: what it tried and how it ended."""

    attempt: int
    outcome: Text
    started_at: float | None = None
    seconds: float | None = None
    breakpoint_type: Text | None = None
    summary: Excerpt = ""
    """The agent's own words."""
    error: Excerpt = ""
    head_before: Text = ""
    head_after: Text = ""
    commits: int = 0
    files_changed: int = 0
    program: Text = ""
    """Which agent program it was, if it is one that reports."""
    tool_calls: int = 0
    tokens: int = 0


class Merge(Fact):
    """A merge that the next attempt is to finish, or to begin."""

    commit: Text
    begun: bool = False
    """It stands begun in the workspace."""
    conflicts: tuple[Text, ...] = ()
    ours: tuple[CommitFact, ...] = ()
    """Commits that only the agent's branch holds."""
    theirs: tuple[CommitFact, ...] = ()
