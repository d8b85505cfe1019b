"""Records that cannot be read, kept apart from those that can: one of them stops no other.

Owns how a damaged record is told and told of. Must not change or remove one.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lifecycle.errors import StoreDamagedError, StoreError, StoreFromNewerVersionError
from lifecycle.record import AgentLifecycle, Page
from lifecycle.store.rows import COLUMNS, row_record, storable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lifecycle.store.rows import Row

_KNOWN = ("agent_id", "task_id", "birth", "created_at", "updated_at", "cursor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """What is known of a record that cannot be read: the columns beside its documents."""

    agent_id: str
    task_id: str
    birth: str
    state: str
    """The coarse one, as it is stored."""
    created_at: float
    updated_at: float
    cursor: int
    problem: str
    """What is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed(Page):
    """A page, of which some records may not be readable; they count as part of it."""

    damaged: tuple[Damaged, ...] = ()

    @property
    def named(self) -> tuple[AgentLifecycle | Damaged, ...]:
        """All of it, for who wants to know names only."""
        return (*self.records, *self.damaged)


class RecordDamagedError(StoreDamagedError):
    """One record cannot be read; the database and all others are as they should be."""

    def __init__(self, damaged: Damaged) -> None:
        self.damaged = damaged
        super().__init__(
            f"the record of {damaged.agent_id} is damaged ({damaged.problem}); nothing of it was "
            "changed, and it is left out until it is mended: `loopwright doctor` says how"
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
    """Return what keeps a record from being used as its own damage, unless it is the database's."""
    whole = isinstance(problem.__cause__, sqlite3.Error)
    if whole or not isinstance(problem, (StoreDamagedError, LookupError, ValueError)):
        return problem
    values = {name: getattr(record, name) for name in _KNOWN}
    text = " ".join(f"{type(problem).__name__}: {problem}".split())
    return RecordDamagedError(Damaged(**values, state=record.state.value, problem=storable(text)))


def sift(rows: Iterable[Sequence[Any]]) -> Sifted:
    """Return the records of these rows, and apart from them what cannot be read."""
    records, damaged = list[AgentLifecycle](), list[Damaged]()
    for row in rows:
        try:
            records.append(record_of(row))
        except RecordDamagedError as found:
            damaged.append(found.damaged)
    return records, damaged


def as_page(rows: Sequence[Row], limit: int) -> Listed:
    """Return the page of these rows, of which there is one too many if another page follows."""
    records, damaged = sift(rows[:limit])
    following = rows[limit - 1][0] if len(rows) > limit else None
    return Listed(records=tuple(records), damaged=tuple(damaged), next_cursor=following)


def _damaged(row: Sequence[Any], problem: str) -> Damaged:
    values = dict(zip(COLUMNS, row, strict=True))
    known = {name: values[name] for name in _KNOWN}
    return Damaged(**known, state=values["coarse"], problem=storable(problem))


def _contradiction(row: Sequence[Any]) -> str:
    """Tell damage from a newer version: that one names its state alike in both places."""
    values = dict(zip(COLUMNS, row, strict=True))
    with suppress(ValueError, TypeError, KeyError):
        named = json.loads(str(values["work"]))["kind"]
        if named != values["work_kind"]:
            return (
                f"its state is named {named!r} in one place and {values['work_kind']!r} in another"
            )
    return ""
