"""Separates records that cannot be read from those that can, so that one does not block others.

Owns how a damaged record is recognized and described. Must not change or remove one.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lifecycle.errors import StoreDamagedError, StoreError, StoreFromNewerVersionError
from lifecycle.machine.frozen import frozen
from lifecycle.record import AgentLifecycle, RecordPage
from lifecycle.store.rows.records import COLUMNS, row_record, storable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lifecycle.store.rows.records import Row

_KNOWN = ("agent_id", "task_id", "birth", "created_at", "updated_at", "cursor")


@frozen
class Damaged:
    """What is known of an unreadable record: its columns other than the documents."""

    agent_id: str
    task_id: str
    birth: str
    state: str
    """The coarse state, as stored."""
    created_at: float
    updated_at: float
    cursor: int
    problem: str
    """What is wrong with it."""


@frozen
class Listed(RecordPage):
    """A page of records; unreadable ones count as part of it."""

    damaged: tuple[Damaged, ...] = ()

    @property
    def named(self) -> tuple[AgentLifecycle | Damaged, ...]:
        """All of them, for callers that need names only."""
        return (*self.records, *self.damaged)


class RecordDamagedError(StoreDamagedError):
    """One record cannot be read; the database and all other records are intact."""

    def __init__(self, damaged: Damaged) -> None:
        self.damaged = damaged
        super().__init__(
            f"the record of {damaged.agent_id} is damaged ({damaged.problem}); it was not "
            "changed, and is skipped until it is repaired: `loopwright doctor` says how"
        )


Sifted = tuple[list[AgentLifecycle], list[Damaged]]


def record_of(row: Sequence[Any]) -> AgentLifecycle:
    """Return the record of a row, or raise RecordDamagedError.

    One that a newer version wrote is not damaged: StoreFromNewerVersionError stands.
    """
    try:
        return row_record(row)
    except StoreFromNewerVersionError:
        problem = _contradiction(row)
        if not problem:
            raise
    except (StoreError, ValueError) as found:
        cause = found.__cause__
        problem = str(found) if cause is None else f"{type(cause).__name__}: {cause}"
    raise RecordDamagedError(_damaged(row, problem))


def damage_of(record: AgentLifecycle, problem: Exception) -> Exception:
    """Return an error about one record as its damage, unless the whole database failed."""
    whole = isinstance(problem.__cause__, sqlite3.Error)
    if whole or not isinstance(problem, (StoreDamagedError, LookupError, ValueError)):
        return problem
    values = {name: getattr(record, name) for name in _KNOWN}
    text = " ".join(f"{type(problem).__name__}: {problem}".split())
    return RecordDamagedError(Damaged(**values, state=record.state.value, problem=storable(text)))


def sift(rows: Iterable[Sequence[Any]]) -> Sifted:
    """Return the records of these rows, and separately the damaged ones."""
    records, damaged = list[AgentLifecycle](), list[Damaged]()
    for row in rows:
        try:
            records.append(record_of(row))
        except RecordDamagedError as found:
            damaged.append(found.damaged)
    return records, damaged


def as_page(rows: Sequence[Row], limit: int) -> Listed:
    """Return the page of these rows; a row more than the limit means that another page follows."""
    records, damaged = sift(rows[:limit])
    following = rows[limit - 1][0] if len(rows) > limit else None
    return Listed(records=tuple(records), damaged=tuple(damaged), next_cursor=following)


def _damaged(row: Sequence[Any], problem: str) -> Damaged:
    values = dict(zip(COLUMNS, row, strict=True))
    known = {name: values[name] for name in _KNOWN}
    return Damaged(**known, state=values["coarse"], problem=storable(problem))


def _contradiction(row: Sequence[Any]) -> str:
    """Tell damage from a newer version, which names the state alike in both columns."""
    values = dict(zip(COLUMNS, row, strict=True))
    with suppress(ValueError, TypeError, KeyError):
        named = json.loads(str(values["work"]))["kind"]
        if named != values["work_kind"]:
            return (
                f"its state is named {named!r} in one place and {values['work_kind']!r} in another"
            )
    return ""
