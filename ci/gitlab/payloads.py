"""What GitLab's merge requests, approvals and discussions mean. Pure.

Owns GitLab's words for them. Must not send requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci.events import ReviewComment
from ci.forge.json_fields import at, epoch, flag, needed_number, needed_text, number, rows, text
from ci.forge.protocol import ForgePull
from ci.interface import PullRequestState

if TYPE_CHECKING:
    from collections.abc import Iterable

_STATES = {
    "opened": PullRequestState.OPEN,
    "locked": PullRequestState.OPEN,
    "merged": PullRequestState.MERGED,
    "closed": PullRequestState.CLOSED,
}
COMPUTING = frozenset({"checking", "unchecked", "preparing", "approvals_syncing"})
"""Words by which GitLab says that it has not found out yet."""
_CONFLICTS = frozenset({"conflict", "broken_status"})
_MERGES = {"can_be_merged": True, "cannot_be_merged": False}
_APPROVED = "approved this merge request"
_DEVELOPER = 30


def pull_of(row: object) -> ForgePull:
    """Read a merge request."""
    what = "a merge request"
    detailed, word = text(row, "detailed_merge_status"), text(row, "state")
    state = _STATES.get(word, PullRequestState.OPEN)
    merged = state is PullRequestState.MERGED
    head = text(row, "sha") or needed_text(what, row, "diff_refs", "head_sha")
    result = text(row, "merge_commit_sha") or text(row, "squash_commit_sha") or head
    return ForgePull(
        number=needed_number(what, row, "iid"),
        url=text(row, "web_url"),
        branch=needed_text(what, row, "source_branch"),
        base=needed_text(what, row, "target_branch"),
        head_sha=head,
        base_sha=text(row, "diff_refs", "base_sha"),
        title=text(row, "title"),
        body=text(row, "description"),
        state=state,
        draft=flag(row, "draft") or flag(row, "work_in_progress"),
        mergeable=_mergeable(row, detailed),
        hindrance=_hindrance(word, detailed) if state is PullRequestState.OPEN else "",
        behind=detailed == "need_rebase",
        queued=flag(row, "merge_when_pipeline_succeeds"),
        merge_commit=result if merged else None,
        ours=of_this_project(row),
        created_at=epoch(row, "created_at"),
        updated_at=_changed(row, state),
    )


def of_this_project(row: object) -> bool:
    """Return whether the branch of a merge request is one of this project, and not of a fork."""
    source, target = number(row, "source_project_id"), number(row, "target_project_id")
    # A fork that is gone has no number any more.
    return source is not None and source == target


def approvals_of(
    approvals: object, notes: Iterable[dict[str, Any]], *, head_since: float
) -> dict[int, str]:
    """Return the ids and names of those who approved since the head is the head.

    Not every GitLab takes an approval back when something is pushed.
    """
    told: dict[int, float] = {}
    for note in notes:
        who = number(note, "author", "id")
        if who is not None and flag(note, "system") and text(note, "body") == _APPROVED:
            told[who] = max(told.get(who, 0.0), epoch(note, "created_at"))
    found = {}
    for row in rows(approvals, "approved_by"):
        who = number(row, "user", "id")
        if who is None:
            continue
        when = epoch(row, "approved_at") or told.get(who, 0.0)
        if when and when >= head_since:
            found[who] = text(row, "user", "username")
    return found


def open_threads(discussions: Iterable[dict[str, Any]]) -> set[str]:
    """Return the ids of the discussions that wait to be resolved."""
    return {
        text(discussion, "id")
        for discussion in discussions
        if any(
            flag(note, "resolvable") and not flag(note, "resolved")
            for note in rows(discussion, "notes")
        )
    }


def remark_of(  # noqa: PLR0913  # what the note itself does not tell
    note: dict[str, Any], *, url: str, thread: str, trusted: bool, wants: bool, own: bool
) -> ReviewComment:
    """Read what a person wrote."""
    place = at(note, "position")
    line = number(place, "new_line")
    return ReviewComment(
        key=f"note-{needed_number('a note', note, 'id')}",
        ref=thread,
        author=text(note, "author", "username"),
        trusted=trusted,
        body=text(note, "body"),
        path=text(place, "new_path") or text(place, "old_path"),
        line=number(place, "old_line") if line is None else line,
        url=f"{url}#note_{note['id']}",
        at=epoch(note, "created_at"),
        sha=text(place, "head_sha"),
        wants_changes=wants and not own,
        own=own,
        resolved=flag(note, "resolvable") and flag(note, "resolved"),
    )


def may_write(member: object) -> bool:
    """Return whether a member of the project may push to it."""
    return (number(member, "access_level") or 0) >= _DEVELOPER


def _changed(row: object, state: PullRequestState) -> float:
    # Later comments do not change the end.
    ended = {PullRequestState.MERGED: "merged_at", PullRequestState.CLOSED: "closed_at"}
    return (state in ended and epoch(row, ended[state])) or epoch(row, "updated_at")


def _mergeable(row: object, detailed: str) -> bool | None:
    if detailed in COMPUTING:
        return None
    if detailed in _CONFLICTS:
        return False
    if detailed == "mergeable":
        return True
    # Another hindrance stands before the conflict: the older field still tells of it.
    older = text(row, "merge_status")
    if older:
        return _MERGES.get(older)
    conflicts = at(row, "has_conflicts")
    return not conflicts if isinstance(conflicts, bool) and detailed else None


def _hindrance(state: str, detailed: str) -> str:
    if state == "locked":
        return "locked"
    return "" if detailed == "mergeable" or detailed in COMPUTING else detailed
