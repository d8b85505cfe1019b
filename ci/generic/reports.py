"""Reports of commits: their stored form, which one is newer, and the resulting events.

Pure. Which report counts does not depend on the order of arrival, so that a delivery that arrives
late, twice or again after a crash changes nothing.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ci.events import Check, CheckState, CIEvent, CIEventType, Excerpt
from ci.json_model import JsonModel
from ci.verdict import VerdictStatus, judge, judge_checks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci.forge.merge_rules import Rules
    from ci.generic.webhooks import ReportedCheck
    from ci.verdict import Verdict

MOST_CHECKS = 200
"""Of one commit: names that contain a build number would grow without limit."""
AHEAD = 300.0
"""Seconds by which a sender's clock may be ahead; a later time would win for ever."""
DETAILS = 5
AWAITED = "the first check"
_RANK = {CheckState.PENDING: 0, CheckState.PASSED: 1, CheckState.FAILED: 2}


class KnownCheck(JsonModel):
    """The newest report of one check."""

    name: str
    state: CheckState
    status: str
    summary: str = ""
    excerpt: Excerpt = ""
    url: str = ""
    at: float
    number: int = 0
    turn: int = 1
    """Counts the reported changes of state; part of the id of an event."""

    @property
    def order(self) -> tuple[int, float, int]:
        """A greater value is newer; of two at one instant the worse counts."""
        return (self.number, self.at, _RANK[self.state])

    def check(self) -> Check:
        """Return the check in the common form."""
        return Check(
            name=self.name,
            state=self.state,
            how=self.status,
            summary=self.summary,
            excerpt=self.excerpt,
            url=self.url,
        )


class ReportedCommit(JsonModel):
    """What is known of one commit."""

    sha: str
    heard_at: float
    """When somebody last pushed or reported it."""
    pushed_at: float | None = None
    branches: tuple[str, ...] = ()
    """Our branches whose newest commit it is."""
    checks: tuple[KnownCheck, ...] = ()

    def with_report(self, told: ReportedCheck, *, heard_at: float) -> ReportedCommit:
        """Return the commit with a report, if it is newer than what is known.

        ValueError if the commit has too many checks already.
        """
        # A run that has a number needs no time.
        untimed = heard_at if told.number is None else 0.0
        told_at = min(untimed if told.at is None else told.at, heard_at + AHEAD)
        fresh = KnownCheck(
            name=told.name,
            state=told.state,
            status=told.status,
            summary=told.summary,
            excerpt=told.log,
            url=told.url,
            at=told_at,
            number=told.number or 0,
        )
        before = next((each for each in self.checks if each.name == fresh.name), None)
        if before is None and len(self.checks) >= MOST_CHECKS:
            raise ValueError(
                f"commit {self.sha[:12]} has {MOST_CHECKS} checks already: give all runs of a "
                "check the same `name`, and what differs as `number`"
            )
        if before is not None:
            if fresh.order <= before.order:
                return self
            changed = fresh.state is not before.state
            fresh = fresh.model_copy(update={"turn": before.turn + changed})
        others = [each for each in self.checks if each.name != fresh.name]
        checks = tuple(sorted((*others, fresh), key=lambda each: each.name))
        return self.model_copy(update={"checks": checks, "heard_at": max(heard_at, self.heard_at)})

    def with_push(self, branch: str, *, at: float) -> ReportedCommit:
        """Return the commit as the newest of one more branch."""
        branches = (*(each for each in self.branches if each != branch), branch)
        pushed_at = at if self.pushed_at is None else self.pushed_at
        return self.model_copy(
            update={"branches": branches, "pushed_at": pushed_at, "heard_at": at}
        )

    def without(self, branch: str) -> ReportedCommit:
        """Return the commit without this branch."""
        branches = tuple(each for each in self.branches if each != branch)
        return self.model_copy(update={"branches": branches})

    def grace_end(self, rules: Rules) -> float | None:
        """Return the end of the grace period; None if a report exists, or none is expected."""
        if self.checks or self.pushed_at is None:
            return None
        return self.pushed_at + rules.checks_grace

    def verdict(self, rules: Rules, now: float, expected: Sequence[str]) -> Verdict:
        """Judge it; checks that are expected count as pending until they are reported."""
        names = {each.name for each in self.checks}
        missing = [
            Check(name=name, state=CheckState.PENDING) for name in expected if name not in names
        ]
        checks = [*(each.check() for each in self.checks), *missing]
        end = self.grace_end(rules)
        if not checks and end is not None and now < end:
            return judge(self.sha, pending=(AWAITED,), summary="no check was reported yet")
        return judge_checks(self.sha, checks)

    def events(self, verdict: Verdict, *, unchecked_is_green: bool, at: float) -> Iterator[CIEvent]:
        """Yield the event for each of its branches; the same fact always has the same id."""
        kind, of, text = self._fact(verdict, unchecked_is_green=unchecked_is_green)
        if kind is None:
            return
        failed = [each for each in self.checks if each.state is CheckState.FAILED]
        for branch in self.branches:
            yield CIEvent(
                type=kind,
                event_id=f"generic:{self.sha}:{branch}:{of}",
                at=at,
                branch=branch,
                sha=self.sha,
                summary=text,
                excerpt=failed[0].excerpt if failed else "",
                url=next((each.url for each in failed or self.checks if each.url), ""),
                details=tuple(each.check() for each in failed[:DETAILS]),
            )

    def _fact(
        self, verdict: Verdict, *, unchecked_is_green: bool
    ) -> tuple[CIEventType | None, str, str]:
        match verdict.status:
            case VerdictStatus.RED:
                return CIEventType.BUILD_FAILURE, self._print(CheckState.FAILED), verdict.summary
            case VerdictStatus.GREEN:
                return CIEventType.BUILD_SUCCESS, self._print(CheckState.PASSED), verdict.summary
            case VerdictStatus.PENDING if self.checks:
                return CIEventType.BUILD_STARTED, "started", verdict.summary
            case VerdictStatus.NONE if unchecked_is_green and self.pushed_at is not None:
                text = "no check was reported, which counts as green here (require_ci = false)"
                return CIEventType.BUILD_SUCCESS, "unchecked", text
        return None, "", ""

    def _print(self, state: CheckState) -> str:
        told = [
            f"{each.name} {each.number} {each.turn}" for each in self.checks if each.state is state
        ]
        digest = hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]
        return f"{state}-{digest}"
