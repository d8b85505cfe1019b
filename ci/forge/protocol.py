"""What one forge (GitHub, GitLab, Gitea) can answer and do: the thin side of a provider.

Owns the protocol and the plain forms of answers. A forge keeps no state and decides nothing:
verdicts, polling and events belong to `ci.forge.provider`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ci.events import ReviewComment  # noqa: TC001  # pydantic reads the annotation at run time
from ci.interface import PullRequestState  # noqa: TC001  # as above
from ci.json_model import JsonModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci.events import Check
    from ci.http.client import RateBudget
    from ci.interface import MergeResult
    from ci.issues import IssueReference


MOST_COMMENTS = 10_000
"""Of one issue, among which ours is looked for."""


class ForgePull(JsonModel):
    """A pull or merge request as the forge shows it."""

    number: int
    url: str
    branch: str
    base: str
    head_sha: str
    base_sha: str = ""
    base_head: str = ""
    """The newest commit of the base, where lists of the forge show it."""
    title: str = ""
    body: str = ""
    state: PullRequestState
    draft: bool = False
    mergeable: bool | None = None
    """Whether it merges without conflict; None while the forge has not computed it."""
    hindrance: str = ""
    """Why the forge would refuse to merge now, in its own word: blocked, behind, draft."""
    behind: bool = False
    """It lacks commits of its base, and the forge merges nothing that does."""
    queued: bool = False
    """It is in the forge's merge queue."""
    group_sha: str = ""
    """The commit on which the queue tests it, while it is in."""
    merge_commit: str | None = None
    ours: bool = True
    """Its branch belongs to this repository, not to a fork."""
    created_at: float
    updated_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPull:
    """A pull request to be opened."""

    branch: str
    base: str
    title: str
    body: str = ""
    labels: tuple[str, ...] = ()
    draft: bool = False


class LeftQueue(JsonModel):
    """How a pull request left the merge queue the last time, as far as the forge tells."""

    reason: str = ""
    """In the forge's own words."""
    group: str = ""
    """The commit on which the queue tested it."""
    by_person: bool = False
    """A person took it out."""


class Reviews(JsonModel):
    """What reviewers said so far."""

    approved_by: tuple[str, ...] = ()
    """Whose newest review approves the current head."""
    changes_wanted_by: tuple[str, ...] = ()
    """Who may write, and whose newest review requests changes."""
    changes_wanted_by_others: tuple[str, ...] = ()
    """The same of people who may not write."""
    remarks: tuple[ReviewComment, ...] = ()


class BranchRules(JsonModel):
    """What the rules of a branch demand before something is merged into it, as far as told."""

    required_checks: tuple[str, ...] = ()
    """Names of checks, `*` stands for any text; empty where the rules name none."""
    required_approvals: int = 0
    up_to_date: bool = False
    """A pull request must contain the newest commit of the branch."""
    may_merge: bool | None = None
    """Whether we may merge into it; None where that is not told."""
    queue: bool = False
    """Merges go through a merge queue."""
    demands: tuple[str, ...] = ()
    """What else it demands, in words for people."""


class Access(JsonModel):
    """Whether the forge can be used as it is set up; for `doctor`."""

    who: str
    """The user or app that we are there."""
    can_read: bool
    can_write: bool
    problem: str = ""
    """What is missing and how to fix it."""
    renamed_to: str = ""
    """What the repository is called there now, if otherwise."""


COMMITS_LOOKED_AT = 10
"""Newest commits of a branch that are looked at, to know whether anything checks it."""


class ForgeIssue(JsonModel):
    """An issue as the forge shows it."""

    open: bool
    labels: tuple[str, ...] = ()
    number: int = 0
    title: str = ""
    body: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueQuery:
    """Which issues of the repository are wanted: by labels, by number, or by a search."""

    labels: tuple[str, ...] = ()
    """An issue has all of them."""
    numbers: tuple[int, ...] = ()
    search: str = ""
    """As people type it at the forge."""
    most: int = 100


class ForgeIssues(Protocol):
    """The issues of a forge, also those of its other repositories. May raise `ForgeError`."""

    async def issue(self, which: IssueReference) -> ForgeIssue:
        """Return an issue; MissingError if there is none that we may see."""
        ...

    async def find(self, query: IssueQuery) -> tuple[ForgeIssue, ...]:
        """Return the issues of this repository that are open, and those that are named by number.

        MissingError for a number that there is none of.
        """
        ...

    async def find_comment(self, which: IssueReference, mark: str) -> int | None:
        """Return the id of the oldest comment that contains the mark."""
        ...

    async def comment(self, which: IssueReference, text: str) -> int:
        """Write a comment and return its id."""
        ...

    async def edit_comment(self, which: IssueReference, comment: int, text: str) -> None:
        """Write another text of a comment."""
        ...

    async def add_labels(self, which: IssueReference, names: Sequence[str]) -> None:
        """Put labels on; RefusedError where that would take another one away."""
        ...

    async def remove_label(self, which: IssueReference, name: str) -> None:
        """Take a label off; one that is not on it does not matter."""
        ...

    async def close(self, which: IssueReference) -> None:
        """Close it as done; does nothing if it is closed."""
        ...

    async def hindrance(self) -> str:
        """Return why issues of this repository cannot be changed; empty if nothing shows it."""
        ...


