"""Merging on GitHub: at once, or through the merge queue that the base branch demands.

Owns GitHub's ways to refuse a merge and how long they are borne with. Must not decide whether a
merge is right: who asks has looked at the verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from ci.errors import ForbiddenError, MissingError, RefusedError
from ci.forms import at, flag, rows, text
from ci.interface import MergeResult, PullRequestState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ci.errors import ForgeError
    from ci.forge import ForgePull
    from ci.github_door import GitHubDoor
    from ci.http import Answer

PATIENCE = (1.0, 2.0, 3.0, 4.0, 5.0)
"""Seconds before each further try while GitHub computes whether it merges."""
RULES_HOLD = 600.0
"""Seconds for which it is believed that a branch has a merge queue, or none."""

_REFUSALS = (RefusedError, ForbiddenError, MissingError)
"""Answers to a merge that are about this merge alone: GitHub forbids changes of workflows so."""
_MOVED = 409
_FOR_A_MOMENT = ("not mergeable", "try the merge again", "try again")
"""Words of refusals that also come while GitHub is still computing."""
_IN_QUEUE = "in the merge queue"
_STANDING = """query($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) { mergeQueueEntry { id } } }
}"""
_ENQUEUE = """mutation($pull: ID!, $sha: GitObjectID!) {
  enqueuePullRequest(input: {pullRequestId: $pull, expectedHeadOid: $sha}) {
    mergeQueueEntry { id }
  }
}"""


class Merging:
    """Merges pull requests of one repository."""

    def __init__(
        self,
        door: GitHubDoor,
        *,
        repo: str,
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[object]],
        look: Callable[[int], Awaitable[ForgePull | None]],
    ) -> None:
        self._door = door
        self._repo = repo
        self._now = now
        self._sleep = sleep
        self._look = look
        self._queues: dict[str, tuple[bool, float]] = {}
        """By base branch: whether it has a merge queue, and until when that is believed."""

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
                return _done(await self._door.send("PUT", address, json=wanted))
            except _REFUSALS as error:
                seen = await self._look(pull.number)
                if not _passes(seen, sha, error):
                    return _refused(seen, sha, str(error))
            await self._sleep(wait)
        try:
            return _done(await self._door.send("PUT", address, json=wanted))
        except _REFUSALS as error:
            return _refused(await self._look(pull.number), sha, str(error))

    async def queued(self, body: object) -> bool:
        """Tell whether the pull request stands in the merge queue of its base."""
        if text(body, "state") != "open" or not await self._has_queue(text(body, "base", "ref")):
            return False
        owner, _, name = self._repo.partition("/")
        try:
            told = await self._door.graphql(
                _STANDING, owner=owner, name=name, number=int(at(body, "number"))
            )
        except (ForbiddenError, MissingError, RefusedError):
            return False
        entry = at(told, "data", "repository", "pullRequest", "mergeQueueEntry")
        return isinstance(entry, dict)

    async def _enqueue(self, pull: ForgePull, sha: str) -> MergeResult:
        body = (await self._door.get(f"/repos/{self._repo}/pulls/{pull.number}")).body
        try:
            await self._door.graphql(_ENQUEUE, pull=text(body, "node_id"), sha=sha)
        except _REFUSALS as error:
            seen = await self._look(pull.number)
            if seen is not None and seen.state is PullRequestState.MERGED:
                return MergeResult(merged=True, commit=seen.merge_commit)
            if seen is None or not seen.queued:
                return MergeResult(merged=False, reason=str(error))
        return MergeResult(merged=False, reason=_IN_QUEUE)

    async def _has_queue(self, base: str) -> bool:
        known, until = self._queues.get(base, (False, 0.0))
        if self._now() >= until:
            known = await self._ask_for_queue(base)
            self._queues[base] = known, self._now() + RULES_HOLD
        return known

    async def _ask_for_queue(self, base: str) -> bool:
        try:
            answer = await self._door.get(f"/repos/{self._repo}/rules/branches/{quote(base)}")
        except (ForbiddenError, MissingError, RefusedError):
            # Older Enterprise servers know neither rules nor queues.
            return False
        return any(text(rule, "type") == "merge_queue" for rule in rows({"": answer.body}, ""))


def _done(answer: Answer) -> MergeResult:
    if flag(answer.body, "merged"):
        return MergeResult(merged=True, commit=text(answer.body, "sha") or None)
    return MergeResult(merged=False, reason=text(answer.body, "message"))


def _passes(seen: ForgePull | None, sha: str, error: ForgeError) -> bool:
    """Tell whether a refusal may be over in a moment; what the token does not allow is not."""
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


def _refused(seen: ForgePull | None, sha: str, said: str) -> MergeResult:
    if seen is not None and seen.state is PullRequestState.MERGED:
        return MergeResult(merged=True, commit=seen.merge_commit)
    reason = said
    if seen is None or seen.state is PullRequestState.CLOSED:
        reason = "the pull request is closed"
    elif seen.head_sha != sha:
        reason = f"{seen.branch} is at {seen.head_sha} there"
    elif seen.mergeable is False:
        reason = f"it conflicts with {seen.base}"
    elif seen.hindrance:
        reason = f"{said} ({seen.hindrance})"
    return MergeResult(merged=False, reason=reason)
