"""Merging on GitHub: at once, or through the merge queue that the base branch requires.

Owns GitHub's ways to refuse a merge and how often to retry. Must not decide whether a merge is
right: the caller has checked the verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from ci.errors import ForbiddenError, MissingError, RefusedError
from ci.forge.json_fields import at, flag, rows, text
from ci.forge.json_fields import number as number_of
from ci.forge.protocol import LeftQueue
from ci.interface import MergeResult, PullRequestState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ci.errors import ForgeError
    from ci.forge.protocol import BranchRules, ForgePull
    from ci.forge.rest import Connection
    from ci.github.client import GitHubClient
    from ci.http.client import Response

PATIENCE = (1.0, 2.0, 3.0, 4.0, 5.0)
"""Seconds before each retry while GitHub computes whether it merges."""
RULES_HOLD = 900.0
"""Seconds for which it is known whether a branch has a merge queue: until its rules are asked."""

_REFUSALS = (RefusedError, ForbiddenError, MissingError)
"""Errors that concern this merge only: GitHub forbids changes of workflows this way."""
_MOVED = 409
_FOR_A_MOMENT = ("not mergeable", "try the merge again", "try again")
"""Texts of refusals that also occur while GitHub is still computing."""
_IN_QUEUE = "in the merge queue"
_STANDING = """query($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) {
    mergeQueueEntry { id headCommit { oid } }
  } }
}"""
_REMOVED = """query($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) {
    timelineItems(last: 1, itemTypes: [REMOVED_FROM_MERGE_QUEUE_EVENT]) {
      nodes { ... on RemovedFromMergeQueueEvent { reason } }
    }
  } }
}"""
_BY_PERSON = "manual"
_GROUPS_LISTED = 50
"""Runs of merge groups that are searched for that of a pull request."""
_ENQUEUE = """mutation($pull: ID!, $sha: GitObjectID!) {
  enqueuePullRequest(input: {pullRequestId: $pull, expectedHeadOid: $sha}) {
    mergeQueueEntry { id }
  }
}"""


class GitHubMerging:
    """Merges pull requests of one repository."""

    def __init__(
        self,
        api: GitHubClient,
        connection: Connection,
        *,
        look: Callable[[int], Awaitable[ForgePull | None]],
        rules: Callable[[str], Awaitable[BranchRules]],
    ) -> None:
        """`rules` asks GitHub for the rules of a branch, and has `learned` called with them."""
        self._api = api
        self._repo = quote(connection.repo)
        self._now = connection.now
        self._sleep = connection.sleep
        self._look = look
        self._rules = rules
        self._queues: dict[str, tuple[bool, float]] = {}
        """By base branch: whether it has a merge queue, and until when that is cached."""

    async def merge(self, pull: ForgePull, *, sha: str, method: str, message: str) -> MergeResult:
        """Merge exactly this commit, or put it in the queue, or say why not."""
        if await self._has_queue(pull.base):
            return await self._enqueue(pull, sha)
        title, _, rest = message.partition("\n")
        wanted = {"sha": sha, "merge_method": method}
        if title.strip():
            wanted |= {"commit_title": title.strip(), "commit_message": rest.strip()}
        address = f"/repos/{self._repo}/pulls/{pull.number}/merge"
        for wait in PATIENCE:
            try:
                return _done(await self._api.send("PUT", address, json=wanted))
            except _REFUSALS as error:
                seen = await self._look(pull.number)
                if not _passes(seen, sha, error):
                    return _refused(seen, sha, str(error))
            await self._sleep(wait)
        try:
            return _done(await self._api.send("PUT", address, json=wanted))
        except _REFUSALS as error:
            return _refused(await self._look(pull.number), sha, str(error))

    async def standing(self, body: object) -> tuple[bool, str]:
        """Return whether it is in the merge queue of its base, and on which commit it is tested."""
        if text(body, "state") != "open" or not await self._has_queue(text(body, "base", "ref")):
            return False, ""
        entry = at(await self._asked(_STANDING, int(at(body, "number"))), "mergeQueueEntry")
        return isinstance(entry, dict), text(entry, "headCommit", "oid")

    async def left_queue(self, pull: ForgePull) -> LeftQueue:
        """Return how it left the merge queue the last time."""
        told = await self._asked(_REMOVED, pull.number)
        nodes = at(told, "timelineItems", "nodes")
        last = nodes[-1] if isinstance(nodes, list) and nodes else {}
        reason = text(last, "reason")
        return LeftQueue(
            reason=reason,
            group=await self._newest_group(pull),
            by_person=_BY_PERSON in reason.lower(),
        )

    async def _asked(self, query: str, number: int) -> object:
        """Return what GraphQL says of a pull request; nothing where it is not told."""
        owner, _, name = self._repo.partition("/")
        try:
            told = await self._api.graphql(query, owner=owner, name=name, number=number)
        except _REFUSALS:
            return None
        return at(told, "data", "repository", "pullRequest")

    async def _newest_group(self, pull: ForgePull) -> str:
        """Return the newest commit on which the queue ran workflows for it."""
        branch = f"gh-readonly-queue/{pull.base}/pr-{pull.number}-"
        try:
            answer = await self._api.get(
                f"/repos/{self._repo}/actions/runs",
                params={"event": "merge_group", "per_page": _GROUPS_LISTED},
            )
        except _REFUSALS:
            return ""
        runs = [
            run
            for run in rows(answer.body, "workflow_runs")
            if text(run, "head_branch").startswith(branch)
        ]
        newest = max(runs, key=lambda run: number_of(run, "id") or 0, default=None)
        return text(newest, "head_sha")

    async def _enqueue(self, pull: ForgePull, sha: str) -> MergeResult:
        body = (await self._api.get(f"/repos/{self._repo}/pulls/{pull.number}")).body
        try:
            await self._api.graphql(_ENQUEUE, pull=text(body, "node_id"), sha=sha)
        except _REFUSALS as error:
            seen = await self._look(pull.number)
            if seen is not None and _is_merged(seen, sha):
                return MergeResult(merged=True, commit=seen.merge_commit)
            if seen is None or not seen.queued:
                return MergeResult(merged=False, reason=str(error))
        return MergeResult(merged=False, reason=_IN_QUEUE, queued=True)

    def learned(self, base: str, rules: BranchRules) -> None:
        """Remember what the newest answer about a branch says."""
        self._queues[base] = rules.queue, self._now() + RULES_HOLD

    async def _has_queue(self, base: str) -> bool:
        known, until = self._queues.get(base, (False, 0.0))
        return known if self._now() < until else (await self._rules(base)).queue


def _done(answer: Response) -> MergeResult:
    if flag(answer.body, "merged"):
        return MergeResult(merged=True, commit=text(answer.body, "sha") or None)
    return MergeResult(merged=False, reason=text(answer.body, "message"))


def _passes(seen: ForgePull | None, sha: str, error: ForgeError) -> bool:
    """Return whether a refusal may be temporary; missing permissions are not."""
    if not isinstance(error, RefusedError):
        return False
    if seen is None or seen.state is not PullRequestState.OPEN or seen.head_sha != sha:
        return False
    if seen.mergeable is False or seen.hindrance:
        return False
    words = str(error).lower()
    return (
        seen.mergeable is None
        or error.status == _MOVED
        or any(each in words for each in _FOR_A_MOMENT)
    )


def _is_merged(seen: ForgePull, sha: str) -> bool:
    return seen.state is PullRequestState.MERGED and seen.head_sha == sha


def _refused(seen: ForgePull | None, sha: str, said: str) -> MergeResult:
    if seen is not None and _is_merged(seen, sha):
        return MergeResult(merged=True, commit=seen.merge_commit)
    reason, behind = said, False
    if seen is None or seen.state is PullRequestState.CLOSED:
        reason = "the pull request is closed"
    elif seen.head_sha != sha:
        reason = f"{seen.branch} is at {seen.head_sha} there"
    elif seen.mergeable is False:
        reason = f"it conflicts with {seen.base}"
    elif seen.hindrance:
        reason, behind = f"{said} ({seen.hindrance})", seen.behind
    return MergeResult(merged=False, reason=reason, behind=behind)
