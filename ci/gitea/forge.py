"""Gitea and Forgejo: one repository as `ci.forge.protocol.Forge`, over the REST API v1.

Owns the address of each request. Must not decide what a verdict is or when to poll, or see a token:
`sign` signs each request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ci.errors import ForbiddenError, MissingError, RefusedError, UnauthorizedError
from ci.forge.json_fields import flag, needed_text, rows, text
from ci.forge.protocol import Access, BranchRules
from ci.forge.rest import RestForge
from ci.forge.upkeep.words_and_people import plain
from ci.gitea.actions import explained, rerun
from ci.gitea.history import GiteaHistory
from ci.gitea.hooks import hooks_of
from ci.gitea.issues import GiteaIssues
from ci.gitea.merging import GiteaMerging
from ci.gitea.outdated import OutdatedBranches
from ci.gitea.payloads import (
    branch_of,
    branch_rules_of,
    checks_of,
    of_this_repository,
    pull_of,
)
from ci.gitea.reviews import GiteaReviews
from ci.interface import PullRequestState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ci.events import Check
    from ci.forge.hooks import KnownHooks
    from ci.forge.protocol import ForgePull, NewPull, Reviews
    from ci.forge.rest import Connection
    from ci.interface import MergeResult

ADVICE = (
    "set LOOPWRIGHT_GITEA_TOKEN to an access token that may read and write the repository and its "
    "issues and read the user (write:repository, write:issue, read:user)"
)
SETTLES = 5.0
"""Seconds in which a server computes whether something merges; until then it says no."""
CLOSED_LOOKED_AT = 200
"""Closed pull requests that are searched for that of a branch."""
DRAFT = "WIP:"
"""How the title of a draft begins."""
_PAGE: Mapping[str, str | int] = {"limit": 50}


class GiteaForge(RestForge):
    """One repository on Gitea or Forgejo; it has no rate limit by default."""

    name = "gitea"

    def __init__(self, connection: Connection) -> None:
        self._http = connection.client(ADVICE)
        self._now = connection.now
        self._host = connection.web_url.rstrip("/")
        at = f"/repos/{quote(connection.repo)}"
        super().__init__(connection, self._http, at=at, pages=("pulls",))
        self.issues: GiteaIssues = GiteaIssues(self._http, connection.repo)
        owner = connection.repo.partition("/")[0]
        self._reviews = GiteaReviews(self._http, at, owner=owner, now=connection.now)
        self._history = GiteaHistory(self._http, at, checks=self.checks)
        self._outdated = OutdatedBranches(self._http, at, now=connection.now)
        self._merging = GiteaMerging(
            self._http, at, look=self.pull, sleep=connection.sleep, outdated=self._outdated
        )
        self._refusing: dict[int, tuple[tuple[str, str], float]] = {}
        """Since when the server says that a pull request with this head and base does not merge."""

    async def checks(self, sha: str) -> tuple[Check, ...]:
        """Return the newest status of each context of exactly this commit."""
        path = f"{self._at}/commits/{quote(sha, safe='')}/statuses"
        try:
            statuses = await self._http.get_all(path, params=_PAGE)
        except MissingError:
            await self._there()
            return ()
        return checks_of(statuses, web_url=self._host)

    async def explain(self, sha: str, check: Check) -> Check:
        """Name the failed step of a run of the server's own Actions and fetch its log."""
        return await explained(self._http, self._at, sha, check)

    async def rerun(self, sha: str, checks: Sequence[Check]) -> bool:
        """Rerun the failed jobs of the server's own Actions, since Gitea 1.26."""
        return await rerun(self._http, self._at, sha, checks)

    async def head(self, branch: str) -> str | None:
        """Return the newest remote commit of a branch."""
        try:
            answer = await self._http.get(f"{self._at}/branches/{quote(branch, safe='')}")
        except MissingError:
            await self._there()
            return None
        return text(answer.body, "commit", "id") or None

    async def is_checked(self, branch: str) -> bool:
        """Return whether a status is on its newest commits; each older one is asked about once."""
        return await self._history.is_checked(branch)

    async def branch_rules(self, branch: str) -> BranchRules:
        """Return the protection of a branch: readers are told a part, administrators all."""
        try:
            answer = await self._http.get(f"{self._at}/branches/{quote(branch, safe='')}")
        except (MissingError, ForbiddenError):
            return BranchRules()
        name = text(answer.body, "effective_branch_protection_name")
        if not name:
            return branch_rules_of(answer.body)
        rules = branch_rules_of(answer.body, await self._protection(name))
        self._outdated.learned(branch, demands_newest=rules.up_to_date)
        return rules

    async def _protection(self, name: str) -> object:
        try:
            path = f"{self._at}/branch_protections/{quote(name, safe='')}"
            return (await self._http.get(path)).body
        except (MissingError, ForbiddenError):
            return None

    async def open_pulls(self) -> tuple[ForgePull, ...]:
        """Return the open pull requests of branches of this repository, the newest first."""
        return await self._pulls("open", most=1000)

    async def pull(self, number: int) -> ForgePull | None:
        """Return one pull request."""
        try:
            answer = await self._http.get(f"{self._at}/pulls/{number}")
        except MissingError:
            await self._there()
            return None
        return await self._outdated.judged(self._judged(pull_of(answer.body)))

    async def find_pull(self, branch: str) -> ForgePull | None:
        """Return the newest open pull request of a branch of this repository, else its newest."""
        for state, most in (("open", 1000), ("closed", CLOSED_LOOKED_AT)):
            numbers = [
                pull.number for pull in await self._pulls(state, most=most) if pull.branch == branch
            ]
            if numbers:
                return await self.pull(max(numbers))
        return None

    async def create_pull(self, new: NewPull) -> ForgePull:
        """Open a pull request; two requests at the same time may make two."""
        title = f"{DRAFT} {new.title}" if new.draft else new.title
        order: dict[str, Any] = {"head": new.branch, "base": new.base, "title": title}
        order["body"] = new.body
        if new.labels:
            order["labels"] = await self._label_ids(new.labels)
        answer = await self._http.send("POST", f"{self._at}/pulls", json=order)
        return self._judged(pull_of(answer.body))

    async def reviews(self, pull: ForgePull) -> Reviews:
        """Return the reviews; only those of people who may write count."""
        return await self._reviews.reviews(pull)

    async def merge(self, pull: ForgePull, *, sha: str, method: str, message: str) -> MergeResult:
        """Merge exactly this commit, or return why not."""
        return await self._merging.merge(pull, sha=sha, method=method, message=message)

    async def edit_pull(self, pull: ForgePull, *, title: str, body: str) -> None:
        """Write another title and text; a draft stays a draft."""
        await self._edit(pull.number, title=f"{DRAFT} {title}" if pull.draft else title, body=body)

    async def mark_ready(self, pull: ForgePull) -> None:
        """Make a draft ready for review: its title says what it is."""
        await self._edit(pull.number, title=plain(pull.title))

    async def ask_for_review(self, number: int, who: Sequence[str]) -> None:
        """Ask these people to review it."""
        path = f"{self._at}/pulls/{number}/requested_reviewers"
        await self._http.send("POST", path, json={"reviewers": list(who)})

    async def assign(self, number: int, who: Sequence[str]) -> None:
        """Assign it to these people, too: the list that is sent takes the place of the old one."""
        told = (await self._http.get(f"{self._at}/pulls/{number}")).body
        present = [text(row, "login") for row in rows(told, "assignees")]
        await self._edit(number, assignees=list(dict.fromkeys([*present, *who])))

    async def _edit(self, number: int, **fields: object) -> None:
        await self._http.send("PATCH", f"{self._at}/pulls/{number}", json=fields)

    async def update_pull(self, pull: ForgePull) -> bool:
        """Have the server merge the base into the branch."""
        await self._http.send("POST", f"{self._at}/pulls/{pull.number}/update?style=merge")
        return True

    async def _close(self, number: int) -> None:
        await self._edit(number, state="closed")

    async def comment(self, number: int, text: str) -> None:
        """Write a comment under the pull request."""
        path = f"{self._at}/issues/{number}/comments"
        await self._http.send("POST", path, json={"body": text})

    async def hooks(self) -> KnownHooks:
        """Return the webhooks that are sent to us, also those of the organisation."""
        return await hooks_of(self._http, self._at, self._repo)

    async def access(self) -> Access:
        """Return who we are and what we may do."""
        who = "the token"
        try:
            who = await self._who()
            repo = (await self._http.get(self._at)).body
        except UnauthorizedError as error:
            return Access(who="nobody", can_read=False, can_write=False, problem=str(error))
        except (MissingError, ForbiddenError):
            problem = f"{who} cannot see {self.place}: {ADVICE}"
            return Access(who=who, can_read=False, can_write=False, problem=problem)
        can_write = flag(repo, "permissions", "push")
        problem = f"{who} may not write to {self.place}: add it there as a collaborator who may"
        problem = "" if can_write else problem
        called = self._other_name(repo)
        return Access(
            who=who, can_read=True, can_write=can_write, problem=problem, renamed_to=called
        )

    def _judged(self, pull: ForgePull) -> ForgePull:
        """Treat a fresh "does not merge" as unknown: the server may not have computed it yet."""
        if pull.mergeable is not False or pull.state is not PullRequestState.OPEN:
            self._refusing.pop(pull.number, None)
            return pull
        about = (pull.head_sha, pull.base_head)
        known = self._refusing.get(pull.number)
        if known is None or known[0] != about:
            known = self._refusing[pull.number] = (about, self._now())
        settled = self._now() >= known[1] + SETTLES and not pull.draft
        return pull if settled else pull.model_copy(update={"mergeable": None})

    async def _pulls(self, state: str, *, most: int) -> tuple[ForgePull, ...]:
        told = await self._http.get_all(
            f"{self._at}/pulls",
            params={**_PAGE, "state": state, "sort": "recentupdate"},
            most=most,
        )
        ours = [row for row in told if of_this_repository(row) and branch_of(row)]
        pulls = [self._judged(pull_of(row)) for row in ours]
        return tuple(sorted(pulls, key=lambda pull: -pull.number))

    async def _label_ids(self, labels: Sequence[str]) -> list[int]:
        """Return the ids of labels, made where there are none; labels are optional."""
        try:
            return await self.issues.label_ids(labels)
        except (ForbiddenError, MissingError, RefusedError):
            return []

    async def _who(self) -> str:
        try:
            return needed_text("the user", (await self._http.get("/user")).body, "login")
        except (ForbiddenError, MissingError):
            # A token may be limited to the repository.
            return "the token"
