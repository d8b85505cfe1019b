"""GitLab, on gitlab.com or one's own: one project as `ci.forge.protocol.Forge`, over REST API v4.

Owns the address of each request. Must not decide what a verdict is or when to poll, store anything
that GitLab can return again, or see a token: `sign` signs each request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ci.errors import ForbiddenError, MissingError, RefusedError, UnauthorizedError
from ci.forge.json_fields import at, needed_text, rows, text
from ci.forge.json_fields import number as number_of
from ci.forge.protocol import Access
from ci.forge.rest import RestForge, newest
from ci.forge.upkeep.words_and_people import plain
from ci.gitlab.checks import GitLabChecks
from ci.gitlab.hooks import hooks_of
from ci.gitlab.issues import GitLabIssues
from ci.gitlab.merging import GitLabMerging
from ci.gitlab.payloads import may_write, of_this_project, pull_of
from ci.gitlab.project import GitLabProject
from ci.gitlab.reviews import GitLabReviews
from ci.gitlab.trains import GitLabTrains

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ci.events import Check
    from ci.forge.hooks import KnownHooks
    from ci.forge.protocol import BranchRules, ForgePull, LeftQueue, NewPull, Reviews
    from ci.forge.rest import Connection
    from ci.interface import MergeResult

ADVICE = (
    "set LOOPWRIGHT_GITLAB_TOKEN to a personal, group or project access token with the scope api, "
    "of a user with the role Developer or more"
)
DRAFT = "Draft:"
"""How the title of a draft begins."""
_PAGE: Mapping[str, str | int] = {"per_page": 100}


class GitLabForge(RestForge):
    """One project on GitLab."""

    name = "gitlab"
    mark = "!"
    queue = "merge train"

    def __init__(self, connection: Connection) -> None:
        self._http = connection.client(ADVICE)
        # To GitLab the whole path is one id.
        at = f"/projects/{quote(connection.repo, safe='')}"
        super().__init__(
            connection, self._http, at=at, pages=("-/merge_requests", "merge_requests")
        )
        self.issues = GitLabIssues(self._http, connection.repo)
        self._reviews = GitLabReviews(self._http, at, now=connection.now)
        self._project = GitLabProject(self._http, at, now=connection.now)
        self._checks = GitLabChecks(self._http, at, self._project, now=connection.now)
        self._trains = GitLabTrains(self._http, at, self._project)
        self._merging = GitLabMerging(
            self._http, at, look=self._pull, sleep=connection.sleep, trains=self._trains
        )

    async def checks(self, sha: str) -> tuple[Check, ...]:
        """Return jobs of the current pipelines and outside statuses of exactly this commit."""
        return await self._checks.checks(sha)

    async def explain(self, sha: str, check: Check) -> Check:
        """Name the stage and the reason of a failed job and fetch the end of its log."""
        del sha
        return await self._checks.explain(check)

    async def rerun(self, sha: str, checks: Sequence[Check]) -> bool:
        """Rerun failed jobs."""
        del sha
        return await self._checks.rerun(checks)

    async def head(self, branch: str) -> str | None:
        """Return the newest commit of a branch on GitLab."""
        path = f"{self._at}/repository/branches/{quote(branch, safe='')}"
        try:
            answer = await self._http.get(path)
        except MissingError:
            await self._there()
            return None
        return text(answer.body, "commit", "id") or None

    async def is_checked(self, branch: str) -> bool:
        """Return whether a pipeline ever ran for a branch."""
        return await self._checks.on_branch(branch)

    async def branch_rules(self, branch: str) -> BranchRules:
        """Return what the project's settings demand of a merge; they name no single jobs."""
        del branch
        return (await self._project.settings(anew=True)).rules

    async def open_pulls(self) -> tuple[ForgePull, ...]:
        """Return the open merge requests of branches of this project, the newest first."""
        return await self._pulls({"state": "opened"})

    async def pull(self, number: int) -> ForgePull | None:
        """Return one merge request; the request makes GitLab compute whether it merges."""
        found = await self._pull(number)
        return None if found is None else await self._trains.seen(found)

    async def _pull(self, number: int) -> ForgePull | None:
        try:
            answer = await self._http.get(f"{self._at}/merge_requests/{number}")
        except MissingError:
            await self._there()
            return None
        return pull_of(answer.body)

    async def find_pull(self, branch: str) -> ForgePull | None:
        """Return the newest open merge request of a branch of this project, else its newest."""
        found = await self._pulls({"source_branch": branch, "state": "all"})
        number = newest(found, branch)
        return None if number is None else await self.pull(number)

    async def create_pull(self, new: NewPull) -> ForgePull:
        """Open a merge request."""
        answer = await self._http.send(
            "POST",
            f"{self._at}/merge_requests",
            json={
                "source_branch": new.branch,
                "target_branch": new.base,
                "title": f"{DRAFT} {new.title}" if new.draft else new.title,
                "description": new.body,
                **({"labels": ",".join(new.labels)} if new.labels else {}),
            },
        )
        return pull_of(answer.body)

    async def reviews(self, pull: ForgePull) -> Reviews:
        """Return the reviews; only those of people of the project count."""
        return await self._reviews.reviews(pull)

    async def merge(self, pull: ForgePull, *, sha: str, method: str, message: str) -> MergeResult:
        """Merge exactly this commit, or put it on the merge train, or return why not."""
        return await self._merging.merge(pull, sha=sha, method=method, message=message)

    async def left_queue(self, pull: ForgePull) -> LeftQueue:
        """Return how it left the merge train the last time."""
        return await self._trains.left(pull)

    async def edit_pull(self, pull: ForgePull, *, title: str, body: str) -> None:
        """Write another title and text; a draft stays a draft."""
        title = f"{DRAFT} {title}" if pull.draft else title
        await self._edit(pull.number, title=title, description=body)

    async def mark_ready(self, pull: ForgePull) -> None:
        """Make a draft ready for review: its title says what it is."""
        await self._edit(pull.number, title=plain(pull.title))

    async def ask_for_review(self, number: int, who: Sequence[str]) -> None:
        """Ask these people to review it."""
        await self._add_people(number, "reviewer", who)

    async def assign(self, number: int, who: Sequence[str]) -> None:
        """Assign it to these people."""
        await self._add_people(number, "assignee", who)

    async def _add_people(self, number: int, role: str, who: Sequence[str]) -> None:
        """Add people to those who have the role: the list that is sent takes the place of these."""
        wanted = await self._ids(who)
        told = (await self._http.get(f"{self._at}/merge_requests/{number}")).body
        present = [number_of(row, "id") for row in rows(told, f"{role}s")]
        if missing := [each for each in wanted if each not in present]:
            await self._edit(number, **{f"{role}_ids": [*present, *missing]})

    async def _ids(self, who: Sequence[str]) -> list[int]:
        found: list[int] = []
        for name in who:
            told = await self._http.get_all("/users", params={"username": name})
            found += [each for row in told if (each := number_of(row, "id")) is not None]
        return found

    async def _close(self, number: int) -> None:
        await self._edit(number, state_event="close")

    async def _edit(self, number: int, **fields: object) -> None:
        await self._http.send("PUT", f"{self._at}/merge_requests/{number}", json=fields)

    async def comment(self, number: int, text: str) -> None:
        """Write a comment under the merge request."""
        path = f"{self._at}/merge_requests/{number}/notes"
        await self._http.send("POST", path, json={"body": text})

    async def reply(self, number: int, ref: str, text: str) -> None:
        """Write below a remark: `ref` is its discussion."""
        path = f"{self._at}/merge_requests/{number}/discussions/{quote(ref)}/notes"
        await self._http.send("POST", path, json={"body": text})

    async def hooks(self) -> KnownHooks:
        """Return the webhooks that are sent to us, also those of its groups."""
        return await hooks_of(self._http, self._at, self._repo)

    async def access(self) -> Access:
        """Return who we are and what we may do."""
        who = "the token"
        try:
            who = await self._who()
            project = (await self._http.get(self._at)).body
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
        called = self._other_name(project)
        return Access(
            who=who, can_read=True, can_write=can_write, problem=problem, renamed_to=called
        )

    async def _pulls(self, params: Mapping[str, str | int]) -> tuple[ForgePull, ...]:
        told = await self._http.get_all(
            f"{self._at}/merge_requests",
            params={**_PAGE, "order_by": "created_at", "sort": "desc", **params},
        )
        return tuple(pull_of(row) for row in told if of_this_project(row))

    async def _who(self) -> str:
        try:
            return needed_text("the user", (await self._http.get("/user")).body, "username")
        except (ForbiddenError, MissingError):
            # The token of a job belongs to no user.
            return "the token"

    async def _scopes(self) -> set[str] | None:
        """Return the scopes of the token; None if its kind does not reveal them."""
        try:
            told: Any = (await self._http.get("/personal_access_tokens/self")).body
        except (ForbiddenError, MissingError, RefusedError, UnauthorizedError):
            return None
        scopes = at(told, "scopes")
        return {str(each) for each in scopes} if isinstance(scopes, list) else None


def _no_access(who: str, problem: str) -> Access:
    return Access(who=who, can_read=False, can_write=False, problem=problem)
