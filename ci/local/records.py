"""The records of the local provider: builds and pull requests, and their events.

Events are derived from the records alone, with ids derived from them. So a record that was stored
just before a crash still causes its event afterwards, and no event is published twice.
Must not store, run or decide anything.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from ci.events import Check, CheckState, CIEvent, CIEventType, Excerpt
from ci.interface import PullRequest, PullRequestState
from ci.json_model import JsonModel
from ci.verdict import Verdict, judge

if TYPE_CHECKING:
    from collections.abc import Iterator


class BuildState(StrEnum):
    """Where a build stands."""

    QUEUED = "queued"
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    BROKEN = "broken"
    CANCELLED = "cancelled"


_TOLD_AS = {
    BuildState.PASSED: CIEventType.BUILD_SUCCESS,
    BuildState.FAILED: CIEventType.BUILD_FAILURE,
    BuildState.BROKEN: CIEventType.BUILD_FAILURE,
    BuildState.CANCELLED: CIEventType.BUILD_CANCELLED,
}


class Build(JsonModel):
    """One run of the test command on one commit."""

    number: int
    sha: str
    branches: tuple[str, ...]
    """The branches whose newest commit it was asked for; it is cancelled when none is left."""
    command: str
    state: BuildState = BuildState.QUEUED
    created_at: float
    started_at: float | None = None
    finished_at: float | None = None
    summary: str = ""
    excerpt: Excerpt = ""
    log_url: str = ""

    @property
    def build_id(self) -> str:
        """The name of the build in events and files."""
        return f"build-{self.number}"

    @property
    def unfinished(self) -> bool:
        """Whether it still has to run to its end."""
        return self.state in {BuildState.QUEUED, BuildState.RUNNING}

    @property
    def says_something(self) -> bool:
        """Whether it has a result by which pull requests can be judged."""
        return self.state in {BuildState.PASSED, BuildState.FAILED, BuildState.BROKEN}

    def verdict(self) -> Verdict:
        """Judge the commit by this build; a cancelled one leaves it pending."""
        if self.state is BuildState.PASSED:
            return judge(self.sha, passed=(self.command,), summary=self.summary)
        if self.says_something:
            check = Check(
                name=self.command,
                state=CheckState.FAILED,
                summary=self.summary,
                excerpt=self.excerpt,
                url=self.log_url,
            )
            return judge(self.sha, failed=(check,), summary=self.summary)
        return judge(
            self.sha,
            pending=(self.command,),
            summary=self.summary or f"{self.build_id} is {self.state}",
        )

    def events(self) -> Iterator[CIEvent]:
        """Yield the events so far, for each branch that waits for it."""
        for branch in self.branches:
            if self.started_at is not None:
                yield self._event(CIEventType.BUILD_STARTED, branch, self.started_at)
            if self.finished_at is not None:
                yield self._event(_TOLD_AS[self.state], branch, self.finished_at)

    def _event(self, kind: CIEventType, branch: str, at: float) -> CIEvent:
        started = kind is CIEventType.BUILD_STARTED
        return CIEvent(
            type=kind,
            event_id=f"local:{self.build_id}:{branch}:{kind}",
            at=at,
            branch=branch,
            sha=self.sha,
            build_id=self.build_id,
            summary=f"{self.build_id} started: `{self.command}`" if started else self.summary,
            excerpt="" if started else self.excerpt,
            url=self.log_url,
        )


class PullRecord(JsonModel):
    """One local pull request."""

    number: int
    branch: str
    base: str
    head_sha: str
    revision: int = 1
    """Counts the heads it had; a head that comes back is a new revision."""
    title: str
    body: str = ""
    state: PullRequestState = PullRequestState.OPEN
    conflicts: tuple[str, ...] = ()
    compared: tuple[str, str] | None = None
    """The head and the base commit that `conflicts` is about."""
    merging: str | None = None
    """The head that a merge was begun for, if that merge has not been recorded yet."""
    merge_commit: str | None = None
    merge_refused: str = ""
    merge_waits: bool = False
    """Whether it was refused for a temporary reason."""
    result: tuple[str, str, str] | None = None
    """Head, base and their merge, which is checked before the base moves."""
    apart: str = ""
    """What the check of the merge said, if it is red."""
    apart_excerpt: Excerpt = ""
    created_at: float
    updated_at: float

    @property
    def url(self) -> str:
        """The address by which the pull request can be asked for."""
        return f"local://pr/{self.number}"

    @property
    def is_open(self) -> bool:
        """Whether it can still be changed."""
        return self.state is PullRequestState.OPEN

    def seen_with(self, verdict: Verdict) -> PullRequest:
        """Show it as callers know it."""
        facts = self.model_dump(
            exclude={"revision", "compared", "merging", "merge_waits", "result"}
        )
        return PullRequest(url=self.url, checks=verdict.status, **facts)

    def events(self, build: Build | None) -> Iterator[CIEvent]:
        """Yield the events so far; `build` is the latest one of its head."""
        yield self._event(CIEventType.PR_CREATED, "", self.created_at, f"opened: {self.title}")
        if self.revision > 1:
            said = f"has a new head, {self.head_sha[:12]}"
            yield self._event(CIEventType.PR_UPDATED, f"r{self.revision}", self.updated_at, said)
        if self.is_open:
            yield from self._events_while_open(build)
        elif self.state is PullRequestState.MERGED:
            said = f"was merged into {self.base} as {(self.merge_commit or '')[:12]}"
            yield self._event(CIEventType.PR_MERGED, "", self.updated_at, said)
        else:
            said = "was closed without being merged"
            yield self._event(CIEventType.PR_CLOSED, "", self.updated_at, said)

    def _events_while_open(self, build: Build | None) -> Iterator[CIEvent]:
        if build is not None and build.says_something:
            passed = build.state is BuildState.PASSED
            kind = CIEventType.PR_CHECKS_PASSED if passed else CIEventType.PR_CHECKS_FAILED
            at = max(self.updated_at, build.finished_at or 0.0)
            key = f"r{self.revision}:{build.build_id}"
            event = self._event(
                kind, key, at, f"is {'green' if passed else 'red'}: {build.summary}"
            )
            yield event.model_copy(
                update={"build_id": build.build_id, "excerpt": build.excerpt, "url": build.log_url}
            )
        if self.conflicts and self.compared is not None:
            said = f"conflicts with {self.base} in {', '.join(self.conflicts)}"
            key = ":".join(self.compared)
            yield self._event(CIEventType.PR_CONFLICT, key, self.updated_at, said)

        if self.apart and self.result is not None:
            key = ":".join(("red", *self.result[:2]))
            event = self._event(CIEventType.PR_CONFLICT, key, self.updated_at, self.apart)
            yield event.model_copy(update={"excerpt": self.apart_excerpt})

    def _event(self, kind: CIEventType, key: str, at: float, said: str) -> CIEvent:
        return CIEvent(
            type=kind,
            event_id=":".join(filter(None, ("local", f"pr-{self.number}", kind, key))),
            at=at,
            branch=self.branch,
            sha=self.head_sha,
            pr_number=self.number,
            pr_url=self.url,
            summary=f"pull request {self.number} {said}",
            url=self.url,
        )
