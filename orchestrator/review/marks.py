"""What a reviewer marked: files that were looked at, and comments on lines.

Kept per person. A mark is about the contents that were seen: where a later commit changes a file,
its mark is gone and its comments say so; all others stay. It decides nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from lifecycle.perform.removal import REVIEW_MARKS
from orchestrator.review.own_work import ReviewError
from orchestrator.review.work_diff import STAT, DiffWish

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lifecycle.record import AgentLifecycle
    from lifecycle.store.sqlite.store import SqliteStore
    from orchestrator.review.work_diff import WorkReader

MOST_COMMENTS = 200
MOST_PEOPLE = 50


class MovedError(ReviewError):
    """The work moved on since it was looked at."""


class CommentForm(TypedDict):
    """A comment on a line of a changed file."""

    file: str
    line: int
    side: str
    """new, or old for a line that was removed"""
    text: str
    head: str
    """the commit that it was written about"""
    outdated: bool
    """whether the file changed since"""


class MarksForm(TypedDict):
    """What one person marked."""

    person: str
    seen: list[str]
    comments: list[CommentForm]


class AllMarksForm(TypedDict):
    """What people marked of the work of one lifecycle."""

    agent_id: str
    head: str
    mine: MarksForm
    others: list[MarksForm]
    unseen_flagged: list[str]
    """flagged files that you did not mark as seen"""


TOGETHER = "Merge {} into your branch, and resolve what conflicts."
"""What work that conflicts is told where a person says no more; {} is the branch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A comment as it is given."""

    file: str
    line: int
    text: str
    side: str = "new"


class ReviewMarks:
    """The marks of one repository; there must be one in a process, for they are read to change."""

    def __init__(self, store: SqliteStore, reader: WorkReader) -> None:
        self._store, self._reader = store, reader
        self._turn = asyncio.Lock()

    async def of(self, record: AgentLifecycle, person: str) -> AllMarksForm:
        """Return what is marked, as far as it is still true."""
        diff = await self._reader.diff(record, DiffWish(view=STAT))
        contents = {each.path: _content(each) for each in diff.files}
        kept = await self._kept(record)
        mine = kept.get(person, {})
        shown = _shown(person, mine, contents)
        flagged = [each.path for each in diff.files if each.flagged]
        return {
            "agent_id": record.agent_id,
            "head": diff.head,
            "mine": shown,
            "others": [
                _shown(name, body, contents) for name, body in kept.items() if name != person
            ],
            "unseen_flagged": [path for path in flagged if path not in shown["seen"]],
        }

    async def keep(
        self,
        record: AgentLifecycle,
        person: str,
        head: str,
        seen: Iterable[str],
        comments: Sequence[Comment],
    ) -> None:
        """Replace what a person marked; MovedError if they looked at another commit."""
        diff = await self._reader.diff(record, DiffWish(view=STAT))
        if diff.head != head:
            raise MovedError(
                f"the work of {record.agent_id} is at {diff.head} now, and {head[:12]} was "
                "looked at: look at it again"
            )
        contents = {each.path: _content(each) for each in diff.files}
        for path in (*seen, *(each.file for each in comments)):
            if path not in contents:
                raise ReviewError(f"{record.agent_id} did not change {path!r}")
        async with self._turn:
            kept = await self._kept(record)
            before = {_told(each): each for each in kept.get(person, {}).get("comments", ())}
            fresh = [_comment(each, head, contents[each.file]) for each in comments]
            kept[person] = {
                "seen": {path: contents[path] for path in seen},
                "comments": [before.get(_told(each), each) for each in fresh],
            }
            if not kept[person]["seen"] and not fresh:
                del kept[person]
            if len(kept) > MOST_PEOPLE:
                raise ReviewError(f"{MOST_PEOPLE} people marked this already")
            await self._put(record, kept)

    async def comments(self, record: AgentLifecycle, person: str) -> tuple[Comment, ...]:
        """Return a person's comments."""
        found = (await self._kept(record)).get(person, {}).get("comments", ())
        names = ("file", "line", "text", "side")
        return tuple(Comment(**{name: each[name] for name in names}) for each in found)

    async def forget_comments(self, record: AgentLifecycle, person: str) -> None:
        """Forget a person's comments: the agent was told of them."""
        async with self._turn:
            kept = await self._kept(record)
            if kept.get(person, {}).get("comments"):
                kept[person]["comments"] = []
                await self._put(record, kept)

    async def _kept(self, record: AgentLifecycle) -> dict[str, Any]:
        body = (await self._store.all(REVIEW_MARKS)).get(record.agent_id, {})
        people: dict[str, Any] = body.get("people", {})
        return people if body.get("birth") == record.birth else {}

    async def _put(self, record: AgentLifecycle, people: dict[str, Any]) -> None:
        body = {"birth": record.birth, "people": people}
        await self._store.put(REVIEW_MARKS, record.agent_id, body)


def _content(file: Any) -> str:
    change = file.change
    return f"{change.old_blob[:16]}-{change.new_blob[:16]}-{change.new_mode}"


def _comment(given: Comment, head: str, content: str) -> dict[str, Any]:
    told = {"file": given.file, "line": given.line, "side": given.side, "text": given.text}
    return told | {"head": head, "content": content}


def _told(comment: Mapping[str, Any]) -> tuple[Any, ...]:
    """What makes a comment the same as one that was kept before."""
    return tuple(comment[name] for name in ("file", "line", "side", "text"))


def _shown(person: str, body: Mapping[str, Any], contents: Mapping[str, str]) -> MarksForm:
    return {
        "person": person,
        "seen": [path for path, what in body.get("seen", {}).items() if contents.get(path) == what],
        "comments": [
            {
                "file": each["file"],
                "line": each["line"],
                "side": each["side"],
                "text": each["text"],
                "head": each["head"],
                "outdated": contents.get(each["file"]) != each["content"],
            }
            for each in body.get("comments", ())
        ],
    }


def guidance(text: str, comments: Iterable[Comment]) -> str:
    """Return what an agent is told: the words, then each comment with its file and line."""
    told = [text.strip()] if text.strip() else []
    for each in comments:
        where = f"{each.file}, line {each.line}"
        removed = " (as it was before)" if each.side == "old" else ""
        told.append(f"{where}{removed}: {each.text.strip()}")
    return "\n\n".join(told)
