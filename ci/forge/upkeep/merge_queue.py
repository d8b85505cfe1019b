"""Merge queues: what was put into one is remembered, and what is thrown out of it is told.

Owns that no order to merge is given again before it is known what came of the last, how often a
commit is put into the queue of a branch, and that a person's removal is respected. How a forge's
queue is asked is in that forge's folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci.errors import ForbiddenError, ForgeError, MissingError, RefusedError
from ci.forge.triage import EXPLAINED, TriageResult
from ci.interface import MergeResult
from ci.json_model import JsonModel
from ci.verdict import failed_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ci.events import CIEvent
    from ci.forge.events import ForgeEvents, JudgedCommit
    from ci.forge.memory import Memory
    from ci.forge.protocol import Forge, ForgePull, LeftQueue
    from ci.forge.triage import CheckTriage

MOST_ENTRIES = 3
"""How often one commit is put into a queue: each entry tests all that is behind it anew."""
SHOWS_WITHIN = 60.0
"""Seconds in which a forge shows an entry that it has accepted."""
NO_FAULT = (
    *("queue_cleared", "queue cleared", "roll_back", "rolled back", "already_merged"),
    *("not enabled", "disabled", "target branch was"),
)
"""Words in the reasons for a removal that nobody's commit is the cause of."""


ENTRIES_KEPT = 50
"""Heads and bases of one pull request that are remembered."""


class QueueEntry(JsonModel):
    """What is remembered of one head of a pull request in the merge queue of one base."""

    head: str
    base: str
    """The name of the branch: one that moves on is the same base."""
    at: float
    entries: int = 1
    """How often this head was put into this queue."""
    seen: bool = False
    """The forge showed it in the queue."""
    group: str = ""
    """The newest commit on which the queue tested it."""
    out: str = ""
    """Why it was thrown out; empty while it is in."""
    stays_out: bool = False
    """A person took it out."""
    asked_at: float | None = None
    """When it was asked to be merged once more, while it is not known what came of that."""

    def is_of(self, pull: ForgePull) -> bool:
        """Return whether it is about the head and the base that the pull request has now."""
        return (self.head, self.base) == (pull.head_sha, pull.base)


@dataclass(frozen=True, slots=True)
class QueueLook:
    """What a look at the queue found."""

    note: str = ""
    """For people."""
    may_enter: bool = False
    """Nothing speaks against putting it in."""


