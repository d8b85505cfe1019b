"""The audit: who did what to whom and why, in a chain that shows when it was changed.

Owns the form of an entry, the chain and its check. Where entries are kept is the stores' business
(`store/audit_trail.py`), which facts of a loop are entered is told in `store/audit_rows.py`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from lifecycle.masking import masked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

    from runtime.masking import Masker

BEGINNING = "0" * 64
"""What the first entry names as the hash before it."""
BROKEN = "audit_broken"
"""Action of the entry by which a writer notes that the trail does not end as it was left."""
RUNNER = "runner"
"""The actor where nobody asked: the loop itself went by its rules."""
LONGEST = 2000
"""Characters of a text that are kept; agents can make theirs as long as they like."""
PAGE = 1000
_encode = json.JSONEncoder(separators=(",", ":"), default=str, check_circular=False).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Something that is to be held."""

    at: float
    actor: str
    action: str
    subject: str
    outcome: str
    """asked, done, failed, refused, late, or a word of the action's own."""
    reason: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """Something that is held, and its place in the chain."""

    seq: int
    at: float
    actor: str
    action: str
    subject: str
    outcome: str
    reason: str
    details: str
    """JSON, as it was hashed."""
    prev_hash: str
    hash: str

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "seq": self.seq,
            "at": self.at,
            "actor": self.actor,
            "action": self.action,
            "subject": self.subject,
            "outcome": self.outcome,
            "reason": self.reason,
            "details": json.loads(self.details),
            "prev_hash": self.prev_hash,
            "hash": self.hash,
        }


@dataclass(frozen=True, slots=True)
class Head:
    """The newest entry as it was noted beside the trail."""

    seq: int
    hash: str


class Trail(Protocol):
    """Where entries are kept, in order, for good."""

    async def append(self, acts: Sequence[Act]) -> tuple[AuditEntry, ...]:
        """Add to the end; returned means kept."""
        ...

    async def entries(
        self, *, after: int = 0, limit: int = PAGE, newest: bool = False
    ) -> tuple[AuditEntry, ...]:
        """Return entries in order; with `newest`, the last `limit` of them."""
        ...

    def head(self) -> Head | None:
        """Return the note beside the trail."""
        ...


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with the trail, and where."""

    seq: int
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check of the whole trail found."""

    count: int
    head: Head | None
    findings: tuple[Finding, ...]

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


class Audit:
    """Holds acts that are no facts of a loop; those are held with the decision they belong to."""

    def __init__(
        self, trail: Trail, *, now: Callable[[], float], masker: Masker | None = None
    ) -> None:
        self._masker = masker
        self._trail = trail
        self._now = now

    async def record(  # noqa: PLR0913, PLR0917  # the fields of an entry, in their order
        self,
        action: str,
        actor: str,
        subject: str,
        outcome: str,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> AuditEntry:
        """Hold an act; returned means that it is in the trail."""
        act = Act(
            at=self._now(),
            actor=actor,
            action=action,
            subject=subject,
            outcome=outcome,
            reason=reason,
            details=details or {},
        )
        if self._masker:
            act = masked(act, self._masker)
        return (await self._trail.append((act,)))[-1]

    async def entries(
        self, *, after: int = 0, limit: int = PAGE, newest: bool = False
    ) -> tuple[AuditEntry, ...]:
        """Return entries in order; with `newest`, the last `limit` of them."""
        return await self._trail.entries(after=after, limit=limit, newest=newest)

    async def verify(self) -> Verdict:
        """Check the whole trail against itself and the note beside it."""
        # Read first: entries that come meanwhile are then no surprise.
        noted = self._trail.head()
        check = Check(noted)
        async for page in self._pages():
            check.take(page)
        if noted is None and check.count and self._trail.head() is not None:
            return await self.verify()  # the first entry came meanwhile
        return check.verdict()

    async def _pages(self) -> AsyncIterator[tuple[AuditEntry, ...]]:
        after = 0
        while page := await self._trail.entries(after=after):
            yield page
            after = page[-1].seq


def seal(act: Act, seq: int, prev_hash: str) -> AuditEntry:
    """Return the act as the next entry of the chain."""
    texts = {
        name: clipped(getattr(act, name))
        for name in ("actor", "action", "subject", "outcome", "reason")
    }
    at = float(act.at)
    details = _encode(dict(act.details))
    return AuditEntry(
        seq=seq,
        at=at,
        **texts,
        details=details,
        prev_hash=prev_hash,
        hash=_hash(seq, at, *texts.values(), details, prev_hash),
    )


def break_noted(head: Head | None, at: float, found: str) -> Act:
    """Return the act of noting that a trail does not end as it was left."""
    return Act(
        at=at,
        actor=RUNNER,
        action=BROKEN,
        subject="audit",
        outcome="found",
        reason=found,
        details={} if head is None else {"seq": head.seq, "hash": head.hash},
    )


class Check:
    """Checks a trail page by page against the chain's rule, its numbers and its head."""

    def __init__(self, head: Head | None) -> None:
        self._head = head
        self._seq, self._hash = 0, BEGINNING
        self.count = 0
        self._findings: list[Finding] = []

    def take(self, entries: Iterable[AuditEntry]) -> None:
        """Check the next entries."""
        for entry in entries:
            self.count += 1
            self._one(entry)
            self._seq, self._hash = entry.seq, entry.hash

    def verdict(self) -> Verdict:
        """Say what was found, once all entries are taken."""
        head = self._head
        if head is None and self.count:
            self._found(self._seq, "the note of the newest entry, kept beside the trail, is gone")
        elif head is not None and head.seq > self._seq:
            self._found(head.seq, f"{_span(self._seq + 1, head.seq)} cut off at the end")
        newest = Head(self._seq, self._hash) if self.count else None
        return Verdict(self.count, newest, tuple(self._findings))

    def _one(self, entry: AuditEntry) -> None:
        seq = entry.seq
        if seq != self._seq + 1:
            self._found(seq, f"{_span(self._seq + 1, seq - 1)} missing before it")
        elif entry.prev_hash != self._hash:
            self._found(seq, "does not follow the entry before it: one of the two was changed")
        if entry.hash != _hash(
            seq,
            entry.at,
            entry.actor,
            entry.action,
            entry.subject,
            entry.outcome,
            entry.reason,
            entry.details,
            entry.prev_hash,
        ):
            self._found(seq, "was changed: its hash does not fit what it says")
        elif entry.action == BROKEN:
            self._found(seq, f"notes that the trail was broken before it: {entry.reason}")
        if self._head is not None and seq == self._head.seq and entry.hash != self._head.hash:
            self._found(seq, "is not the entry that was written: the note beside it differs")

    def _found(self, seq: int, text: str) -> None:
        self._findings.append(Finding(seq, text))


def clipped(text: str) -> str:
    """Return a text that any column can hold, and no more of it than is kept."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST - 3]}..."
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _hash(*fields: str | float) -> str:
    # JSON of a list: no field can be mistaken for a part of its neighbour.
    return hashlib.sha256(_encode(fields).encode()).hexdigest()


def _span(first: int, last: int) -> str:
    return f"entry {first} is" if first == last else f"entries {first} to {last} are"
