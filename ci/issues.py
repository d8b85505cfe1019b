"""Issues that tasks are about: how one is named, and what a provider is told of the work on it.

Owns the forms of references and the standing of a lifecycle. Must not know any forge's requests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable
from urllib.parse import unquote

from ci.json_model import JsonModel

FORMS = (
    "give its number (12), owner/name#12 for one of another repository of the same forge, or its "
    "address (https://.../issues/12)"
)
_SHORT = re.compile(r"(?P<repo>[\w.-]+(?:/[\w.-]+)+)?#(?P<number>[1-9]\d{0,11})|[1-9]\d{0,11}")
_ADDRESS = re.compile(
    r"(?P<page>https?://[^\s/?#@]+/[^\s?#]+?)(?:/-)?/(?:issues|work_items)/"
    r"(?P<number>[1-9]\d{0,11})/?(?:[?#]\S*)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class IssueReference:
    """An issue, as far as its reference names it."""

    number: int
    repo: str = ""
    """owner/name, or more groups before the name; empty for the repository of the pull requests."""
    page: str = ""
    """The address of its repository's pages, where an address was given."""

    def on(self, web_url: str, repo: str) -> IssueReference | None:
        """Return it as one of the forge with these pages, seen from this repository.

        None where it is at another host.
        """
        named = self.repo
        if self.page:
            start = f"{web_url.rstrip('/')}/"
            if not self.page.lower().startswith(start.lower()):
                return None
            named = unquote(self.page[len(start) :]).strip("/")
        return IssueReference(self.number, "" if named.lower() == repo.lower() else named)

    @property
    def short(self) -> str:
        """Return it as texts at a forge name it: `#12`, `owner/name#12`."""
        return f"{self.repo}#{self.number}"


def issue_of(text: str) -> IssueReference:
    """Read a reference; ValueError says which forms there are."""
    text = text.strip()
    if found := _ADDRESS.fullmatch(text):
        return IssueReference(int(found["number"]), page=found["page"])
    found = _SHORT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} does not name an issue: {FORMS}")
    return IssueReference(int(found["number"] or text), found["repo"] or "")


class IssueStage(StrEnum):
    """Where the work on an issue stands, for those who look at the issue."""

    WORKED_ON = "worked_on"
    """An agent works on it, or will without anybody's help."""
    RESTS = "rests"
    """It waits for a person, or is paused."""
    OVER = "over"


class IssueStanding(JsonModel):
    """What a provider is told of a lifecycle whose task is about an issue."""

    key: str
    """Names this lifecycle and no other: its agent, and its birth."""
    issue: str
    """As the task names it."""
    task_id: str
    title: str = ""
    branch: str = ""
    stage: IssueStage
    ending: str = ""
    """Why nobody works on it any more, where that is no success: one sentence."""
    number: int | None = None
    """Its pull request, once there is one."""


@runtime_checkable
class KeepsIssues(Protocol):
    """A provider whose forge has issues, too."""

    def follow_issue(self, standing: IssueStanding) -> None:
        """Bring the issue in line with this, soon and as the settings want it.

        The latest word about a lifecycle counts. What fails is tried again, also after a restart;
        what the forge refuses is reported once.
        """
        ...

    def followed_issues(self) -> tuple[str, ...]:
        """Return the keys of all lifecycles that are not over for all that is known here."""
        ...

    def issue_name(self, issue: str) -> str:
        """Return how texts at the forge name an issue: `#12`, `owner/name#12`.

        Empty if the forge has none of that name.
        """
        ...

    def issue_problem(self, issue: str) -> str:
        """Return why a task cannot be about this issue, and what to do; empty if it can."""
        ...


def keeper_of(provider: object) -> KeepsIssues | None:
    """Return a provider that keeps issues, else nothing."""
    return provider if isinstance(provider, KeepsIssues) else None
