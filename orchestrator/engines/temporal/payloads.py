"""What travels through Temporal, and its form: the one JSON form, bounded in size.

A value larger than `MOST_BYTES` is refused where it is sent: history is no place for it. Pure; the
workflow's sandbox lets it through.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import accumulate, islice, takewhile
from typing import TYPE_CHECKING, Any, get_args, get_origin

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    EncodingPayloadConverter,
)

from lifecycle.drive import WorkingCopy
from lifecycle.json_form import decode, encode
from lifecycle.machine.events import Event
from lifecycle.owner.decider import Beginning, TooLargeToTravelError
from lifecycle.record import AgentLifecycle, AttemptRow, JournalEntry, PendingEffect, Transaction

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_BYTES = 64 * 1024


MOST_TOGETHER, BYTES_TOGETHER = 8, 48 * 1024
"""Commits that are kept by one call, at most; a larger one is kept alone."""


def together(commits: Iterable[Transaction]) -> tuple[Transaction, ...]:
    """Return the first commits, as many as one call may hold; at least one."""
    sizes = accumulate(len(encode(each)) for each in commits)
    fit = sum(1 for _ in takewhile(lambda so_far: so_far <= BYTES_TOGETHER, sizes))
    return tuple(islice(commits, min(max(fit, 1), MOST_TOGETHER)))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowStart:
    """What a workflow begins with."""

    beginning: Beginning
    project: str
    lease: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepCall:
    """Commits on one lifecycle, in their order."""

    agent_id: str
    commits: tuple[Transaction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitCall:
    """A lifecycle that a worker gets."""

    assignment_id: str
    copy: WorkingCopy
    work: dict[str, Any]
    """What the worker has to know beside it."""
    lease: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedCall:
    """A worker has an assignment."""

    assignment_id: str
    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderCall:
    """One order to the worker that has the assignment, with what was decided since the last."""

    assignment_id: str
    order: PendingEffect
    record: AgentLifecycle
    journal: tuple[JournalEntry, ...] = ()
    row: AttemptRow | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReclaimCall:
    """Make sure that nothing of a lost attempt is alive, and find what it left to say."""

    assignment_id: str
    attempt: int
    marks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderAnswer:
    """What came of an order, if anything is to be told."""

    event: Event | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportCall:
    """What happened during an assignment, without an order."""

    assignment_id: str
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowEnd:
    """How a workflow ended: orders that are carried out, and of which no commit told."""

    effects: tuple[str, ...] = ()


class _JsonForm(EncodingPayloadConverter):
    """The one form of all values."""

    @property
    def encoding(self) -> str:
        """The name that payloads bear."""
        return "json/loopwright"

    def to_payload(self, value: Any) -> Payload:
        """Return the payload of a value; TooLargeToTravelError when it may not travel."""
        data = encode(value).encode()
        if len(data) > MOST_BYTES:
            raise TooLargeToTravelError(
                f"a {type(value).__name__} of {len(data)} bytes may not travel; {MOST_BYTES} are "
                "the most"
            )
        return Payload(metadata={"encoding": self.encoding.encode()}, data=data)

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """Return the value of a payload."""
        text = payload.data.decode()
        if type_hint is None or (get_origin(type_hint) and not get_args(type_hint)):
            return json.loads(text)
        return decode(type_hint, text)


class JsonFormConverter(CompositePayloadConverter):
    """Converts values by the one JSON form."""

    def __init__(self) -> None:
        """Know one form, and no other."""
        super().__init__(_JsonForm())


CONVERTER = DataConverter(payload_converter_class=JsonFormConverter)
