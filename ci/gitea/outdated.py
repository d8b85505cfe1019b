"""Whether a pull request lacks commits that its base demands, on Gitea or Forgejo.

Owns what is known of that rule: administrators are told it, others learn it by a refused merge. The
commits decide: a branch that contains its base is never behind, whatever was said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from ci.errors import ForbiddenError, MissingError
from ci.forge.json_fields import number
from ci.interface import PullRequestState

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci.forge.protocol import ForgePull
    from ci.http.client import HttpClient

LEARNED_HOLDS = 900.0
"""Seconds for which the rule of a branch is taken to be as it was told."""


class OutdatedBranches:
    """The branches of one repository that must contain their base, as far as told."""

    def __init__(self, http: HttpClient, at: str, *, now: Callable[[], float]) -> None:
        self._http = http
        self._at = at
        self._now = now
        self._until: dict[str, float] = {}

    def learned(self, base: str, *, demands_newest: bool) -> None:
        """Remember the rule of a base."""
        self._until[base] = self._now() + LEARNED_HOLDS if demands_newest else 0.0

    async def judged(self, pull: ForgePull) -> ForgePull:
        """Mark an open pull request that lacks what its base demands."""
        newest = pull.base_head
        if (
            pull.state is not PullRequestState.OPEN
            or self._now() >= self._until.get(pull.base, 0.0)
            or pull.base_sha == newest
        ):
            return pull
        lacks = await self._lacks(pull.head_sha, newest)
        return pull.model_copy(update={"behind": lacks})

    async def _lacks(self, head: str, newest: str) -> bool:
        """Compare the commits: what a pull request tells of its base may be of before a push."""
        try:
            path = f"{self._at}/compare/{quote(f'{head}...{newest}')}"
            answer = await self._http.get(path)
        except (ForbiddenError, MissingError):
            return True  # before 1.22 commits cannot be compared
        return (number(answer.body, "total_commits") or 0) > 0
