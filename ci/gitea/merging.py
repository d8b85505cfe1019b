"""Merging a pull request in Gitea or Forgejo, or returning why not.

Owns the servers' refusals and what they mean for people. Must not decide whether merging is wanted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci.errors import ForbiddenError, MissingError, RefusedError
from ci.interface import MergeResult, PullRequestState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ci.errors import ForgeError
    from ci.forge.protocol import ForgePull
    from ci.gitea.outdated import OutdatedBranches
    from ci.http.client import HttpClient

PATIENCE = (0.5, 1.0, 2.0, 3.0)
"""Seconds between tries while the server computes whether it merges."""
NOT_NOW = 405
"""Not allowed, a draft, a rule of the branch, or not looked at yet, which is over soon."""
WRONG = 409
"""A conflict, or the head is another commit than the reviewed one."""
_SOON = "try again later"
_OUTDATED = "head branch is behind"
"""By this refusal those learn of the rule who are not told the protection of the branch."""
_RULE = re.compile(r"\[reason: ([^\]]+)\]")
_WRONG_HEAD = ("out of date", "does not match")


class GiteaMerging:
    """The merges of one repository."""

    def __init__(
        self,
        http: HttpClient,
        at: str,
        *,
        look: Callable[[int], Awaitable[ForgePull | None]],
        sleep: Callable[[float], Awaitable[object]],
        outdated: OutdatedBranches,
    ) -> None:
        self._http = http
        self._at = at
        self._look = look
        self._sleep = sleep
        self._outdated = outdated

    async def merge(self, pull: ForgePull, *, sha: str, method: str, message: str) -> MergeResult:
        """Merge exactly this commit."""
        title, _, rest = message.partition("\n")
        order = {
            "Do": method,
            "head_commit_id": sha,
            "MergeTitleField": title.strip(),
            "MergeMessageField": rest.strip(),
        }
        for pause in (*PATIENCE, 0.0):
            seen = await self._look(pull.number)
            objection = _objection(seen, pull.number, sha)
            if seen is not None and _is_merged(seen, sha):
                return MergeResult(merged=True, commit=seen.merge_commit)
            if objection:
                return _not_merged(objection)
            try:
                await self._http.send("POST", f"{self._at}/pulls/{pull.number}/merge", json=order)
            except (RefusedError, MissingError, ForbiddenError) as error:
                if not pause or not _passes(error):
                    return await self._refused(pull, sha, error)
            else:
                break
            await self._sleep(pause)
        return await self._outcome(pull.number, sha)

    async def _outcome(self, number: int, sha: str) -> MergeResult:
        seen = await self._look(number)
        if seen is not None and _is_merged(seen, sha):
            return MergeResult(merged=True, commit=seen.merge_commit)
        return _not_merged(f"pull request {number}: the server has not merged it yet")

    async def _refused(self, pull: ForgePull, sha: str, error: ForgeError) -> MergeResult:
        number = pull.number
        if _OUTDATED in str(error).lower():
            self._outdated.learned(pull.base, demands_newest=True)
        seen = await self._look(number)
        if seen is not None and _is_merged(seen, sha):
            return MergeResult(merged=True, commit=seen.merge_commit)
        objection = _objection(seen, number, sha)
        if objection:
            return _not_merged(objection)
        reason = f"pull request {number}: {_meaning(error, sha)}"
        return MergeResult(merged=False, reason=reason, behind=seen is not None and seen.behind)


def _meaning(error: ForgeError, sha: str) -> str:
    said = str(error).lower()
    if rule := _RULE.search(str(error)):
        # Older servers word every rule of a branch as a missing right.
        return f"the server refused to merge it: {rule[1].strip()} ({error})"
    if error.status == WRONG and any(words in said for words in _WRONG_HEAD):
        return f"its head is another commit than {sha}: look at it again ({error})"
    if error.status == WRONG:
        return f"it conflicts with its base: merge the base into the branch and push ({error})"
    if isinstance(error, ForbiddenError) or "not allowed" in said:
        return f"we may not merge it: let the token's user merge into its base ({error})"
    if _passes(error):
        return f"it conflicts with its base, or the server has not checked it yet ({error})"
    return f"the server refused to merge it: {error}"


def _objection(seen: ForgePull | None, number: int, sha: str) -> str:
    name = f"pull request {number}"
    if seen is None:
        return f"{name} no longer exists"
    if seen.head_sha != sha:
        return f"{name}: its head is {seen.head_sha}, not {sha}: look at it again"
    if seen.state is not PullRequestState.OPEN:
        return f"{name} is {seen.state}: open a new one"
    if seen.draft:
        return f"{name} is a draft: mark it as ready first"
    if seen.mergeable is False:
        return f"{name} conflicts with {seen.base}: merge {seen.base} into {seen.branch} and push"
    return ""


def _is_merged(pull: ForgePull, sha: str) -> bool:
    return pull.state is PullRequestState.MERGED and pull.head_sha == sha


def _passes(error: ForgeError) -> bool:
    return error.status == NOT_NOW and _SOON in str(error).lower()


def _not_merged(reason: str) -> MergeResult:
    return MergeResult(merged=False, reason=reason)
