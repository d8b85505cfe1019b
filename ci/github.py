"""GitHub, on github.com or Enterprise: one repository as `ci.forge.Forge`, over REST.

Owns which question goes to which address. Must not decide what a verdict is or when to ask, keep
anything that GitHub could be asked for again, or see a token: `sign` signs each request.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from ci.errors import ForbiddenError, MissingError, RefusedError
from ci.forge import Access
from ci.forms import Reread, flag, number, text
from ci.github_door import GitHubDoor
from ci.github_explaining import explained
from ci.github_forms import checks_of, pull_of
from ci.github_identity import Identity
from ci.github_merging import Merging
from ci.github_reviews import reviews_of
from ci.interface import PullRequestState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ci.breaker import Doors
    from ci.checks import Check
    from ci.forge import ForgePull, Reviews
    from ci.http import Budget
    from ci.interface import MergeResult

UNKNOWN_COMMIT = 422
"""What GitHub answers when there is no such commit, or no head of that name."""
EMPTY_REPOSITORY = 409

_NUMBER = re.compile(r"[#!]?(\d{1,12})")
_APP = "a GitHub App"
_PAGE: Mapping[str, str | int] = {"per_page": 100}


class GitHubForge:
    """One repository on GitHub."""

    name = "github"

    def __init__(  # noqa: PLR0913  # each is one thing that a setting or a test decides
        self,
        *,
        repo: str,
        api: str,
        web_url: str,
        sign: Callable[[], Awaitable[Mapping[str, str]]],
        now: Callable[[], float],
        renew: Callable[[], bool] | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        doors: Doors | None = None,
        timeout: float = 20.0,
    ) -> None:
        """`renew` is told that a token was refused, and says whether another may be had.

        `web_url` is where the pages are: https://github.com.
        """
        self._repo = repo
        self._at = f"/repos/{quote(repo)}"
        self._web_url = web_url.rstrip("/")
        self.place = f"{self._web_url.partition('://')[2]}/{repo}"
        self._door = GitHubDoor(
            api, sign=sign, now=now, renew=renew, doors=doors, timeout=timeout, place=self.place
        )
        self._listed: Reread[ForgePull] = Reread(pull_of)
        self._identity = Identity(self._door)
        self._merging = Merging(self._door, repo=quote(repo), now=now, sleep=sleep, look=self.pull)

    @property
    def budget(self) -> Budget:
        """What GitHub still lets us ask."""
        return self._door.budget

    async def checks(self, sha: str) -> tuple[Check, ...]:
        """Return check runs and commit statuses of exactly this commit, joined by name.

        GitHub's own summary of statuses is no help: it is pending for ever where there are none.
        """
        commit = f"{self._at}/commits/{quote(sha)}"
        try:
            runs = await self._door.get_all(
                f"{commit}/check-runs", key="check_runs", params={**_PAGE, "filter": "latest"}
            )
        except (MissingError, RefusedError) as error:
            await self._there(error)
            return ()
        try:
            statuses = await self._door.get_all(f"{commit}/status", key="statuses", params=_PAGE)
        except MissingError:
            # The commit is there, as it was answered about check runs: statuses are what is not.
            statuses = []
        return checks_of(runs, statuses)

    async def explain(self, sha: str, check: Check) -> Check:
        """Name the failed step of an Actions job and bring the end of its log."""
        del sha
        return await explained(self._door, self._at, check)

    async def rerun(self, sha: str, checks: Sequence[Check]) -> bool:
        """Run failed jobs or check runs once more; nothing is begun if one of them cannot be."""
        del sha
        wanted: list[str] = []
        try:
            for check in checks:
                kind, _, identity = check.ref.partition(":")
                if kind == "check":
                    wanted.append(f"{self._at}/check-runs/{identity}/rerequest")
                elif kind == "job":
                    run = await self._run_of(identity)
                    wanted.append(f"{self._at}/actions/runs/{run}/rerun-failed-jobs")
                else:
                    return False
            for address in dict.fromkeys(wanted):
                await self._door.send("POST", address)
        except (ForbiddenError, MissingError, RefusedError):
            return False
        return bool(wanted)

    async def head(self, branch: str) -> str | None:
        """Return the newest commit of a branch on GitHub."""
        try:
            answer = await self._door.get(f"{self._at}/git/ref/heads/{quote(branch)}")
        except MissingError as error:
            await self._there(error)
            return None
        except RefusedError as error:
            if error.status != EMPTY_REPOSITORY:
                raise
            return None
        # A name that is only the beginning of other names is answered with a list of those.
        return text(answer.body, "object", "sha") or None

    async def default_branch(self) -> str:
        """Return the branch that GitHub shows first."""
        return text((await self._door.get(self._at)).body, "default_branch") or "main"

    async def open_pulls(self) -> tuple[ForgePull, ...]:
        """Return the open pull requests, the newest first; those of forks as well."""
        bodies = await self._door.get_all(f"{self._at}/pulls", params={**_PAGE, "state": "open"})
        return self._listed.of(bodies)

    async def pull(self, number: int) -> ForgePull | None:
        """Return one pull request; asking is what makes GitHub find out whether it merges."""
        try:
            answer = await self._door.get(f"{self._at}/pulls/{number}")
        except MissingError as error:
            await self._there(error)
            return None
        return pull_of(answer.body, queued=await self._merging.queued(answer.body))

    async def find_pull(self, branch: str) -> ForgePull | None:
        """Return the newest open pull request of a branch of this repository, else its newest."""
        owner = self._repo.partition("/")[0]
        bodies = await self._door.get_all(
            f"{self._at}/pulls",
            params={**_PAGE, "state": "all", "head": f"{owner}:{branch}"},
        )
        pulls = [pull_of(body) for body in bodies]
        newest = max(
            (pull for pull in pulls if pull.ours and pull.branch == branch),
            key=lambda pull: (pull.state is PullRequestState.OPEN, pull.number),
            default=None,
        )
        return None if newest is None else await self.pull(newest.number)

    def number_of(self, ref: str) -> int | None:
        """Read `3`, `#3`, `!3` or a url of a pull request of this repository."""
        page = f"{self._web_url}/{self._repo}/pull/".lower()
        if ref.lower().startswith(page):
            ref = re.split(r"[/?#]", ref[len(page) :], maxsplit=1)[0]
        plain = _NUMBER.fullmatch(ref.strip())
        return int(plain[1]) if plain is not None else None

    async def create_pull(
        self, *, branch: str, base: str, title: str, body: str, labels: Sequence[str] = ()
    ) -> ForgePull:
        """Open a pull request, or adopt the one that is open for the branch."""
        try:
            answer = await self._door.send(
                "POST",
                f"{self._at}/pulls",
                json={"title": title, "head": branch, "base": base, "body": body},
            )
            pull = pull_of(answer.body)
        except RefusedError:
            adopted = await self.find_pull(branch)
            if adopted is None or adopted.state is not PullRequestState.OPEN:
                raise
            pull = adopted
        await self._label(pull.number, labels)
        return pull

    async def reviews(self, pull: ForgePull) -> Reviews:
        """Return what reviewers said; only the word of people of the repository takes sides."""
        at = f"{self._at}/pulls/{pull.number}"
        return reviews_of(
            pull.head_sha,
            await self._door.get_all(f"{at}/reviews", params=_PAGE),
            await self._door.get_all(f"{at}/comments", params=_PAGE),
            await self._door.get_all(f"{self._at}/issues/{pull.number}/comments", params=_PAGE),
            me=await self._identity.name(),
        )

    async def merge(self, pull: ForgePull, *, sha: str, method: str, message: str) -> MergeResult:
        """Merge exactly this commit, or put it in the merge queue, or say why not."""
        return await self._merging.merge(pull, sha=sha, method=method, message=message)

    async def close_pull(self, number: int) -> None:
        """Close without merging; one that is closed stays so."""
        await self._door.send("PATCH", f"{self._at}/pulls/{number}", json={"state": "closed"})

    async def comment(self, number: int, text: str) -> None:
        """Write a comment under the pull request."""
        await self._door.send("POST", f"{self._at}/issues/{number}/comments", json={"body": text})

    async def access(self) -> Access:
        """Find out who we are and what we may do."""
        who, scopes = await self._who()
        try:
            repo = (await self._door.get(self._at)).body
        except (MissingError, ForbiddenError):
            return Access(
                who=who,
                can_read=False,
                can_write=False,
                problem=f"{who} cannot see {self.place}: give the token access to this repository "
                "(fine-grained: pull requests and contents to write, checks, statuses and actions "
                "to read; classic: the scope repo)",
            )
        # Of an App, what it may do is said on its own page, not with the repository.
        can_write = flag(repo, "permissions", "push") or who == _APP
        problem = ""
        if scopes is not None and not {"repo", "public_repo"} & scopes:
            can_write, problem = False, f"the token of {who} lacks the scope repo: add it"
        elif not can_write:
            problem = f"{who} may not write to {self.place}: ask for the role Write there"
        return Access(who=who, can_read=True, can_write=can_write, problem=problem)

    async def aclose(self) -> None:
        """Close connections."""
        await self._door.aclose()

    async def _who(self) -> tuple[str, set[str] | None]:
        """Return our name and the scopes of a classic token; None where there are no scopes."""
        try:
            answer = await self._door.get("/user")
        except (ForbiddenError, MissingError):
            # An installation of a GitHub App is no user.
            return _APP, None
        scopes = answer.headers.get("x-oauth-scopes")
        names = {each.strip() for each in (scopes or "").split(",")} - {""}
        return text(answer.body, "login") or "somebody", names or None

    async def _label(self, number: int, labels: Sequence[str]) -> None:
        if labels:
            try:
                await self._door.send(
                    "POST", f"{self._at}/issues/{number}/labels", json={"labels": list(labels)}
                )
            except (ForbiddenError, MissingError, RefusedError):
                # A label is an ornament: the pull request counts.
                return

    async def _run_of(self, identity: str) -> int:
        job, _, run = identity.partition(":")
        if run:
            return int(run)
        answer = await self._door.get(f"{self._at}/actions/jobs/{job}")
        return number(answer.body, "run_id") or 0

    async def _there(self, error: MissingError | RefusedError) -> None:
        """Raise it, unless it only says that a thing in the repository does not exist."""
        if isinstance(error, RefusedError) and error.status != UNKNOWN_COMMIT:
            raise error
        # GitHub hides what we may not see: only if the repository is seen, the thing is missing.
        await self._door.get(self._at)