class Forge(Protocol):
    """One repository on one forge. Every method may raise `ForgeError`."""

    name: str
    """As in the registry, `ci.forge_registry.FORGES`."""
    mark: str
    """What stands before the number of a pull request in texts: `#` or `!`."""
    queue: str
    """What it calls a merge queue."""
    place: str
    """The repository for people: `github.com/owner/name`."""

    @property
    def issues(self) -> ForgeIssues | None:
        """Its issues; None where it has none."""
        ...

    @property
    def budget(self) -> RateBudget:
        """The remaining rate limit."""
        ...

    async def checks(self, sha: str) -> tuple[Check, ...]:
        """Return all checks and statuses of exactly this commit, the newest of each name."""
        ...

    async def explain(self, sha: str, check: Check) -> Check:
        """Return the check with the failed job and step named and an excerpt of its log."""
        ...

    async def rerun(self, sha: str, checks: Sequence[Check]) -> bool:
        """Rerun failed checks; return whether the forge does so."""
        ...

    async def head(self, branch: str) -> str | None:
        """Return the newest remote commit of a branch; None if there is no such branch."""
        ...

    async def is_checked(self, branch: str) -> bool:
        """Return whether any check ran on the newest commits of a branch, for few requests.

        True where that cannot be known, as then a commit without checks is suspect.
        """
        ...

    async def branch_rules(self, branch: str) -> BranchRules:
        """Return what must be so before something is merged into the branch.

        Rules that we may not read count as none.
        """
        ...

    async def default_branch(self) -> str:
        """Return the branch that pull requests go into by default."""
        ...

    async def open_pulls(self) -> tuple[ForgePull, ...]:
        """Return the open pull requests; `mergeable` need not be known."""
        ...

    async def pull(self, number: int) -> ForgePull | None:
        """Return one pull request with all details."""
        ...

    async def find_pull(self, branch: str) -> ForgePull | None:
        """Return the newest open pull request of a branch of this repository, else its newest."""
        ...

    def issue_of(self, ref: str) -> IssueReference | None:
        """Return which issue of this forge a reference names; None if it is at another host."""
        ...

    def number_of(self, ref: str) -> int | None:
        """Return the number that a url of this repository, `#3` or `!3` names; None if none."""
        ...

    async def called(self) -> str:
        """Return the name that the forge has for the repository now; it may have been renamed."""
        ...

    def renamed_to(self, url: str) -> str:
        """Return what the repository is called in the url of a pull request, if otherwise."""
        ...

    async def create_pull(self, new: NewPull) -> ForgePull:
        """Open a pull request; RefusedError where the forge knows that one is open."""
        ...

    async def reviews(self, pull: ForgePull) -> Reviews:
        """Return what reviewers said, the oldest first."""
        ...

    async def merge(self, pull: ForgePull, *, sha: str, method: str, message: str) -> MergeResult:
        """Merge exactly this commit, or put it in the forge's merge queue, or return why not.

        While the forge is still computing whether it merges, this retries for a short time.
        """
        ...

    async def update_pull(self, pull: ForgePull) -> bool:
        """Have its base merged into its branch, if it is still at this head.

        Return whether the forge does so, at once or soon.
        """
        ...

    async def edit_pull(self, pull: ForgePull, *, title: str, body: str) -> None:
        """Write another title and text; a draft stays a draft."""
        ...

    async def mark_ready(self, pull: ForgePull) -> None:
        """Make a draft ready for review."""
        ...

    async def ask_for_review(self, number: int, who: Sequence[str]) -> None:
        """Ask these people to review it."""
        ...

    async def assign(self, number: int, who: Sequence[str]) -> None:
        """Assign it to these people."""
        ...

    async def left_queue(self, pull: ForgePull) -> LeftQueue:
        """Return how it left the merge queue the last time."""
        ...

    async def close_pull(self, number: int) -> None:
        """Close without merging."""
        ...

    async def comment(self, number: int, text: str) -> None:
        """Write a comment."""
        ...

    async def reply(self, number: int, ref: str, text: str) -> None:
        """Write below a remark that has a `ref`."""
        ...

    async def access(self) -> Access:
        """Return what the token allows."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...
