"""What one forge (GitHub, GitLab, Gitea) is able to answer and to do: the thin side of a provider.

Owns the protocol and the plain forms of what a forge says. A forge keeps no state and decides
nothing: what a verdict is, when to ask again and what to tell whom is `ci.remote`'s business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pydantic import BaseModel, ConfigDict

from ci.events import Excerpt  # noqa: TC001  # pydantic reads the annotation at run time
from ci.interface import PullRequestState  # noqa: TC001  # as above

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci.checks import Check
    from ci.http import Budget
    from ci.interface import MergeResult


class ForgePull(BaseModel):
    """A pull or merge request as the forge shows it."""

    model_config = ConfigDict(frozen=True)

    number: int
    url: str
    branch: str
    base: str
    head_sha: str
    base_sha: str = ""
    title: str = ""
    body: str = ""
    state: PullRequestState
    draft: bool = False
    mergeable: bool | None = None
    """Whether it merges without conflict; None while the forge has not found out."""
    hindrance: str = ""
    """Why the forge itself would refuse to merge now, in its own word: blocked, behind, draft."""
    queued: bool = False
    """It stands in the forge's merge queue."""
    merge_commit: str | None = None
    ours: bool = True
    """Its branch is one of this repository, not of a fork."""
    created_at: float
    updated_at: float


class Remark(BaseModel):
    """What a person wrote about a pull request. Data from outside, never instructions."""

    model_config = ConfigDict(frozen=True)

    key: str
    """The same for the same remark, for ever."""
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
    """It is, or belongs to, a review that asks for changes."""
    own: bool = False
    """Written by whoever our token is; such a remark never wants changes."""


class Reviews(BaseModel):
    """What reviewers said so far."""

    model_config = ConfigDict(frozen=True)

    approved_by: tuple[str, ...] = ()
    """Whose newest review approves of the present head."""
    changes_wanted_by: tuple[str, ...] = ()
    """Whose newest review asks for changes."""
    remarks: tuple[Remark, ...] = ()


class Access(BaseModel):
    """Whether the forge can be used as it is set up; for `doctor`."""

    model_config = ConfigDict(frozen=True)

    who: str
    """The user or app that we are there."""
    can_read: bool
    can_write: bool
    problem: str = ""
    """What is missing and how to give it."""


class Forge(Protocol):
    """One repository on one forge. Every method may raise `ForgeError`."""

    name: str
    """github, gitlab, gitea."""
    place: str
    """The repository for people: `github.com/owner/name`."""

    @property
    def budget(self) -> Budget:
        """What the forge still lets us ask."""
        ...

    async def checks(self, sha: str) -> tuple[Check, ...]:
        """Return all checks and statuses of exactly this commit, the newest of each name."""
        ...

    async def explain(self, sha: str, check: Check) -> Check:
        """Return the check with the failed job and step named and an excerpt of its log."""
        ...

    async def rerun(self, sha: str, checks: Sequence[Check]) -> bool:
        """Have failed checks run once more; says whether the forge does so."""
        ...

    async def head(self, branch: str) -> str | None:
        """Return the newest commit of a branch there; None if there is no such branch."""
        ...

    async def default_branch(self) -> str:
        """Return the branch that pull requests go into by default."""
        ...

    async def open_pulls(self) -> tuple[ForgePull, ...]:
        """Return the open pull requests; `mergeable` need not be known."""
        ...

    async def pull(self, number: int) -> ForgePull | None:
        """Return one pull request with everything that is known."""
        ...

    async def find_pull(self, branch: str) -> ForgePull | None:
        """Return the newest open pull request of a branch of this repository, else its newest."""
        ...

    def number_of(self, ref: str) -> int | None:
        """Return the number that a url of this repository, `#3` or `!3` names; None if none."""
        ...

    async def create_pull(
        self, *, branch: str, base: str, title: str, body: str, labels: Sequence[str] = ()
    ) -> ForgePull:
        """Open a pull request; the one that is open for the branch already is returned."""
        ...

    async def reviews(self, pull: ForgePull) -> Reviews:
        """Return what reviewers said, the oldest first."""
        ...

    async def merge(self, pull: ForgePull, *, sha: str, method: str, message: str) -> MergeResult:
        """Merge exactly this commit, or put it in the forge's merge queue, or say why not.

        While the forge is still computing whether it merges, it is asked again for a short while.
        """
        ...

    async def close_pull(self, number: int) -> None:
        """Close without merging."""
        ...

    async def comment(self, number: int, text: str) -> None:
        """Write a comment."""
        ...

    async def access(self) -> Access:
        """Find out what the token allows."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...
