"""Merge queues: what was put into one is remembered, and what is thrown out of it is told.

Owns how often a commit is put into a queue again, and that a person's removal is respected. How a
forge's queue is asked is in that forge's folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci.errors import ForgeError
from ci.events import CheckState
from ci.forge.triage import EXPLAINED, TriageResult
from ci.json_model import JsonModel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ci.events import CIEvent
    from ci.forge.events import ForgeEvents, JudgedCommit
    from ci.forge.memory import Memory
    from ci.forge.protocol import Forge, ForgePull
    from ci.forge.triage import CheckTriage

MOST_ENTRIES = 3
"""How often one commit is put into a queue: each entry tests all that is behind it anew."""
SHOWS_WITHIN = 60.0
"""Seconds in which a forge shows an entry that it has accepted."""
BY_PERSON = ("manual",)
NO_FAULT = ("queue_cleared", "queue cleared", "roll_back", "rolled back", "already_merged")
"""Words in the reasons for a removal that nobody's commit is the cause of."""


class QueueEntry(JsonModel):
    """What is remembered of a pull request in a merge queue."""

    head: str
    base: str
    """The commit of the base when it was put in."""
    at: float
    entries: int = 1
    """How often this head was put in."""
    seen: bool = False
    """The forge showed it in the queue."""
    group: str = ""
    """The newest commit on which the queue tested it."""
    out: str = ""
    """Why it was thrown out; empty while it is in."""
    stays_out: bool = False
    """A person took it out."""


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
        known = self._known(pull.number)
        if pull.queued:
            await self._is_in(pull, known)
            return QueueLook("; it is in the merge queue")
        if known is None or known.head != pull.head_sha:
            return QueueLook(may_enter=True)
        if not known.out:
            if not known.seen and self.now() < known.at + SHOWS_WITHIN:
                return QueueLook("; it is being put into the merge queue")
            left = await self.forge.left_queue(pull)
            known = await self._thrown_out(judged, pull, known, left.reason, left.group)
            return QueueLook(f"; {known.out}")
        return _again(known)

    async def entered(self, pull: ForgePull) -> None:
        """Record that we put it in."""
        known = self._known(pull.number)
        same = known is not None and known.head == pull.head_sha
        entries = known.entries + 1 if known is not None and same else 1
        await self._keep(
            pull.number,
            QueueEntry(head=pull.head_sha, base=pull.base_sha, at=self.now(), entries=entries),
        )

    async def _is_in(self, pull: ForgePull, known: QueueEntry | None) -> None:
        if known is None or known.head != pull.head_sha or known.out:
            await self.entered(pull)
            known = self._known(pull.number)
        group = pull.group_sha or (known.group if known else "")
        if known is not None and (not known.seen or group != known.group):
            await self._keep(pull.number, known.model_copy(update={"seen": True, "group": group}))

    async def _thrown_out(
        self, judged: JudgedCommit, pull: ForgePull, known: QueueEntry, reason: str, group: str
    ) -> QueueEntry:
        """Publish it like red checks, unless no commit is the cause."""
        group = group or known.group
        failed = await self._failed(group)
        text = f"pull request {pull.number} was thrown out of the merge queue of {pull.base}"
        if reason:
            text += f" ({reason})"
        if failed.details:
            text += f": {failed.text}"
        said = reason.lower()
        by_person = any(word in said for word in BY_PERSON)
        at_fault = reason and not by_person and not any(word in said for word in NO_FAULT)
        if failed.details or at_fault:
            finding = TriageResult(text, failed.details, of_the_base=False)
            ident = group or f"entry-{known.entries}"
            await self.publish(self.events.thrown_out(judged, finding, ident, at=self.now()))
        update = {"out": text, "group": group, "stays_out": by_person}
        known = known.model_copy(update=update)
        await self._keep(pull.number, known)
        return known

    async def _failed(self, group: str) -> TriageResult:
        """Return the failed checks of the commit on which the queue tested it, with their logs."""
        if not group:
            return TriageResult("", (), of_the_base=False)
        try:
            checks = await self.forge.checks(group)
        except ForgeError:
            checks = ()
        failed = [check for check in checks if check.state is CheckState.FAILED]
        names = ", ".join(check.name for check in failed)
        return TriageResult(
            f"{names} failed on {group[:12]}, the merge with its base and with what is before it "
            "in the queue",
            (await self.triage.explained(group, failed))[:EXPLAINED],
            of_the_base=False,
        )

    def _known(self, number: int) -> QueueEntry | None:
        body = self.memory.queue(number)
        return QueueEntry.model_validate(body) if body else None

    async def _keep(self, number: int, entry: QueueEntry) -> None:
        await self.memory.keep_queue(number, entry.model_dump())


def _again(known: QueueEntry) -> QueueLook:
    if known.stays_out:
        return QueueLook(f"; {known.out}; it is not put in again, as a person took it out")
    if known.entries >= MOST_ENTRIES:
        times = f"it was put in {known.entries} times at this commit"
        return QueueLook(f"; {known.out}; it is not put in again, {times}")
    return QueueLook(may_enter=True)
