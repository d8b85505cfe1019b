"""The events derived from what a forge shows, with ids derived from the facts. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci.events import CIEvent, CIEventType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ci.events import Check, ReviewComment
    from ci.forge.protocol import ForgePull
    from ci.forge.triage import TriageResult


@dataclass(frozen=True, slots=True)
class JudgedCommit:
    """A commit with its checks, and the pull request it is the head of."""

    sha: str
    branch: str
    checks: tuple[Check, ...]
    pull: ForgePull | None = None
    wait: str = ""
    """The wait that is notified; a later wait is told the same fact again."""
    of_others: bool = False
    """Somebody else pushed it."""


class ForgeEvents:
    """Builds the events of one forge's repository."""

    def __init__(self, name: str, place: str) -> None:
        self._name = name
        self._place = place

    def green(self, judged: JudgedCommit, text: str, *, at: float) -> CIEvent:
        """Every check of a commit passed."""
        return CIEvent(
            type=CIEventType.PR_CHECKS_PASSED if judged.pull else CIEventType.BUILD_SUCCESS,
            event_id=self._judged(judged, "green"),
            at=at,
            branch=judged.branch,
            sha=judged.sha,
            summary=text,
            of_others=judged.of_others,
            **_about(judged.pull),
        )

    def red(self, judged: JudgedCommit, finding: TriageResult, *, at: float) -> CIEvent:
        """Checks of a commit failed, with the result of their triage."""
        first = finding.details[0] if finding.details else None
        return CIEvent(
            type=CIEventType.PR_CHECKS_FAILED if judged.pull else CIEventType.BUILD_FAILURE,
            event_id=self._judged(judged, "red"),
            at=at,
            branch=judged.branch,
            sha=judged.sha,
            summary=finding.text,
            excerpt=first.text if first else "",
            url=first.url if first else "",
            details=finding.details,
            of_others=judged.of_others,
            **_about(judged.pull),
        )

    def thrown_out(
        self, judged: JudgedCommit, finding: TriageResult, entry: str, *, at: float
    ) -> CIEvent:
        """The merge queue removed it; `entry` tells this removal from others."""
        event = self.red(judged, finding, at=at)
        key = self._id(
            f"pr-{judged.pull.number if judged.pull else 0}", "queue", entry, judged.wait
        )
        return event.model_copy(update={"event_id": key})

    def _judged(self, judged: JudgedCommit, word: str) -> str:
        of = "commit" if judged.pull is None else f"pr-{judged.pull.number}"
        told = sorted(
            f"{check.name} {check.state} {check.ref or (check.url, check.summary)}"
            for check in judged.checks
        )
        return self._id(
            of,
            judged.sha,
            word,
            hashlib.sha256("\n".join(told).encode()).hexdigest()[:16],
            judged.wait,
        )

    def created(self, pull: ForgePull) -> CIEvent:
        """A pull request is open."""
        text = f"opened: {pull.title}"
        return self._moved(pull, CIEventType.PR_CREATED, "", text, pull.created_at)

    def merged(self, pull: ForgePull, note: str, *, wait: str = "") -> CIEvent:
        """It was merged into its base."""
        text = f"was merged into {pull.base} as {(pull.merge_commit or '')[:12]}{note}"
        return self._moved(pull, CIEventType.PR_MERGED, wait, text, pull.updated_at)

    def closed(self, pull: ForgePull, *, wait: str = "") -> CIEvent:
        """It was closed without a merge."""
        text = "was closed without being merged"
        return self._moved(
            pull, CIEventType.PR_CLOSED, f"{pull.updated_at:.0f}{wait}", text, pull.updated_at
        )

    def conflict(
        self, pull: ForgePull, note: str, *, at: float, wait: str, of_others: bool
    ) -> CIEvent:
        """It conflicts with its base."""
        text = f"conflicts with {pull.base}{note}"
        key = f"{pull.head_sha}:{pull.base_sha}{wait}"
        event = self._moved(pull, CIEventType.PR_CONFLICT, key, text, at)
        return event.model_copy(update={"of_others": of_others})

    def pushed_by_others(self, pull: ForgePull, sha: str, *, at: float) -> CIEvent:
        """Somebody else pushed commits that ours do not contain."""
        text = (
            f"has commits of somebody else: {sha[:12]}, which is here as "
            f"refs/loopwright/remote/{pull.branch}; merge it into your branch before you continue"
        )
        return self._moved(pull, CIEventType.PR_CHANGES_REQUESTED, f"pushed:{sha}", text, at)

    def changes_requested(
        self,
        pull: ForgePull,
        remarks: Sequence[ReviewComment],
        by: Iterable[str],
        *,
        by_bots: bool,
        at: float,
    ) -> CIEvent:
        """Reviewers request changes."""
        named = ", ".join(sorted(set(by)))
        # Without text, only the time distinguishes two requests of the same person.
        said = [remark.key for remark in remarks] or [named, f"{pull.updated_at:.0f}"]
        key = hashlib.sha256(" ".join(said).encode()).hexdigest()[:16]
        event = self._moved(
            pull,
            CIEventType.PR_CHANGES_REQUESTED,
            key,
            f"was reviewed: changes asked for by {named}" if named else "was commented on",
            at,
        )
        return event.model_copy(update={"details": tuple(remarks), "by_bots": by_bots})

    def _moved(self, pull: ForgePull, kind: CIEventType, key: str, text: str, at: float) -> CIEvent:
        return CIEvent(
            type=kind,
            event_id=self._id(f"pr-{pull.number}", kind, key),
            at=at,
            branch=pull.branch,
            sha=pull.head_sha,
            summary=f"pull request {pull.number} {text}",
            url=pull.url,
            **_about(pull),
        )

    def _id(self, *parts: str) -> str:
        return ":".join((self._name, self._place, *filter(None, parts)))


def _about(pull: ForgePull | None) -> dict[str, object]:
    return {} if pull is None else {"pr_number": pull.number, "pr_url": pull.url}
