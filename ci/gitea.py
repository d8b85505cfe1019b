"""Gitea and Forgejo: one repository as `ci.forge.Forge`, over the REST API v1.

Owns which question goes to which address. Must not decide what a verdict is or when to ask, or see
a token: `sign` signs each request.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ci.errors import ForbiddenError, MissingError, RefusedError, UnauthorizedError
from ci.forge import Access
from ci.forms import flag, needed_text, number, text
from ci.gitea_forms import branch_of, checks_of, of_this_repository, pull_of
from ci.gitea_merging import GiteaMerging
from ci.gitea_reviews import GiteaReviews
from ci.gitea_runs import explained
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
    "set LOOPWRIGHT_GITEA_TOKEN to an access token that may read and write the repository and its "
    "issues and read the user (write:repository, write:issue, read:user)"
)
SETTLES = 5.0
"""Seconds in which a server finds out whether something merges; until then it says no."""
CLOSED_LOOKED_AT = 200
"""Closed pull requests among which that of a branch is looked for."""
LABEL_COLOUR = "#ededed"
_NUMBER = re.compile(r"[#!]?(\d{1,12})")
_PAGE: Mapping[str, str | int] = {"limit": 50}


class GiteaForge:
    """One repository on Gitea or Forgejo."""

    name = "gitea"

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
        settles: float = SETTLES,
    ) -> None:
        """`web_url` is where the pages are: https://codeberg.org."""
        self._settles = settles
        self._host = web_url.rstrip("/")
        self._page = f"{self._host}/{repo}"
        self.place = self._page.partition("://")[2]
        self._owner = repo.partition("/")[0]
        self._at = f"/repos/{quote(repo)}"
        self._now = now
        self._web = Web(api, sign=sign, now=now, advice=ADVICE, doors=doors, timeout=timeout)
        self._reviews = GiteaReviews(self._web, self._at, owner=self._owner, now=now)
        self._merging = GiteaMerging(self._web, self._at, look=self.pull, sleep=sleep)
        self._refusing: dict[int, tuple[tuple[str, str], float]] = {}
        """Since when a pull request with this head and base is said not to merge."""

    @property
    def budget(self) -> Budget:
        """What the server still lets us ask; it sets no limit by itself."""
        return self._web.budget

    async def checks(self, sha: str) -> tuple[Check, ...]:
        """Return the newest status of each context of exactly this commit."""
        path = f"{self._at}/commits/{quote(sha, safe='')}/statuses"
        try:
            statuses = await self._web.get_all(path, params=_PAGE)
        except MissingError:
            await self._there()
            return ()
        return checks_of(statuses, web_url=self._host)

    async def explain(self, sha: str, check: Check) -> Check:
        """Name the failed step of a run of the server's own Actions and bring its log."""
        return await explained(self._web, self._at, sha, check)

    async def rerun(self, sha: str, checks: Sequence[Check]) -> bool:
        """Do nothing: not every server can run something once more."""
        del sha, checks
        return False

    async def head(self, branch: str) -> str | None:
        """Return the newest commit of a branch there."""
        try:
            answer = await self._web.get(f"{self._at}/branches/{quote(branch, safe='')}")
        except MissingError:
            await self._there()
            return None
        return text(answer.body, "commit", "id") or None

    async def default_branch(self) -> str:
        """Return the branch that pull requests go into by default."""
        return text((await self._web.get(self._at)).body, "default_branch") or "main"

    async def open_pulls(self) -> tuple[ForgePull, ...]:
        """Return the open pull requests of branches of this repository, the newest first."""
        return await self._pulls("open", most=1000)

    async def pull(self, number: int) -> ForgePull | None:
        """Return one pull request."""
        try:
            answer = await self._web.get(f"{self._at}/pulls/{number}")
        except MissingError:
            await self._there()
            return None
        return self._judged(pull_of(answer.body), text(answer.body, "base", "sha"))

    async def find_pull(self, branch: str) -> ForgePull | None:
        """Return the newest open pull request of a branch of this repository, else its newest."""
        for state, most in (("open", 1000), ("closed", CLOSED_LOOKED_AT)):
            numbers = [
                pull.number for pull in await self._pulls(state, most=most) if pull.branch == branch
            ]
            if numbers:
                return await self.pull(max(numbers))
        return None

    def number_of(self, ref: str) -> int | None:
        """Read `3`, `#3`, `!3` or a url of a pull request of this repository."""
        ref, page = ref.strip(), f"{self._page}/pulls/"
        if ref.lower().startswith(page.lower()):
            ref = re.split(r"[/?#]", ref[len(page) :], maxsplit=1)[0]
        plain = _NUMBER.fullmatch(ref)
        return int(plain[1]) if plain is not None else None

    async def create_pull(
        self, *, branch: str, base: str, title: str, body: str, labels: Sequence[str] = ()
    ) -> ForgePull:
        """Open a pull request, or adopt the one that is open for the branch."""
        adopted = await self._open_one(branch)
        if adopted is not None:
            return adopted
        order: dict[str, Any] = {"head": branch, "base": base, "title": title, "body": body}
        if labels:
            order["labels"] = await self._label_ids(labels)
        try:
            answer = await self._web.send("POST", f"{self._at}/pulls", json=order)
        except RefusedError:
            # Somebody may have opened one in between.
            adopted = await self._open_one(branch)
            if adopted is None:
                raise
            return adopted
        return self._judged(pull_of(answer.body), text(answer.body, "base", "sha"))

    async def reviews(self, pull: ForgePull) -> Reviews:
        """Return what reviewers said; only the word of those who may write takes sides."""
        return await self._reviews.reviews(pull)

    async def merge(self, pull: ForgePull, *, sha: str, method: str, message: str) -> MergeResult:
        """Merge exactly this commit, or say why not."""
        return await self._merging.merge(pull, sha=sha, method=method, message=message)

    async def close_pull(self, number: int) -> None:
        """Close without merging; one that is closed or merged stays so."""
        try:
            await self._web.send("PATCH", f"{self._at}/pulls/{number}", json={"state": "closed"})
        except RefusedError:
            seen = await self.pull(number)
            if seen is None or seen.state is PullRequestState.OPEN:
                raise

    async def comment(self, number: int, text: str) -> None:
        """Write a comment under the pull request."""
        path = f"{self._at}/issues/{number}/comments"
        await self._web.send("POST", path, json={"body": text})

    async def access(self) -> Access:
        """Find out who we are and what we may do."""
        who = "the token"
        try:
            who = await self._who()
            repo = (await self._web.get(self._at)).body
        except UnauthorizedError as error:
            return Access(who="nobody", can_read=False, can_write=False, problem=str(error))
        except (MissingError, ForbiddenError):
            problem = f"{who} cannot see {self.place}: {ADVICE}"
            return Access(who=who, can_read=False, can_write=False, problem=problem)
        can_write = flag(repo, "permissions", "push")
        problem = f"{who} may not write to {self.place}: add it there as a collaborator who may"
        problem = "" if can_write else problem
        return Access(who=who, can_read=True, can_write=can_write, problem=problem)

    async def aclose(self) -> None:
        """Close connections."""
        await self._web.aclose()

    def _judged(self, pull: ForgePull, base: str) -> ForgePull:
        """Take a fresh "does not merge" for what it may be: nobody has found out yet."""
        if pull.mergeable is not False or pull.state is not PullRequestState.OPEN:
            self._refusing.pop(pull.number, None)
            return pull
        about = (pull.head_sha, base)
        known = self._refusing.get(pull.number)
        if known is None or known[0] != about:
            known = self._refusing[pull.number] = (about, self._now())
        settled = self._now() >= known[1] + self._settles and not pull.draft
        return pull if settled else pull.model_copy(update={"mergeable": None})

    async def _pulls(self, state: str, *, most: int) -> tuple[ForgePull, ...]:
        told = await self._web.get_all(
            f"{self._at}/pulls",
            params={**_PAGE, "state": state, "sort": "recentupdate"},
            most=most,
        )
        ours = [row for row in told if of_this_repository(row) and branch_of(row)]
        pulls = [pull_of(row).model_copy(update={"mergeable": None}) for row in ours]
        return tuple(sorted(pulls, key=lambda pull: -pull.number))

    async def _open_one(self, branch: str) -> ForgePull | None:
        found = await self.find_pull(branch)
        return found if found is not None and found.state is PullRequestState.OPEN else None

    async def _label_ids(self, labels: Sequence[str]) -> list[int]:
        """Return the ids of labels, made where there are none; a label is an ornament."""
        try:
            told = await self._web.get_all(f"{self._at}/labels", params=_PAGE)
            known = {text(row, "name"): number(row, "id") for row in told}
            for name in dict.fromkeys(labels):
                if name not in known:
                    order = {"name": name, "color": LABEL_COLOUR}
                    made = await self._web.send("POST", f"{self._at}/labels", json=order)
                    known[name] = number(made.body, "id")
        except (ForbiddenError, MissingError, RefusedError):
            return []
        return [found for name in labels if (found := known.get(name)) is not None]

    async def _who(self) -> str:
        try:
            return needed_text("the user", (await self._web.get("/user")).body, "login")
        except (ForbiddenError, MissingError):
            # A token may be good for the repository alone.
            return "the token"

    async def _there(self) -> None:
        # What we may not see is not found either: only if the repository is, the thing is gone.
        await self._web.get(self._at)
