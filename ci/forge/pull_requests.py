"""Pull requests on a forge, as callers need them: find, open, merge, close.

Owns that a branch has one pull request, that only reviewed commits are merged, and that a refusal
names its reason. The conditions of a merge are in `ci.forge.merge_rules`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ci.errors import (
    ForgeError,
    GarbledError,
    RefusedError,
    UnknownPullRequestError,
    UnreachableError,
)
from ci.forge.merge_rules import objection, squash_message
from ci.forge.protocol import NewPull
from ci.forge.reviewers import counted
from ci.interface import USUAL_TERMS, MergeResult, MergeTerms, PullRequest, PullRequestState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ci.events import CIEvent
    from ci.forge.events import ForgeEvents
    from ci.forge.git_sync import GitSync
    from ci.forge.memory import Memory
    from ci.forge.merge_rules import Rules
    from ci.forge.protocol import Forge, ForgePull
    from ci.forge.triage import CheckTriage
    from ci.forge.upkeep.behind import BehindBase
    from ci.forge.upkeep.head_branch import HeadBranches
    from ci.forge.upkeep.issues import IssueUpkeep
    from ci.forge.upkeep.merge_queue import MergeQueue
    from ci.forge.upkeep.one_per_branch import OnePerBranch
    from ci.forge.upkeep.words_and_people import PullUpkeep
    from ci.ports import MergeObjection, Repository


@dataclass(frozen=True, slots=True)
class PullRequests:
    """The pull requests of one repository."""

    forge: Forge
    triage: CheckTriage
    memory: Memory
    now: Callable[[], float]
    queue: MergeQueue
    upkeep: PullUpkeep
    one_per_branch: OnePerBranch
    behind: BehindBase
    head_branches: HeadBranches
    issues: IssueUpkeep
    git_sync: GitSync
    repository: Repository
    events: ForgeEvents
    rules: Callable[[], Rules]
    publish: Callable[[CIEvent], Awaitable[None]]
    comes_along: MergeObjection
    wait_for: Callable[[int], str]
    """Returns the name of the wait for a pull request, so that its end is published once."""
    base_moved: Callable[[str], object]
    """Has other pull requests into this base looked at anew."""
    _opening: dict[str, asyncio.Lock] = field(default_factory=dict)
    """By branch: a forge may open two pull requests that are asked for at the same time."""

    async def by_reference(self, ref: str | int) -> PullRequest | None:
        """Find one: its number, `#3`, or its url."""
        number = ref if isinstance(ref, int) else self.forge.number_of(ref.strip())
        found = await self._seen(number) if number is not None else None
        # A fork may have a branch of the same name, which is not ours.
        return None if found is None or not found.ours else await self._shown(found)

    async def of_branch(self, branch: str) -> PullRequest | None:
        """Find the newest open one of a branch, else its newest."""
        async with self._opening.setdefault(branch, asyncio.Lock()):
            found = await self.forge.find_pull(branch)
            if found is not None:
                found = await self._as_merged(await self._only_one(found))
        return None if found is None else await self._shown(found)

    async def create(self, *, branch: str, base: str, title: str, body: str) -> PullRequest:
        """Open one for a branch that is pushed, or return the one that is open."""
        rules = self.rules()
        new = NewPull(
            branch=branch,
            base=base or await self.forge.default_branch(),
            title=title,
            body=body,
            labels=rules.labels,
            draft=rules.draft_first,
        )
        async with self._opening.setdefault(branch, asyncio.Lock()):
            found = await self.forge.find_pull(branch)
            if found is not None and await self._has_it_all(found, new):
                return await self._shown(found)
            if found is None or found.state is not PullRequestState.OPEN:
                found = await self._open(new)
            found = await self._only_one(found)
        found = await self.upkeep.reword(found, title, body)
        await self.publish(self.events.created(found))
        return await self._shown(found)

    async def _has_it_all(self, pull: ForgePull, new: NewPull) -> bool:
        """Return whether all that is here was merged by it: a person may be faster than we are."""
        if pull.state is not PullRequestState.MERGED or pull.base != new.base:
            return False
        merged = await self._as_merged(pull)
        return merged.head_sha == await self.repository.head(new.branch)

    async def _open(self, new: NewPull) -> ForgePull:
        await self.one_per_branch.ask(new)
        try:
            made = await self.forge.create_pull(new)
        except (UnreachableError, GarbledError):
            raise  # it may be open nevertheless
        except RefusedError:
            await self.one_per_branch.refused(new)
            # Somebody may have opened one in between.
            found = await self.forge.find_pull(new.branch)
            if found is None or found.state is not PullRequestState.OPEN:
                raise
            return found
        except ForgeError:
            await self.one_per_branch.refused(new)
            raise
        await self.upkeep.opened(made, new.title, new.body)
        await self.one_per_branch.opened(made, new.title, new.body)
        return made

    async def _only_one(self, found: ForgePull) -> ForgePull:
        """Return the oldest that is open; one whose opening was not answered is ours as well."""
        oldest = await self.one_per_branch.oldest(found)
        if oldest != found.number:
            found = await self._known(oldest)
        if found.state is PullRequestState.OPEN and self.one_per_branch.is_late(found):
            await self.upkeep.opened(found, found.title, found.body)
            await self.one_per_branch.opened(found, found.title, found.body)
        return found

    async def merge(
        self, number: int, *, expected_sha: str | None, terms: MergeTerms = USUAL_TERMS
    ) -> MergeResult:
        """Merge exactly the reviewed commit, if nothing speaks against it."""
        pull = await self._known(number)
        if pull.state is PullRequestState.MERGED and expected_sha in {
            None,
            pull.head_sha,
            self.memory.earlier(pull.branch, pull.head_sha),
        }:
            return await self._merged(pull)
        # A push that failed earlier is made now.
        await self.git_sync.push_missing(pull.branch)
        pull = await self._known(number)
        if expected_sha is not None:
            expected_sha = await self.behind.current(pull.branch, expected_sha, pull)
        ready = pull.model_copy(update={"hindrance": ""}) if pull.behind else pull
        verdict, _ = await self.triage.of_pull(pull)
        rules = self.rules()
        reviews = counted(await self.forge.reviews(pull), rules)
        against = (
            _of_fork(pull)
            or await self._unpushed(pull)
            or objection(ready, verdict, reviews, rules, sha=expected_sha)
        )
        if not against and not terms.along:
            against = await self.comes_along(pull.branch, pull.head_sha, pull.base)
        if not against and pull.behind:
            against = await self.behind.bring_up(pull)
        if against:
            return await self._refused(pull, against)
        return await self._order(pull, rules)

    async def _order(self, pull: ForgePull, rules: Rules) -> MergeResult:
        if (earlier := await self.queue.earlier(pull)) is not None:
            return earlier
        words = squash_message(pull, rules, self.forge.mark)
        try:
            order = partial(
                self.forge.merge, pull, sha=pull.head_sha, method=rules.merge_method, message=words
            )
            result = await self.queue.order(pull, order)
        except RefusedError as refusal:
            return await self._refused(pull, str(refusal))
        if result.queued:
            return result
        if not result.merged:
            reason = result.reason
            if result.behind:
                reason = await self.behind.bring_up(pull)
            return await self._refused(pull, reason)
        await self._merged(await self._known(pull.number))
        return result

    async def _merged(self, pull: ForgePull) -> MergeResult:
        """Publish the merge, and fast-forward the local base."""
        self.base_moved(pull.base)
        note = await self.git_sync.follow_base(pull.base)
        await self.issues.merged(pull)
        event = self.events.merged(pull, note, wait=self.wait_for(pull.number))
        await self.head_branches.publish_merge(event, pull)
        await self.memory.ended(pull.number, pull.branch)
        return MergeResult(merged=True, commit=pull.merge_commit)

    async def _refused(self, pull: ForgePull, reason: str) -> MergeResult:
        """Return why, with the files of a conflict, which a forge detects late."""
        now = await self._known(pull.number)
        if now.state is PullRequestState.OPEN and now.mergeable is False:
            files = await self.git_sync.conflicts(pull.branch, pull.base)
            reason = f"{reason} (both changed {', '.join(files)})"
        return MergeResult(merged=False, reason=reason)

    async def close(self, number: int) -> PullRequest:
        """Close without merging; does nothing if it is closed or merged."""
        pull = await self._known(number)
        if pull.state is PullRequestState.OPEN:
            await self.forge.close_pull(number)
            pull = await self._known(number)
            await self.publish(self.events.closed(pull))
            await self.memory.ended(number, pull.branch)
        return await self._shown(pull)

    async def _unpushed(self, pull: ForgePull) -> str:
        """Return why not, if the local branch has commits that the pull request lacks."""
        here = await self.repository.head(pull.branch)
        if here is None or here == pull.head_sha or pull.state is not PullRequestState.OPEN:
            return ""
        if await self.git_sync.is_behind(pull.branch, here, pull.head_sha):
            return ""
        return (
            f"{pull.branch} here is at {here}, pull request {pull.number} at {pull.head_sha}: the "
            "local commits are not pushed yet"
        )

    async def _seen(self, number: int) -> ForgePull | None:
        found = await self.forge.pull(number)
        return None if found is None else await self._as_merged(found)

    async def _as_merged(self, pull: ForgePull) -> ForgePull:
        """Return it with the head that was merged: a later one must not count as merged."""
        if pull.state is not PullRequestState.MERGED:
            return pull
        merged = pull.merge_commit
        if await self.git_sync.is_merged(pull.head_sha, merged, pull.base):
            return pull
        return pull.model_copy(update={"head_sha": merged or ""})

    async def _known(self, number: int) -> ForgePull:
        found = await self._seen(number)
        if found is None:
            raise UnknownPullRequestError(f"{self.forge.place} has no pull request {number}")
        return found

    async def _shown(self, pull: ForgePull) -> PullRequest:
        verdict, _ = await self.triage.of_pull(pull)
        conflicts: tuple[str, ...] = ()
        if pull.mergeable is False and pull.state is PullRequestState.OPEN:
            conflicts = await self.git_sync.conflicts(pull.branch, pull.base)
        return PullRequest(
            number=pull.number,
            url=pull.url,
            branch=pull.branch,
            base=pull.base,
            head_sha=pull.head_sha,
            title=pull.title,
            body=pull.body,
            state=pull.state,
            conflicts=conflicts,
            checks=verdict.status,
            merge_commit=pull.merge_commit,
            created_at=pull.created_at,
            updated_at=pull.updated_at,
        )


def _of_fork(pull: ForgePull) -> str:
    """Return why it is none of ours, although its branch may have the name of one."""
    if pull.ours:
        return ""
    return f"pull request {pull.number} comes from a fork: merge it at the forge, it is not ours"
