"""Merging a merge request in GitLab, by a merge train where there is one, or returning why not.

Owns GitLab's refusals and what they mean for people. Must not decide whether merging is wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci.errors import ForbiddenError, ForgeError, LimitedError, UnauthorizedError
from ci.forge.json_fields import text
from ci.gitlab.payloads import pull_of
from ci.gitlab.trains import DOES_ITSELF, ON_TRAIN, STILL_RUNS
from ci.interface import MergeResult, PullRequestState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ci.forge.protocol import ForgePull
    from ci.gitlab.project import MergeSettings
    from ci.gitlab.trains import GitLabTrains
    from ci.http.client import HttpClient

PATIENCE = (0.5, 1.0, 2.0, 3.0)
"""Seconds between polls while GitLab computes whether it merges."""

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

REFUSALS = frozenset({400, 401, 403, 404, 405, 406, 409, 422})
"""Status codes that concern this merge only."""
WRONG_HEAD = 409
"""What GitLab answers when the head is another commit than the reviewed one."""


class GitLabMerging:
    """The merges of one project."""

    def __init__(
        self,
        http: HttpClient,
        at: str,
        *,
        look: Callable[[int], Awaitable[ForgePull | None]],
        sleep: Callable[[float], Awaitable[object]],
        trains: GitLabTrains,
    ) -> None:
        self._http = http
        self._at = at
        self._trains = trains
        self._look = look
        self._sleep = sleep

    async def merge(self, pull: ForgePull, *, sha: str, method: str, message: str) -> MergeResult:
        """Merge exactly this commit."""
        name = f"merge request {pull.number}"
        seen = await self._computed(pull.number)
        if seen is None:
            return _not_merged(f"{name} no longer exists")
        if seen.state is PullRequestState.MERGED and seen.head_sha == sha:
            return MergeResult(merged=True, commit=seen.merge_commit)
        settings = await self._trains.settings()
        if settings.trains and seen.queued and seen.head_sha == sha:
            return ON_TRAIN
        by_train = settings.trains and seen.hindrance in DOES_ITSELF
        ready = seen.model_copy(update={"hindrance": ""}) if by_train else seen
        objection = _objection(ready, sha) or _wrong_method(method, settings)
        if objection:
            return _not_merged(f"{name}: {objection}", behind=_is_behind(seen, sha))
        if settings.trains:
            squash, waits = method == "squash", seen.hindrance == STILL_RUNS
            order = self._trains.enter(pull.number, sha=sha, squash=squash, waits=waits)
        else:
            order = self._at_once(pull.number, sha=sha, method=method, message=message)
        try:
            return await order
        except ForgeError as error:
            if error.status not in REFUSALS or isinstance(error, LimitedError):
                raise
            return await self._refused(pull.number, sha, error)

    async def _at_once(self, number: int, *, sha: str, method: str, message: str) -> MergeResult:
        answer = await self._http.send(
            "PUT",
            f"{self._at}/merge_requests/{number}/merge",
            json={"sha": sha, "squash": method == "squash", **_worded(method, message)},
        )
        if text(answer.body, "state") == PullRequestState.MERGED:
            return MergeResult(merged=True, commit=pull_of(answer.body).merge_commit)
        otherwise = f"merge request {number}: GitLab has not merged it yet"
        return await self._outcome(number, sha, otherwise)

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
        reason = f"merge request {number}: {objection}" if objection else otherwise
        return _not_merged(reason, behind=_is_behind(seen, sha))


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


def _wrong_method(method: str, settings: MergeSettings) -> str:
    if method != "rebase" or settings.linear:
        return ""
    # A rebase there would merge a commit that nobody reviewed.
    return (
        "the project merges with merge commits: set its merge method to fast-forward or to "
        "merge commit with semi-linear history, or use the merge method merge or squash"
    )


def _worded(method: str, message: str) -> dict[str, str]:
    if not message:
        return {}
    return {"squash_commit_message" if method == "squash" else "merge_commit_message": message}


def _is_behind(pull: ForgePull, sha: str) -> bool:
    return pull.behind and pull.head_sha == sha and pull.mergeable is not False


def _not_merged(reason: str, *, behind: bool = False) -> MergeResult:
    return MergeResult(merged=False, reason=reason, behind=behind)
