"""GitLab, on gitlab.com or one's own: one project as `ci.forge.Forge`, over the REST API v4.

Owns which question goes to which address. Must not decide what a verdict is or when to ask, keep
anything that GitLab could be asked for again, or see a token: `sign` signs each request.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ci.errors import ForbiddenError, MissingError, RefusedError, UnauthorizedError
from ci.forge import Access
from ci.forms import at, needed_text, text
from ci.gitlab_checks import GitLabChecks
from ci.gitlab_merging import GitLabMerging
from ci.gitlab_pulls import may_write, of_this_project, pull_of
from ci.gitlab_reviews import GitLabReviews
from ci.http import Web
from ci.interface import PullRequestState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ci.breaker import Doors
    from ci.checks import Check
    from ci.forge import ForgePull, Reviews
    from ci.http import Budget
    from ci.interface import MergeResult

ADVICE = (
    "set LOOPWRIGHT_GITLAB_TOKEN to a personal, group or project access token with the scope api, "
    "of a user with the role Developer or more"
)
_NUMBER = re.compile(r"[#!]?(\d{1,12})")
_PAGE: Mapping[str, str | int] = {"per_page": 100}


class GitLabForge:
    """One project on GitLab."""

    name = "gitlab"

    def __init__(  # noqa: PLR0913  # each is one thing that a setting or a test decides
        self,
        *,
        repo: str,
        api: str,
        web_url: str,
        sign: Callable[[], Awaitable[Mapping[str, str]]],
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        doors: Doors | None = None,
        timeout: float = 20.0,
    ) -> None:
        """`repo` is the whole path, with all groups; `web_url` is where the pages are."""
        self._page = f"{web_url.rstrip('/')}/{repo}"
        self.place = self._page.partition("://")[2]
        # To GitLab the whole path is one id.
        self._project = f"/projects/{quote(repo, safe='')}"
        self._web = Web(api, sign=sign, now=now, advice=ADVICE, doors=doors, timeout=timeout)
        self._checks = GitLabChecks(self._web, self._project)
        self._reviews = GitLabReviews(self._web, self._project, now=now)
        self._merging = GitLabMerging(self._web, self._project, look=self.pull, sleep=sleep)

    @property
    def budget(self) -> Budget:
        """What GitLab still lets us ask."""
        return self._web.budget

    async def checks(self, sha: str) -> tuple[Check, ...]:
        """Return jobs of the current pipelines and outside statuses of exactly this commit."""
        return await self._checks.checks(sha)

    async def explain(self, sha: str, check: Check) -> Check:
        """Name the stage and the reason of a failed job and bring the end of its log."""
        del sha
        return await self._checks.explain(check)

    async def rerun(self, sha: str, checks: Sequence[Check]) -> bool:
        """Run failed jobs once more."""
        del sha
        return await self._checks.rerun(checks)

    async def head(self, branch: str) -> str | None:
        """Return the newest commit of a branch on GitLab."""
        path = f"{self._project}/repository/branches/{quote(branch, safe='')}"
        try:
            answer = await self._web.get(path)
        except MissingError:
            await self._there()
            return None
        return text(answer.body, "commit", "id") or None

    async def default_branch(self) -> str:
        """Return the branch that merge requests go into by default."""
        return text((await self._web.get(self._project)).body, "default_branch") or "main"

    async def open_pulls(self) -> tuple[ForgePull, ...]:
        """Return the open merge requests of branches of this project, the newest first."""
        return await self._pulls({"state": "opened"})

    async def pull(self, number: int) -> ForgePull | None:
        """Return one merge request; asking is what makes GitLab find out whether it merges."""
        try:
            answer = await self._web.get(f"{self._project}/merge_requests/{number}")
        except MissingError:
            await self._there()
            return None
        return pull_of(answer.body)

    async def find_pull(self, branch: str) -> ForgePull | None:
        """Return the newest open merge request of a branch of this project, else its newest."""
        found = await self._pulls({"source_branch": branch, "state": "all"})
        newest = max(
            (pull for pull in found if pull.branch == branch),
            key=lambda pull: (pull.state is PullRequestState.OPEN, pull.number),
            default=None,
        )
        return None if newest is None else await self.pull(newest.number)

    def number_of(self, ref: str) -> int | None:
        """Read `3`, `#3`, `!3` or a url of a merge request of this project."""
        ref = ref.strip()
        for page in (f"{self._page}/-/merge_requests/", f"{self._page}/merge_requests/"):
            if ref.lower().startswith(page.lower()):
                ref = re.split(r"[/?#]", ref[len(page) :], maxsplit=1)[0]
                break
        plain = _NUMBER.fullmatch(ref)
        return int(plain[1]) if plain is not None else None

    async def create_pull(
        self, *, branch: str, base: str, title: str, body: str, labels: Sequence[str] = ()
    ) -> ForgePull:
        """Open a merge request, or adopt the one that is open for the branch."""
        adopted = await self._open_one(branch)
        if adopted is not None:
            return adopted
        try:
            answer = await self._web.send(
                "POST",
                f"{self._project}/merge_requests",
                json={
                    "source_branch": branch,
                    "target_branch": base,
                    "title": title,
                    "description": body,
                    **({"labels": ",".join(labels)} if labels else {}),
                },
            )
        except RefusedError:
            # Somebody may have opened one in between.
            adopted = await self._open_one(branch)
            if adopted is None:
                raise
            return adopted
        return pull_of(answer.body)

    async def reviews(self, pull: ForgePull) -> Reviews:
        """Return what reviewers said; only the word of people of the project takes sides."""
        return await self._reviews.reviews(pull)

    async def merge(self, pull: ForgePull, *, sha: str, method: str, message: str) -> MergeResult:
        """Merge exactly this commit, or say why not."""
        return await self._merging.merge(pull, sha=sha, method=method, message=message)

    async def close_pull(self, number: int) -> None:
        """Close without merging; one that is closed or merged stays so."""
        try:
            await self._web.send(
                "PUT",
                f"{self._project}/merge_requests/{number}",
                json={"state_event": "close"},
            )
        except RefusedError:
            seen = await self.pull(number)
            if seen is None or seen.state is PullRequestState.OPEN:
                raise

    async def comment(self, number: int, text: str) -> None:
        """Write a comment under the merge request."""
        path = f"{self._project}/merge_requests/{number}/notes"
        await self._web.send("POST", path, json={"body": text})

    async def access(self) -> Access:
        """Find out who we are and what we may do."""
        who = "the token"
        try:
            who = await self._who()
            project = (await self._web.get(self._project)).body
        except UnauthorizedError as error:
            return _no_access("nobody", str(error))
        except (MissingError, ForbiddenError):
            return _no_access(who, f"{who} cannot see {self.place}: {ADVICE}")
        scopes = await self._scopes()
        roles = (at(project, "permissions", name) for name in ("project_access", "group_access"))
        can_write, problem = any(may_write(role) for role in roles), ""
        if scopes is not None and "api" not in scopes:
            shown = ", ".join(sorted(scopes)) or "none"
            can_write, problem = False, f"the token lacks the scope api (it has {shown}): {ADVICE}"
        elif not can_write:
            problem = f"{who} may not write to {self.place}: give it the role Developer there"
        return Access(who=who, can_read=True, can_write=can_write, problem=problem)

    async def aclose(self) -> None:
        """Close connections."""
        await self._web.aclose()

    async def _pulls(self, params: Mapping[str, str | int]) -> tuple[ForgePull, ...]:
        told = await self._web.get_all(
            f"{self._project}/merge_requests",
            params={**_PAGE, "order_by": "created_at", "sort": "desc", **params},
        )
        return tuple(pull_of(row) for row in told if of_this_project(row))

    async def _open_one(self, branch: str) -> ForgePull | None:
        found = await self.find_pull(branch)
        return found if found is not None and found.state is PullRequestState.OPEN else None

    async def _who(self) -> str:
        try:
            return needed_text("the user", (await self._web.get("/user")).body, "username")
        except (ForbiddenError, MissingError):
            # The token of a job is no user's.
            return "the token"

    async def _scopes(self) -> set[str] | None:
        """Return what the token is good for; None if it is of a kind that does not say."""
        try:
            told: Any = (await self._web.get("/personal_access_tokens/self")).body
        except (ForbiddenError, MissingError, RefusedError, UnauthorizedError):
            return None
        scopes = at(told, "scopes")
        return {str(each) for each in scopes} if isinstance(scopes, list) else None

    async def _there(self) -> None:
        # What we may not see is not found either: only if the project is seen, the thing is gone.
        await self._web.get(self._project)


def _no_access(who: str, problem: str) -> Access:
    return Access(who=who, can_read=False, can_write=False, problem=problem)
