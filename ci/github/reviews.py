"""Reviews on GitHub: GitHub's three lists combined into one.

Owns whose review counts: only that of people who, as GitHub says, belong to the repository. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci.events import ReviewComment
from ci.forge.json_fields import epoch, flag, number, text
from ci.forge.protocol import Reviews

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TRUSTED = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
"""Associations of people who belong to the repository. Bots get no other treatment."""

RESOLVED = "resolved"
"""What `ci.github.threads` adds to a comment on a line that was marked as done."""
_TAKES_SIDES = frozenset({"APPROVED", "CHANGES_REQUESTED", "DISMISSED"})
"""A review that only comments leaves the reviewer's last decision unchanged."""
_TOLD = frozenset({"CHANGES_REQUESTED", "COMMENTED"})


def reviews_of(
    head: str,
    reviews: Iterable[Mapping[str, Any]],
    line_comments: Iterable[Mapping[str, Any]],
    comments: Iterable[Mapping[str, Any]],
    *,
    me: str = "",
) -> Reviews:
    """Join reviews, comments on lines and comments on the whole; `me` is our own login."""
    ordered = sorted((each for each in reviews if text(each, "state") != "PENDING"), key=_when)
    last_words = {
        author(review): review for review in ordered if text(review, "state") in _TAKES_SIDES
    }
    wanting = {
        name: trusted(review)
        for name, review in last_words.items()
        if text(review, "state") == "CHANGES_REQUESTED"
    }
    states = {number(review, "id") or 0: text(review, "state") for review in ordered}
    remarks = [
        *(_of_review(each) for each in ordered if text(each, "state") in _TOLD if _body(each)),
        *_of_lines(line_comments, states),
        *(_remark("comment", each) for each in comments if _body(each)),
    ]
    return Reviews(
        approved_by=tuple(
            name
            for name, review in last_words.items()
            if trusted(review)
            and text(review, "state") == "APPROVED"
            and text(review, "commit_id") == head
        ),
        changes_wanted_by=tuple(name for name, counts in wanting.items() if counts),
        changes_wanted_by_others=tuple(name for name, counts in wanting.items() if not counts),
        remarks=tuple(
            sorted((_signed(each, me) for each in remarks), key=lambda remark: remark.at)
        ),
    )


def author(body: Mapping[str, Any]) -> str:
    """Return the author; GitHub keeps the comments of deleted accounts."""
    return text(body, "user", "login") or "ghost"


def trusted(body: Mapping[str, Any]) -> bool:
    """Return whether GitHub says that the author belongs to the repository."""
    return text(body, "author_association") in TRUSTED


def _signed(remark: ReviewComment, me: str) -> ReviewComment:
    if not me or remark.author.lower() != me.lower():
        return remark
    return remark.model_copy(update={"own": True, "wants_changes": False})


def _when(review: Mapping[str, Any]) -> tuple[float, int]:
    return epoch(review, "submitted_at"), number(review, "id") or 0


def _body(body: Mapping[str, Any]) -> bool:
    return bool(text(body, "body").strip())


def _of_review(review: Mapping[str, Any]) -> ReviewComment:
    return _remark("review", review, wants_changes=text(review, "state") == "CHANGES_REQUESTED")


def _of_lines(
    comments: Iterable[Mapping[str, Any]], states: Mapping[int, str]
) -> Iterable[ReviewComment]:
    for comment in comments:
        state = states.get(number(comment, "pull_request_review_id") or 0, "")
        if state != "DISMISSED":
            said = _remark("line", comment, wants_changes=state == "CHANGES_REQUESTED")
            # Only the first of a thread takes replies.
            first = number(comment, "in_reply_to_id") or number(comment, "id")
            yield said.model_copy(
                update={"resolved": flag(comment, RESOLVED), "ref": str(first or "")}
            )


def _remark(kind: str, body: Mapping[str, Any], *, wants_changes: bool = False) -> ReviewComment:
    return ReviewComment(
        key=f"{kind}:{number(body, 'id')}",
        author=author(body),
        trusted=trusted(body),
        body=text(body, "body"),
        path=text(body, "path"),
        # The line of a comment disappears once its place was changed; the original one stays.
        line=number(body, "line") or number(body, "original_line"),
        url=text(body, "html_url"),
        at=epoch(body, "submitted_at") or epoch(body, "created_at"),
        sha=text(body, "original_commit_id") or text(body, "commit_id"),
        wants_changes=wants_changes,
    )
