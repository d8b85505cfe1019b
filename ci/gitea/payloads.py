"""What the answers of Gitea and Forgejo mean: statuses as checks, pull requests, reviews. Pure.

Owns their words. Must not send requests.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ci.events import Check, CheckState, ReviewComment
from ci.forge.json_fields import (
    at,
    epoch,
    flag,
    needed_number,
    needed_text,
    newest_of_each_name,
    number,
    text,
)
from ci.forge.protocol import BranchRules, ForgePull
from ci.interface import PullRequestState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

STATES: Mapping[str, CheckState | None] = {
    "success": CheckState.PASSED,
    "warning": CheckState.PASSED,
    "failure": CheckState.FAILED,
    "error": CheckState.FAILED,
    "pending": CheckState.PENDING,
    "skipped": None,
}
"""None: it says nothing. An unknown word is pending."""

SIDES = frozenset({"APPROVED", "REQUEST_CHANGES"})
"""The reviews that are for or against."""
UNSAID = frozenset({"PENDING", "REQUEST_REVIEW"})
"""Reviews that are not given yet."""
_GONE = "refs/pull/"


def checks_of(statuses: Iterable[object], *, web_url: str) -> tuple[Check, ...]:
    """Return the newest status of each context as a check."""
    newest: list[tuple[int, Check]] = []
    silent: dict[str, int] = {}
    for status in statuses:
        order, name = number(status, "id") or 0, text(status, "context") or "default"
        word = text(status, "status") or text(status, "state")
        state = STATES.get(word, CheckState.PENDING)
        if state is None:
            silent[name] = max(silent.get(name, 0), order)
            continue
        check = Check(
            name=name,
            state=state,
            how=word,
            summary=text(status, "description"),
            url=absolute(text(status, "target_url"), web_url),
            ref=f"status:{order}",
        )
        newest.append((order, check))
    return newest_of_each_name(row for row in newest if row[0] > silent.get(row[1].name, -1))


_WILD = re.compile(r"\?|\[[^\]]*\]|\{[^}]*\}")
"""What stands for several texts in a context that Gitea requires, beside `*`."""


def branch_rules_of(row: object, protection: object = None) -> BranchRules:
    """Read a branch and its protection; contexts may be patterns, and none means all of them."""
    contexts = at(row, "status_check_contexts")
    named = contexts if flag(row, "enable_status_check") and isinstance(contexts, list) else []
    may = at(row, "user_can_merge")
    return BranchRules(
        required_checks=tuple(_WILD.sub("*", str(each)) for each in named),
        required_approvals=number(row, "required_approvals") or 0,
        up_to_date=flag(protection, "block_on_outdated_branch"),
        may_merge=may if isinstance(may, bool) else None,
    )


def absolute(url: str, web_url: str) -> str:
    """Return a url with its host: that of a run of the forge itself is told without."""
    return f"{web_url}{url}" if url.startswith("/") else url


def pull_of(row: object) -> ForgePull:
    """Read a pull request; "does not merge" may mean that it is not computed yet."""
    what = "a pull request"
    merged = flag(row, "merged")
    closed = text(row, "state") == "closed"
    state = PullRequestState.MERGED if merged else PullRequestState.OPEN
    if closed and not merged:
        state = PullRequestState.CLOSED
    ended = text(row, "merged_at" if merged else "closed_at") if merged or closed else ""
    mergeable = at(row, "mergeable")
    draft = is_draft(row)
    return ForgePull(
        number=needed_number(what, row, "number"),
        url=text(row, "html_url"),
        branch=branch_of(row),
        base=needed_text(what, row, "base", "ref"),
        head_sha=needed_text(what, row, "head", "sha"),
        base_sha=text(row, "merge_base") or text(row, "base", "sha"),
        base_head=text(row, "base", "sha"),
        title=text(row, "title"),
        body=text(row, "body"),
        state=state,
        draft=draft,
        mergeable=mergeable if isinstance(mergeable, bool) else None,
        hindrance="draft" if draft and state is PullRequestState.OPEN else "",
        merge_commit=text(row, "merge_commit_sha") or None if merged else None,
        ours=of_this_repository(row),
        created_at=epoch(row, "created_at"),
        # Later comments do not change the end.
        updated_at=epoch({"at": ended}, "at") or epoch(row, "updated_at"),
    )


def branch_of(row: object) -> str:
    """Return the branch of a pull request, also if it is deleted."""
    ref = text(row, "head", "ref")
    return text(row, "head", "label") or ref if ref.startswith(_GONE) else ref


def is_draft(row: object) -> bool:
    """Return whether it is a draft; older servers only show it in the title."""
    return flag(row, "draft") or text(row, "title").lower().startswith(("wip:", "[wip]"))


def of_this_repository(row: object) -> bool:
    """Return whether its branch is one of this repository, and not of a fork."""
    ours, theirs = number(row, "base", "repo_id"), number(row, "head", "repo_id")
    if branch_of(row).startswith(_GONE):
        # Pushed for review without a branch (AGit), which needs no right to write.
        return False
    # A deleted fork is -1 or 0; a deleted branch still belongs to its repository.
    return theirs is not None and theirs > 0 and theirs == ours


def remark_of_comment(row: object, *, trusted: bool, own: bool) -> ReviewComment:
    """Read a comment under a pull request."""
    return ReviewComment(
        key=f"comment-{needed_number('a comment', row, 'id')}",
        author=author_of(row),
        trusted=trusted,
        own=own,
        body=text(row, "body"),
        url=text(row, "html_url"),
        at=epoch(row, "created_at"),
    )


def remark_of_review(row: object, *, trusted: bool, wants: bool, own: bool) -> ReviewComment:
    """Read what a review says as a whole."""
    return ReviewComment(
        key=f"review-{needed_number('a review', row, 'id')}",
        author=author_of(row),
        trusted=trusted,
        own=own,
        body=text(row, "body"),
        url=text(row, "html_url"),
        at=epoch(row, "submitted_at"),
        sha=text(row, "commit_id"),
        wants_changes=wants and not own,
    )


def remark_of_line(row: object, *, trusted: bool, wants: bool, own: bool) -> ReviewComment:
    """Read what a review says about a line."""
    line = number(row, "position") or number(row, "original_position")
    return ReviewComment(
        key=f"line-{needed_number('a comment of a review', row, 'id')}",
        author=author_of(row),
        trusted=trusted,
        own=own,
        body=text(row, "body"),
        path=text(row, "path"),
        line=line or None,
        url=text(row, "html_url"),
        at=epoch(row, "created_at"),
        sha=text(row, "commit_id"),
        wants_changes=wants and not own,
        resolved=isinstance(at(row, "resolver"), dict),
    )


def author_of(row: object) -> str:
    """Return the login of the author."""
    return text(row, "user", "login")


def newest_sides(reviews: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the newest review of each person that is for or against and not dismissed."""
    newest: dict[str, dict[str, Any]] = {}
    for review in sorted(reviews, key=lambda each: number(each, "id") or 0):
        if text(review, "state") in SIDES:
            newest[author_of(review)] = review
    return {who: review for who, review in newest.items() if who and not flag(review, "dismissed")}
