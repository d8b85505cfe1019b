"""The audit: who did what, to which agent and why, in a chain that shows when it was changed.

Owns the form of an entry, the chain and its check. Where entries are kept is the stores' business
(`store/sqlite/audit_trail.py`), `store/rows/audit.py` says which facts of a loop are entered.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

from lifecycle.mask_values import masked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from runtime.masking.masker import Masker

BEGINNING = "0" * 64
"""What the first entry names as the hash before it."""
BROKEN = "audit_broken"
"""Action of the entry by which a writer notes that the trail does not end as it was left."""
RUNNER = "runner"
"""The actor where nobody asked: the loop itself, by its rules."""
AUTO_RESUME = "auto-resume"
"""The actor where the turns of a pause have passed."""
LONGEST = 2000
"""Characters of a text that are kept; agents can make theirs as long as they like."""
_encode = json.JSONEncoder(separators=(",", ":"), default=str, check_circular=False).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Something that is to be recorded."""

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
    """An act that is recorded, and its position in the chain."""

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
        return {**asdict(self), "details": json.loads(self.details)}


_hashed = attrgetter(*(each.name for each in fields(AuditEntry) if each.name != "hash"))


@dataclass(frozen=True, slots=True)
class AuditHead:
    """The newest entry as it was noted beside the trail."""

    seq: int
    hash: str


class Trail(Protocol):
    """Where entries are kept, in order, for good."""

    async def append(self, acts: Sequence[Act]) -> tuple[AuditEntry, ...]:
        """Add to the end; they are kept when this returns."""
        ...


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """Something that is wrong with the trail, and where."""

    seq: int
    text: str


@dataclass(frozen=True, slots=True)
class AuditVerdict:
    """What a check of the whole trail found."""

    count: int
    head: AuditHead | None
    findings: tuple[AuditFinding, ...]

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


class Audit:
    """Records acts that are not facts of a loop; those are recorded with their decision."""

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
        """Record an act; it is in the trail when this returns."""
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


def break_noted(head: AuditHead | None, at: float, found: str) -> Act:
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


class AuditCheck:
    """Checks a trail page by page against the chain's rule, its numbers and its head."""

    def __init__(self, head: AuditHead | None) -> None:
        self._head = head
        self._seq, self._hash = 0, BEGINNING
        self.count = 0
        self._findings: list[AuditFinding] = []

    def take(self, entries: Iterable[AuditEntry]) -> None:
        """Check the next entries."""
        for entry in entries:
            self.count += 1
            self._one(entry)
            self._seq, self._hash = entry.seq, entry.hash

    def verdict(self) -> AuditVerdict:
        """Say what was found, once all entries are taken."""
        head = self._head
        if head is None and self.count:
            self._found(self._seq, "the note of the newest entry, kept beside the trail, is gone")
        elif head is not None and head.seq > self._seq:
            self._found(head.seq, f"{_span(self._seq + 1, head.seq)} cut off at the end")
        newest = AuditHead(self._seq, self._hash) if self.count else None
        return AuditVerdict(self.count, newest, tuple(self._findings))

    def _one(self, entry: AuditEntry) -> None:
        seq = entry.seq
        if seq != self._seq + 1:
            self._found(seq, f"{_span(self._seq + 1, seq - 1)} missing before it")
        elif entry.prev_hash != self._hash:
            self._found(seq, "does not follow the entry before it: one of the two was changed")
        if entry.hash != _hash(*_hashed(entry)):
            self._found(seq, "was changed: its hash does not match its contents")
        elif entry.action == BROKEN:
            self._found(seq, f"notes that the trail was broken before it: {entry.reason}")
        if self._head is not None and seq == self._head.seq and entry.hash != self._head.hash:
            self._found(seq, "is not the entry that was written: the note beside it differs")

    def _found(self, seq: int, text: str) -> None:
        self._findings.append(AuditFinding(seq, text))


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
