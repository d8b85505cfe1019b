"""A worker as the coordinator knows it, and its row of plain values."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any

from lifecycle.store.rows.records import from_json, storable, to_json

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """One machine that takes work of this repository, as it was heard of last."""

    name: str
    machine: str
    """Its id (`runtime.machine_id`)."""
    version: str
    """Of Loopwright."""
    labels: tuple[str, ...] = ()
    slots: int
    """How many agents it runs at once."""
    programs: tuple[str, ...] = ()
    """Agent programs that are installed there, by the names that plans give them."""
    lacks: tuple[str, ...] = ()
    """What was found missing, each in words for people."""
    clock_offset: float = 0.0
    """Seconds that its clock is ahead of the coordinator's."""
    lease: float
    """Seconds without a sign of life after which others take its work."""
    draining: bool = False
    """It takes no new work."""
    seen_at: float
    """By the coordinator's clock."""

    def is_silent(self, present: float) -> bool:
        """Tell whether it was not heard of for a lease."""
        return present - self.seen_at > self.lease


COLUMNS = tuple(field.name for field in fields(WorkerRow))
_LISTS = frozenset(("labels", "programs", "lacks"))


def row_of_worker(worker: WorkerRow) -> tuple[Any, ...]:
    """Return the values of a worker in the order of `COLUMNS`."""
    return tuple(map(_stored, astuple(worker)))


def worker_of_row(row: Sequence[Any]) -> WorkerRow:
    """Return the worker of its values."""
    values = dict(zip(COLUMNS, row, strict=True))
    for name in _LISTS:
        values[name] = tuple(map(str, from_json(values[name])))
    return WorkerRow(**values | {"draining": bool(values["draining"])})


def _stored(value: Any) -> Any:
    if isinstance(value, tuple):
        return to_json(list(value))
    return storable(value) if isinstance(value, str) else value