@dataclass(frozen=True, slots=True)
class MergeQueue:
    """The merge queue of one forge's repository, if it has one."""

    forge: Forge
    triage: CheckTriage
    memory: Memory
    events: ForgeEvents
    now: Callable[[], float]
    publish: Callable[[CIEvent], Awaitable[None]]

    async def look(self, judged: JudgedCommit, pull: ForgePull) -> QueueLook:
        """Notice an entry and a removal; publish why it was thrown out, once."""
        known, is_newest = self._known(pull)
        if pull.queued:
            await self._is_in(pull, known if is_newest else None)
            return QueueLook(f"; it is in the {self.forge.queue}")
        if known is not None and known.asked_at is not None:
            return await self._asked(judged, pull, known, known.asked_at)
        if known is None:
            return QueueLook(may_enter=True)
        if not known.out and is_newest:
            if not known.seen and self.now() < known.at + SHOWS_WITHIN:
                return QueueLook(f"; it is being put into the {self.forge.queue}")
            left = await self.forge.left_queue(pull)
            known = await self._thrown_out(judged, pull, known, left)
            return QueueLook(f"; {known.out}")
        return _again(known)

    async def order(
        self, pull: ForgePull, give: Callable[[], Awaitable[MergeResult]]
    ) -> MergeResult:
        """Have it merged, or put in; that is recorded before, as the answer may be lost."""
        before, _ = self._known(pull)
        none_yet = QueueEntry(head=pull.head_sha, base=pull.base, at=self.now(), entries=0)
        asked = {"asked_at": self.now()}
        await self._keep(pull, (before or none_yet).model_copy(update=asked))
        try:
            result = await give()
        except (ForbiddenError, MissingError, RefusedError):
            await self._came_to_nothing(pull)
            raise
        if result.queued:
            await self._entered(pull)
        else:
            await self._came_to_nothing(pull)
        return result

    async def _asked(
        self, judged: JudgedCommit, pull: ForgePull, known: QueueEntry, asked_at: float
    ) -> QueueLook:
        """Find out what came of an order whose answer was lost."""
        if self.now() < asked_at + SHOWS_WITHIN:
            return QueueLook(
                "; it was asked to be merged and no answer came: it is looked at before it is "
                "asked for again"
            )
        left = await self._left_since(pull, known)
        if left is None:
            await self._came_to_nothing(pull)
            return _again(known)
        entered = await self._entered(pull)
        return QueueLook(f"; {(await self._thrown_out(judged, pull, entered, left)).out}")

    async def earlier(self, pull: ForgePull) -> MergeResult | None:
        """Return what came of an order whose answer was lost, if that put it in."""
        known, _ = self._known(pull)
        if known is None or known.asked_at is None:
            return None
        if pull.queued:
            await self._entered(pull)
            reason = f"it is in the {self.forge.queue} already"
            return MergeResult(merged=False, reason=reason, queued=True)
        left = await self._left_since(pull, known)
        if left is None:
            return None
        entered = await self._entered(pull)
        text = self._thrown_out_text(pull, left)
        update = {"out": text, "group": left.group, "stays_out": left.by_person}
        await self._keep(pull, entered.model_copy(update=update))
        return MergeResult(merged=False, reason=f"{text}; ask again to put it in again")

    async def _left_since(self, pull: ForgePull, known: QueueEntry) -> LeftQueue | None:
        """Return how it left the queue since the order whose answer was lost, if it was in."""
        left = await self.forge.left_queue(pull)
        groups = {entry.group for entry in self._entries(pull)}
        new = left.group not in groups if left.group else bool(left.reason and not known.entries)
        return left if new else None

    def _thrown_out_text(self, pull: ForgePull, left: LeftQueue) -> str:
        text = f"pull request {pull.number} was thrown out of the {self.forge.queue} of {pull.base}"
        return f"{text} ({left.reason})" if left.reason else text

    async def _entered(self, pull: ForgePull) -> QueueEntry:
        """Record that it was put in."""
        known, _ = self._known(pull)
        times = known.entries + 1 if known else 1
        entry = QueueEntry(head=pull.head_sha, base=pull.base, at=self.now(), entries=times)
        await self._keep(pull, entry)
        return entry

    async def _came_to_nothing(self, pull: ForgePull) -> None:
        """Record that the newest order put nothing in."""
        known, _ = self._known(pull)
        if known is not None:
            done = known.model_copy(update={"asked_at": None})
            await self._keep(pull, *([done] if known.entries else []))

    async def _is_in(self, pull: ForgePull, known: QueueEntry | None) -> None:
        if known is None or known.out or known.asked_at is not None:
            await self._entered(pull)
            known, _ = self._known(pull)
        group = pull.group_sha or (known.group if known else "")
        if known is not None and (not known.seen or group != known.group):
            await self._keep(pull, known.model_copy(update={"seen": True, "group": group}))

    async def _thrown_out(
        self, judged: JudgedCommit, pull: ForgePull, known: QueueEntry, left: LeftQueue
    ) -> QueueEntry:
        """Publish it like red checks, unless no commit is the cause."""
        group = left.group or known.group
        failed = await self._failed(group)
        text = self._thrown_out_text(pull, left)
        if failed.details:
            text += f": {failed.text}"
        said = left.reason.lower()
        at_fault = said and not left.by_person and not any(word in said for word in NO_FAULT)
        if failed.details or at_fault:
            finding = TriageResult(text, failed.details, of_the_base=False)
            ident = group or f"entry-{known.entries}"
            await self.publish(self.events.thrown_out(judged, finding, ident, at=self.now()))
        update = {"out": text, "group": group, "stays_out": left.by_person}
        known = known.model_copy(update=update)
        await self._keep(pull, known)
        return known

    async def _failed(self, group: str) -> TriageResult:
        """Return the failed checks of the commit on which the queue tested it, with their logs."""
        if not group:
            return TriageResult("", (), of_the_base=False)
        try:
            checks = await self.forge.checks(group)
        except ForgeError:
            checks = ()
        failed = failed_of(checks)
        names = ", ".join(check.name for check in failed)
        return TriageResult(
            f"{names} failed on {group[:12]}, the merge with its base and with what is before it "
            "in the queue",
            (await self.triage.explained(group, failed))[:EXPLAINED],
            of_the_base=False,
        )

    def _known(self, pull: ForgePull) -> tuple[QueueEntry | None, bool]:
        """Return what is known of its head and base, and whether nothing was put in after it."""
        entries = self._entries(pull)
        found = next((entry for entry in entries if entry.is_of(pull)), None)
        return found, bool(entries) and entries[-1] is found

    async def _keep(self, pull: ForgePull, *entry: QueueEntry) -> None:
        others = [known for known in self._entries(pull) if not known.is_of(pull)]
        await self.memory.keep_queue(pull.number, [*others, *entry][-ENTRIES_KEPT:])

    def _entries(self, pull: ForgePull) -> list[QueueEntry]:
        return [QueueEntry.model_validate(entry) for entry in self.memory.queue(pull.number)]


def _again(known: QueueEntry) -> QueueLook:
    if known.stays_out:
        return QueueLook(f"; {known.out}; it is not put in again, as a person took it out")
    if known.entries >= MOST_ENTRIES:
        times = f"it was put in {known.entries} times at this commit"
        return QueueLook(f"; {known.out}; it is not put in again, {times}")
    return QueueLook(may_enter=True)
