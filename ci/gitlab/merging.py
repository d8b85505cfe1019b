"""Merging a merge request in GitLab, or returning why not.

Owns GitLab's refusals and what they mean for people. Must not decide whether merging is wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci.errors import ForbiddenError, ForgeError, LimitedError, UnauthorizedError
from ci.forge.json_fields import text
from ci.gitlab.payloads import pull_of
from ci.interface import MergeResult, PullRequestState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ci.forge.protocol import ForgePull
    from ci.http.client import HttpClient

PATIENCE = (0.5, 1.0, 2.0, 3.0)
"""Seconds between polls while GitLab computes whether it merges."""
LINEAR = frozenset({"ff", "rebase_merge"})
"""Merge methods of a project that keep its history as a rebase does."""

HINTS: Mapping[str, str] = {
    "conflict": "it conflicts with its target: merge the target into the branch and push",
    "broken_status": "it may conflict with its target: merge the target into the branch and push",
    "draft_status": "it is a draft: mark it as ready first",
    "ci_must_pass": "its pipeline must pass first",
    "ci_still_running": "its pipeline is still running",
    "not_approved": "it lacks a required approval",
    "requested_changes": "a reviewer asked for changes",
    "discussions_not_resolved": "its discussions must be resolved first",
    "need_rebase": "it must be rebased onto its target first",
    "not_open": "it is not open",
    "merge_request_blocked": "another merge request must be merged first",
    "blocked_status": "another merge request must be merged first",
    "commits_status": "its branch is gone or has no commits",
    "locked": "GitLab is merging it already",
    "status_checks_must_pass": "its external status checks must pass first",
    "external_status_checks": "its external status checks must pass first",
    "policies_denied": "a policy of the project denies it",
    "security_policy_violations": "a security policy of the project denies it",
    "jira_association_missing": "its title or description must name a Jira issue",
    "merge_time": "it may not be merged before its time",
    "locked_paths": "it changes paths that somebody locked",
    "locked_lfs_files": "it changes LFS files that somebody locked",
    "title_regex": "its title is not of the form that the project demands",
}
"""Texts for the reasons of GitLab; an unknown one is passed on unchanged."""

REFUSALS = frozenset({401, 403, 404, 405, 406, 409, 422})
"""Status codes that concern this merge only."""
WRONG_HEAD = 409
"""What GitLab answers when the head is another commit than the reviewed one."""


class GitLabMerging:
    """The merges of one project."""

    def __init__(
        self,
        http: HttpClient,
        project: str,
        *,
        look: Callable[[int], Awaitable[ForgePull | None]],
        sleep: Callable[[float], Awaitable[object]],
    ) -> None:
        self._http = http
        self._project = project
        self._look = look
        self._sleep = sleep

    async def merge(self, pull: ForgePull, *, sha: str, method: str, message: str) -> MergeResult:
        """Merge exactly this commit."""
        name = f"merge request {pull.number}"
        seen = await self._computed(pull.number)
        if seen is None:
            return _not_merged(f"{name} no longer exists")
        objection = _objection(seen, sha) or await self._wrong_method(method)
        if seen.state is PullRequestState.MERGED and seen.head_sha == sha:
            return MergeResult(merged=True, commit=seen.merge_commit)
        if objection:
            return _not_merged(f"{name}: {objection}")
        try:
            answer = await self._http.send(
                "PUT",
                f"{self._project}/merge_requests/{pull.number}/merge",
                json={"sha": sha, "squash": method == "squash", **_worded(method, message)},
            )
        except ForgeError as error:
            if error.status not in REFUSALS or isinstance(error, LimitedError):
                raise
            return await self._refused(pull.number, sha, error)
        if text(answer.body, "state") == PullRequestState.MERGED:
            return MergeResult(merged=True, commit=pull_of(answer.body).merge_commit)
        return await self._outcome(pull.number, sha, f"{name}: GitLab has not merged it yet")

    async def _computed(self, number: int) -> ForgePull | None:
        """Poll until GitLab knows whether it merges, or the time is over."""
        seen = await self._look(number)
        for pause in PATIENCE:
            if (
                seen is None
                or seen.state is not PullRequestState.OPEN
                or seen.mergeable is not None
            ):
                break
            await self._sleep(pause)
            seen = await self._look(number)
        return seen

    async def _wrong_method(self, method: str) -> str:
        if method != "rebase":
            return ""
        # A rebase there would merge a commit that nobody reviewed.
        project = (await self._http.get(self._project)).body
        if text(project, "merge_method") in LINEAR:
            return ""
        return (
            "the project merges with merge commits: set its merge method to fast-forward or to "
            "merge commit with semi-linear history, or use the merge method merge or squash"
        )

    async def _refused(self, number: int, sha: str, error: ForgeError) -> MergeResult:
        name = f"merge request {number}"
        if isinstance(error, UnauthorizedError | ForbiddenError):
            # On this one request GitLab means the role by it, not the token.
            return await self._outcome(
                number,
                sha,
                f"{name}: we may not merge into its target branch: give the token's user a role "
                f"that the branch's protection lets merge ({error})",
            )
        if error.status == WRONG_HEAD:
            return await self._outcome(number, sha, f"{name}: its head is another commit ({error})")
        return await self._outcome(number, sha, f"{name}: GitLab refused to merge it: {error}")

    async def _outcome(self, number: int, sha: str, otherwise: str) -> MergeResult:
        """Return the outcome: after a refusal the state says more than the answer."""
        seen = await self._look(number)
        if seen is None:
            return _not_merged(otherwise)
        if seen.state is PullRequestState.MERGED and seen.head_sha == sha:
            return MergeResult(merged=True, commit=seen.merge_commit)
        objection = _objection(seen, sha)
        return _not_merged(f"merge request {number}: {objection}" if objection else otherwise)


def _objection(pull: ForgePull, sha: str) -> str:
    known = HINTS.get(pull.hindrance, f"GitLab does not let it be merged: {pull.hindrance}")
    against = (
        (pull.head_sha != sha, f"its head is {pull.head_sha}, not {sha}: look at it again"),
        (pull.state is not PullRequestState.OPEN, f"it is {pull.state}: open a new one"),
        (pull.draft, HINTS["draft_status"]),
        (pull.queued, "GitLab merges it by itself when its pipeline has passed"),
        (pull.mergeable is False, HINTS["conflict"]),
        (bool(pull.hindrance), known),
    )
    return next((text for holds, text in against if holds), "")


def _worded(method: str, message: str) -> dict[str, str]:
    if not message:
        return {}
    return {"squash_commit_message" if method == "squash" else "merge_commit_message": message}


def _not_merged(reason: str) -> MergeResult:
    return MergeResult(merged=False, reason=reason)
