"""Whether Loopwright may merge a pull request: one reason against it is enough. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ci.interface import PullRequestState
from ci.verdict import VerdictStatus

if TYPE_CHECKING:
    from ci.forge.protocol import ForgePull, Reviews
    from ci.verdict import Verdict

PASSING_HINDRANCES = frozenset({"", "unstable", "has_hooks"})
"""States in which the forge would merge anyway: optional checks, its own hooks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The settings of providers, as read once."""

    require_ci: bool | Literal["auto"] = True
    """A commit without any check is not green; auto: unless none ever runs there."""
    required_checks: tuple[str, ...] = ()
    ignore_checks: tuple[str, ...] = ()
    checks_grace: float = 120.0
    """Seconds for which a commit without checks may still get some."""
    auto_merge: bool = False
    merge_method: str = "merge"
    required_reviews: int = 0
    review_authors: tuple[str, ...] = ()
    """Whose comments count beside those of people who may write to the repository."""
    review_authors_only: bool = False
    """Only the comments of those count, if any are named."""
    wake_on_comments: bool = False
    rerun_red: bool = False
    rerun_flaky: bool = True
    wake_on_base_red: bool = True
    labels: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    assignees: tuple[str, ...] = ()
    issue_comment: bool = True
    issue_labels: tuple[str, ...] = ()
    """Labels of a task's issue while it is worked on."""
    issue_close: bool = False
    draft_first: bool = False
    """Pull requests are opened as drafts, and marked as ready once they are green."""
    delete_head_branch: bool = True
    behind_base: str = "update"
    """How a branch that must contain its base is brought up to date: update, merge or ask."""


def objection(
    pull: ForgePull, verdict: Verdict, reviews: Reviews, rules: Rules, *, sha: str | None = None
) -> str:
    """Return why it must not be merged now; empty if it may.

    `sha` is the commit that was reviewed; any other head is refused.
    """
    name = f"pull request {pull.number}"
    wanted = set(reviews.changes_wanted_by)
    missing = rules.required_reviews - len(set(reviews.approved_by) - wanted)
    against = (
        (pull.state is not PullRequestState.OPEN, f"{name} is {pull.state}: open a new one"),
        (
            sha is not None and pull.head_sha != sha,
            f"the head of {name} is {pull.head_sha}, not {sha}: look at it again",
        ),
        (verdict.sha != pull.head_sha, f"the verdict is on {verdict.sha}, not on {pull.head_sha}"),
        (pull.draft, f"{name} is a draft: mark it as ready first"),
        (pull.mergeable is False, f"{name} conflicts with {pull.base}: merge {pull.base} into it"),
        (
            verdict.status is not VerdictStatus.GREEN and not verdict.enough,
            f"{name} is {verdict.status}, not green: {verdict.summary}",
        ),
        (bool(wanted), f"{_named(wanted)} asked for changes in {name}"),
        (missing > 0, f"{name} lacks {missing} of {rules.required_reviews} required approvals"),
        (
            pull.hindrance not in PASSING_HINDRANCES,
            f"the forge does not let {name} be merged now: {pull.hindrance}",
        ),
    )
    return next((text for holds, text in against if holds), "")


def squash_message(pull: ForgePull, rules: Rules, mark: str) -> str:
    """Return title and text of a squashed commit; empty where the forge words the merge."""
    if rules.merge_method != "squash":
        return ""
    return f"{pull.title} ({mark}{pull.number})\n\n{pull.body}".strip()


def _named(names: set[str]) -> str:
    return ", ".join(sorted(names))
