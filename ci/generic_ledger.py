"""Keeps what was reported of commits, and tells what follows once that is safe.

Owns the documents of the generic provider and the order of changes to them. Which report counts is
decided in `ci.generic_commits`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from ci.errors import ProviderError
from ci.generic_commits import Commit
from ci.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ci.feed import Feed
    from ci.hooks.generic import ReportedCheck
    from ci.interface import Documents
    from ci.merging import Rules
    from ci.verdict import Verdict

COMMITS = "ci.generic"
FORGOTTEN_AFTER = 30 * 86_400.0
STRANGERS_KEPT = 2_000
"""Commits that were reported and that nobody here pushed; they may be pushed yet."""


class GenericLedger:
    """All commits by hash; each change is kept before it is known or told."""

    def __init__(
        self,
        documents: Documents,
        feed: Feed,
        *,
        rules: Callable[[], Rules],
        expected: Sequence[str],
        now: Callable[[], float],
    ) -> None:
        self._documents = documents
        self._feed = feed
        self._rules = rules
        self._expected = expected
        self._now = now
        self._turns = Turns()
        self._commits: dict[str, Commit] = {}

    # --- asking -------------------------------------------------------------------------------

    def verdict(self, sha: str) -> Verdict:
        """Judge exactly this commit by what was reported of it."""
        # One that nobody told of lacks what is expected of each.
        commit = self._commits.get(sha) or Commit(sha=sha, heard_at=self._now())
        return commit.verdict(self._rules(), self._now(), self._expected)

    def grace_end(self, sha: str) -> float | None:
        """Return until when a first report may still come, if that is not over."""
        commit = self._commits.get(sha)
        end = None if commit is None else commit.grace_end(self._rules())
        return end if end is not None and end > self._now() else None

    # --- changes, each in its turn ------------------------------------------------------------

    async def load(self) -> None:
        """Read everything, forget what is old, and tell what a crash kept back."""
        await self._turns.take(self._load)

    async def learn(self, checks: Iterable[ReportedCheck], *, heard_at: float) -> None:
        """Keep reports; ValueError, and nothing more is kept, at one that cannot be."""
        await self._turns.take(lambda: self._learn(checks, heard_at))

    async def push(self, branch: str, sha: str) -> None:
        """Note the newest commit of a branch; what is told of the one before concerns nobody."""
        await self._turns.take(lambda: self._push(branch, sha))

    async def tell(self, sha: str) -> None:
        """Tell what time alone may have changed."""
        await self._turns.take(lambda: self._tell(sha))

    async def drain(self) -> None:
        """Wait until no change is left."""
        await self._turns.drain()

    async def _learn(self, checks: Iterable[ReportedCheck], heard_at: float) -> None:
        for check in checks:
            commit = self._commits.get(check.sha) or Commit(sha=check.sha, heard_at=heard_at)
            changed = commit.with_report(check, heard_at=heard_at)
            if changed is not commit:
                await self._keep(changed)
                await self._tell(check.sha)
        await self._forget_strangers()

    async def _push(self, branch: str, sha: str) -> None:
        for other in tuple(self._commits.values()):
            if branch in other.branches and other.sha != sha:
                await self._keep(other.without(branch))
        now = self._now()
        commit = self._commits.get(sha) or Commit(sha=sha, heard_at=now)
        if branch not in commit.branches:
            await self._keep(commit.with_push(branch, at=now))
        await self._tell(sha)

    async def _tell(self, sha: str) -> None:
        commit = self._commits.get(sha)
        if commit is None:
            return
        unchecked = not self._rules().require_ci
        verdict = self.verdict(sha)
        for event in commit.events(verdict, unchecked_is_green=unchecked, at=self._now()):
            await self._feed.publish(event)

    async def _load(self) -> None:
        found = [_commit(key, body) for key, body in (await self._documents.all(COMMITS)).items()]
        self._commits = {each.sha: each for each in sorted(found, key=lambda each: each.heard_at)}
        oldest = self._now() - FORGOTTEN_AFTER
        for commit in found:
            if commit.heard_at < oldest:
                await self._forget(commit.sha)
        for sha in tuple(self._commits):
            await self._tell(sha)

    async def _keep(self, commit: Commit) -> None:
        await self._documents.put(COMMITS, commit.sha, commit.model_dump(mode="json"))
        self._commits[commit.sha] = commit

    async def _forget_strangers(self) -> None:
        if len(self._commits) <= STRANGERS_KEPT:
            return
        strangers = [sha for sha, each in self._commits.items() if each.pushed_at is None]
        for sha in strangers[: max(0, len(strangers) - STRANGERS_KEPT)]:
            await self._forget(sha)

    async def _forget(self, sha: str) -> None:
        self._commits.pop(sha, None)
        await self._documents.delete(COMMITS, sha)


def _commit(key: str, body: object) -> Commit:
    try:
        return Commit.model_validate(body)
    except ValidationError as fault:
        raise ProviderError(
            f"record {key} of {COMMITS} is not readable ({fault.errors()[0]['msg']}); it was "
            "damaged or written by another version: mend it, or delete it to have it forgotten"
        ) from fault
