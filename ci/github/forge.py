"""GitHub, on github.com or Enterprise: one repository as `ci.forge.protocol.Forge`, over REST.

Owns the address of each request. Must not decide what a verdict is or when to poll, store anything
that GitHub can return again, or see a token: `sign` signs each request.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING
from urllib.parse import quote

from ci.errors import ForbiddenError, MissingError, RefusedError
from ci.forge.json_fields import ParseCache, flag, number, text
from ci.forge.protocol import Access, BranchRules
from ci.forge.rest import RestForge, newest
from ci.github.client import GitHubClient, Identity
from ci.github.failures import explained
from ci.github.history import is_checked
from ci.github.hooks import hooks_of
from ci.github.issues import GitHubIssues
from ci.github.merging import GitHubMerging
from ci.github.payloads import branch_rules_of, checks_of, pull_of
from ci.github.reviews import reviews_of
from ci.github.threads import with_resolved

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ci.events import Check
    from ci.forge.hooks import KnownHooks
    from ci.forge.protocol import ForgePull, LeftQueue, NewPull, Reviews
    from ci.forge.rest import Connection
    from ci.interface import MergeResult

UNKNOWN_COMMIT = 422
"""What GitHub answers when there is no such commit, or no head of that name."""
EMPTY_REPOSITORY = 409

READY = """mutation($pull: ID!) {
  markPullRequestReadyForReview(input: {pullRequestId: $pull}) { pullRequest { isDraft } }
}"""
_APP = "a GitHub App"
_PAGE: Mapping[str, str | int] = {"per_page": 100}


class GitHubForge(RestForge):
    """One repository on GitHub."""

    name = "github"

    def __init__(self, connection: Connection) -> None:
        self._api = GitHubClient(connection)
        self._owner = connection.repo.partition("/")[0]
        repo = quote(connection.repo)
        super().__init__(connection, self._api, at=f"/repos/{repo}", pages=("pull",))
        self.issues = GitHubIssues(self._api, connection.repo)
        self._listed: ParseCache[ForgePull] = ParseCache(pull_of)
        self._identity = Identity(self._api)
        self._merging = GitHubMerging(
            self._api, connection, look=self.pull, rules=self.branch_rules
        )

    async def checks(self, sha: str) -> tuple[Check, ...]:
        """Return check runs and commit statuses of exactly this commit, joined by name.

        GitHub's own summary of statuses is useless: it stays pending where there are none.
        """
        commit = f"{self._at}/commits/{quote(sha)}"
        try:
            runs = await self._api.get_all(
                f"{commit}/check-runs", key="check_runs", params={**_PAGE, "filter": "latest"}
            )
        except (MissingError, RefusedError) as error:
            await self._missing(error)
            return ()
        try:
            statuses = await self._api.get_all(f"{commit}/status", key="statuses", params=_PAGE)
        except MissingError:
            # The commit exists, as its check runs were returned: there are no statuses.
            statuses = []
        return checks_of(runs, statuses)

    async def explain(self, sha: str, check: Check) -> Check:
        """Name the failed step of an Actions job and fetch the end of its log."""
        del sha
        return await explained(self._api, self._at, check)

    async def rerun(self, sha: str, checks: Sequence[Check]) -> bool:
        """Rerun failed jobs or check runs; nothing is started if one of them cannot be rerun."""
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
                await self._api.send("POST", address)
        except (ForbiddenError, MissingError, RefusedError):
            return False
        return bool(wanted)

    async def head(self, branch: str) -> str | None:
        """Return the newest commit of a branch on GitHub."""
        try:
            answer = await self._api.get(f"{self._at}/git/ref/heads/{quote(branch)}")
        except MissingError as error:
            await self._missing(error)
            return None
        except RefusedError as error:
            if error.status != EMPTY_REPOSITORY:
                raise
            return None
        # For a mere prefix of branch names GitHub returns a list of these.
        return text(answer.body, "object", "sha") or None

    async def is_checked(self, branch: str) -> bool:
        """Return whether a check ran on its newest commits; on its head where no more is told."""
        told = await is_checked(self._api, self._repo, branch)
        if told is not None:
            return told
        head = await self.head(branch)
        return head is None or bool(await self.checks(head))

    async def branch_rules(self, branch: str) -> BranchRules:
        """Return the rulesets and the protection of a branch, as far as readers are told."""
        name = quote(branch)
        rules: object = None
        classic: object = None
        # Older Enterprise servers know no rules.
        with contextlib.suppress(ForbiddenError, MissingError, RefusedError):
            rules = await self._api.get_all(f"{self._at}/rules/branches/{name}", params=_PAGE)
        with contextlib.suppress(ForbiddenError, MissingError, RefusedError):
            classic = (await self._api.get(f"{self._at}/branches/{name}")).body
        found = branch_rules_of(rules, classic)
        self._merging.learned(branch, found)
        return found

    async def open_pulls(self) -> tuple[ForgePull, ...]:
        """Return the open pull requests, the newest first; those of forks as well."""
        bodies = await self._api.get_all(f"{self._at}/pulls", params={**_PAGE, "state": "open"})
        return self._listed.of(bodies)

    async def pull(self, number: int) -> ForgePull | None:
        """Return one pull request; the request makes GitHub compute whether it merges."""
        try:
            answer = await self._api.get(f"{self._at}/pulls/{number}")
        except MissingError as error:
            await self._missing(error)
            return None
        queued, group = await self._merging.standing(answer.body)
        return pull_of(answer.body, queued=queued, group=group)

    async def find_pull(self, branch: str) -> ForgePull | None:
        """Return the newest open pull request of a branch of this repository, else its newest."""
        bodies = await self._api.get_all(
            f"{self._at}/pulls",
            params={**_PAGE, "state": "all", "head": f"{self._owner}:{branch}"},
        )
        number = newest(map(pull_of, bodies), branch)
        return None if number is None else await self.pull(number)

    async def create_pull(self, new: NewPull) -> ForgePull:
        """Open a pull request; GitHub itself nearly always refuses a second one."""
        answer = await self._api.send(
            "POST",
            f"{self._at}/pulls",
            json={
                "title": new.title,
                "head": new.branch,
                "base": new.base,
                "body": new.body,
                **({"draft": True} if new.draft else {}),
            },
        )
        pull = pull_of(answer.body)
        await self._label(pull.number, new.labels)
        return pull

    async def reviews(self, pull: ForgePull) -> Reviews:
        """Return the reviews; only those of people of the repository count."""
        at = f"{self._at}/pulls/{pull.number}"
        reviews = await self._api.get_all(f"{at}/reviews", params=_PAGE)
        lines = await self._api.get_all(f"{at}/comments", params=_PAGE)
        return reviews_of(
            pull.head_sha,
            reviews,
            await with_resolved(self._api, self._repo, pull.number, lines),
            await self._api.get_all(f"{self._at}/issues/{pull.number}/comments", params=_PAGE),
            me=await self._identity.name(),
        )

    async def merge(self, pull: ForgePull, *, sha: str, method: str, message: str) -> MergeResult:
        """Merge exactly this commit, or put it in the merge queue, or return why not."""
        return await self._merging.merge(pull, sha=sha, method=method, message=message)

    async def update_pull(self, pull: ForgePull) -> bool:
        """Have GitHub merge the base into the branch, which it does soon."""
        address = f"{self._at}/pulls/{pull.number}/update-branch"
        await self._api.send("PUT", address, json={"expected_head_sha": pull.head_sha})
        return True

    async def edit_pull(self, pull: ForgePull, *, title: str, body: str) -> None:
        """Write another title and text."""
        words = {"title": title, "body": body}
        await self._api.send("PATCH", f"{self._at}/pulls/{pull.number}", json=words)

    async def mark_ready(self, pull: ForgePull) -> None:
        """Make a draft ready for review."""
        body = (await self._api.get(f"{self._at}/pulls/{pull.number}")).body
        await self._api.graphql(READY, pull=text(body, "node_id"))

    async def ask_for_review(self, number: int, who: Sequence[str]) -> None:
        """Ask people, and teams written as organisation/team."""
        teams = [each.partition("/")[2] for each in who if "/" in each]
        people = [each for each in who if "/" not in each]
        asked = {"reviewers": people, **({"team_reviewers": teams} if teams else {})}
        await self._api.send("POST", f"{self._at}/pulls/{number}/requested_reviewers", json=asked)

    async def assign(self, number: int, who: Sequence[str]) -> None:
        """Assign it to these people."""
        path = f"{self._at}/issues/{number}/assignees"
        await self._api.send("POST", path, json={"assignees": list(who)})

    async def left_queue(self, pull: ForgePull) -> LeftQueue:
        """Return how it left the merge queue the last time."""
        return await self._merging.left_queue(pull)

    async def _close(self, number: int) -> None:
        await self._api.send("PATCH", f"{self._at}/pulls/{number}", json={"state": "closed"})

    async def comment(self, number: int, text: str) -> None:
        """Write a comment under the pull request."""
        await self._api.send("POST", f"{self._at}/issues/{number}/comments", json={"body": text})

    async def reply(self, number: int, ref: str, text: str) -> None:
        """Write below a remark on a line."""
        path = f"{self._at}/pulls/{number}/comments/{quote(ref)}/replies"
        await self._api.send("POST", path, json={"body": text})

    async def hooks(self) -> KnownHooks:
        """Return the webhooks that are sent to us, also those of the organisation."""
        return await hooks_of(self._api, self._repo)

    async def access(self) -> Access:
        """Return who we are and what we may do."""
        who, scopes = await self._who()
        try:
            repo = (await self._api.get(self._at)).body
        except (MissingError, ForbiddenError):
            return Access(
                who=who,
                can_read=False,
                can_write=False,
                problem=f"{who} cannot see {self.place}: give the token access to this repository "
                "(fine-grained: pull requests and contents to write, checks, statuses and actions "
                "to read; classic: the scope repo)",
            )
        # The permissions of an App are not part of the repository's answer.
        can_write = flag(repo, "permissions", "push") or who == _APP
        problem = ""
        if scopes is not None and not {"repo", "public_repo"} & scopes:
            can_write, problem = False, f"the token of {who} lacks the scope repo: add it"
        elif not can_write:
            problem = f"{who} may not write to {self.place}: ask for the role Write there"
        called = self._other_name(repo)
        return Access(
            who=who, can_read=True, can_write=can_write, problem=problem, renamed_to=called
        )

    async def _who(self) -> tuple[str, set[str] | None]:
        """Return our name and the scopes of a classic token; None where there are no scopes."""
        try:
            answer = await self._api.get("/user")
        except (ForbiddenError, MissingError):
            # An installation of a GitHub App is no user.
            return _APP, None
        scopes = answer.headers.get("x-oauth-scopes")
        names = {each.strip() for each in (scopes or "").split(",")} - {""}
        return text(answer.body, "login") or "somebody", names or None

    async def _label(self, number: int, labels: Sequence[str]) -> None:
        if labels:
            try:
                await self._api.send(
                    "POST", f"{self._at}/issues/{number}/labels", json={"labels": list(labels)}
                )
            except (ForbiddenError, MissingError, RefusedError):
                # A label is optional: the pull request matters.
                return

    async def _run_of(self, identity: str) -> int:
        job, _, run = identity.partition(":")
        if run:
            return int(run)
        answer = await self._api.get(f"{self._at}/actions/jobs/{job}")
        return number(answer.body, "run_id") or 0

    async def _missing(self, error: MissingError | RefusedError) -> None:
        """Raise it, unless it only means that something in the repository does not exist."""
        if isinstance(error, RefusedError) and error.status != UNKNOWN_COMMIT:
            raise error
        await self._there()
