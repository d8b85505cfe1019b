"""Stores the reports of commits, then publishes their events.

Owns the documents of the generic provider and the order of changes to them. Which report counts is
decided in `ci.generic.reports`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci.generic.reports import ReportedCommit
from ci.json_model import read_document
from ci.serial_queue import SerialQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ci.event_log import EventLog
    from ci.forge.merge_rules import Rules
    from ci.generic.webhooks import ReportedCheck
    from ci.ports import Documents
    from ci.verdict import Verdict

COMMITS = "ci.generic"
FORGOTTEN_AFTER = 30 * 86_400.0
STRANGERS_KEPT = 2_000
"""Reported commits that were not pushed here; they may still be pushed."""


class GenericLedger:
    """All commits by hash; each change is stored before it is published."""

    def __init__(
        self,
        documents: Documents,
        log: EventLog,
        *,
        rules: Callable[[], Rules],
        expected: Sequence[str],
        now: Callable[[], float],
    ) -> None:
        self._documents = documents
        self._log = log
        self._rules = rules
        self._expected = expected
        self._now = now
        self._changes = SerialQueue()
        self._commits: dict[str, ReportedCommit] = {}

    # --- queries ------------------------------------------------------------------------------

    def verdict(self, sha: str) -> Verdict:
        """Judge exactly this commit by its reports."""
        # An unreported commit lacks all expected checks.
        commit = self._commits.get(sha) or ReportedCommit(sha=sha, heard_at=self._now())
        return commit.verdict(self._rules(), self._now(), self._expected)

    def grace_end(self, sha: str) -> float | None:
        """Return the end of the grace period for a first report, if it is not over."""
        commit = self._commits.get(sha)
        end = None if commit is None else commit.grace_end(self._rules())
        return end if end is not None and end > self._now() else None

    # --- changes, one at a time ---------------------------------------------------------------

    async def load(self) -> None:
        """Read everything, delete what is old, and publish the events that a crash prevented."""
        await self._changes.run(self._load)

    async def learn(self, checks: Iterable[ReportedCheck], *, heard_at: float) -> None:
        """Store reports in order; ValueError at the first that is not valid ends that."""
        await self._changes.run(lambda: self._learn(checks, heard_at))

    async def push(self, branch: str, sha: str) -> None:
        """Record the newest commit of a branch; the one before causes no more events for it."""
        await self._changes.run(lambda: self._push(branch, sha))

    async def tell(self, sha: str) -> None:
        """Publish what the passing of time may have changed."""
        await self._changes.run(lambda: self._tell(sha))

    async def drain(self) -> None:
        """Wait until no change is left."""
        await self._changes.drain()

    async def _learn(self, checks: Iterable[ReportedCheck], heard_at: float) -> None:
        for check in checks:
            commit = self._commits.get(check.sha) or ReportedCommit(
                sha=check.sha, heard_at=heard_at
            )
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
        commit = self._commits.get(sha) or ReportedCommit(sha=sha, heard_at=now)
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
            await self._log.publish(event)

    async def _load(self) -> None:
        bodies = await self._documents.all(COMMITS)
        found = [read_document(ReportedCommit, COMMITS, key, body) for key, body in bodies.items()]
        self._commits = {each.sha: each for each in sorted(found, key=lambda each: each.heard_at)}
        oldest = self._now() - FORGOTTEN_AFTER
        for commit in found:
            if commit.heard_at < oldest:
                await self._forget(commit.sha)
        for sha in tuple(self._commits):
            await self._tell(sha)

    async def _keep(self, commit: ReportedCommit) -> None:
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
