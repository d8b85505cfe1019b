"""`InstanceStore` in memory, beside a `MemoryStore`."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

from lifecycle.store.instances import (
    ENDED,
    InstanceFilter,
    InstanceRow,
    Tally,
    TooManyInstancesError,
    check_listing,
)
from lifecycle.store.instances_attempts import (
    LEDGER_COLUMNS,
    LIFECYCLE_COLUMNS,
    Attempt,
    as_instance,
)
from lifecycle.store.instances_rows import CHANGING
from lifecycle.store.rows import ATTEMPT_COLUMNS, COARSE, COLUMNS, check_count, from_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    from lifecycle.store.instances import EventRow
    from lifecycle.store.memory import MemoryStore
    from lifecycle.store.rows import Row

_CURRENT, _WORK = COLUMNS.index("attempt"), COLUMNS.index("work")
_READ = [COLUMNS.index(name) for name in LIFECYCLE_COLUMNS]
_LEDGER = [ATTEMPT_COLUMNS.index(name) for name in LEDGER_COLUMNS]
_OF_CHANGES = attrgetter(*CHANGING)


class MemoryInstances:
    """Instances that are gone with their process."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._rows: dict[UUID, InstanceRow] = {}
        self._events: dict[UUID, list[EventRow]] = {}

    async def save(
        self, row: InstanceRow, events: Sequence[EventRow] = (), *, at_most: int | None = None
    ) -> None:
        """Write an instance, new or changed, with events."""
        found = self._rows.get(row.id)
        if at_most is not None and (found is None or found.terminated_at is not None):
            active = await self.active()
            if active >= at_most:
                raise TooManyInstancesError(active, at_most)
        self._save(row, events)

    def begin(self, row: InstanceRow, events: Sequence[EventRow] = ()) -> asyncio.Future[None]:
        """Do as `save` does."""
        self._save(row, events)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def _save(self, row: InstanceRow, events: Sequence[EventRow]) -> None:
        self._store._open()  # noqa: SLF001  # closed together
        found = self._rows.get(row.id)
        if found is not None:
            row = replace(found, **dict(zip(CHANGING, _OF_CHANGES(row), strict=True)))
        self._rows[row.id] = row
        self._events.setdefault(row.id, []).extend(events)

    async def get(self, instance_id: UUID) -> InstanceRow | None:
        """Return an instance of either kind."""
        self._store._open()  # noqa: SLF001  # as above
        found = self._rows.get(instance_id)
        if found is not None:
            return found
        return next((row for row in self._attempts() if row.id == instance_id), None)

    async def list(self, which: InstanceFilter) -> tuple[InstanceRow, ...]:
        """Return the instances that fit, the youngest first."""
        self._store._open()  # noqa: SLF001  # as above
        check_listing(which)
        fitting = [row for row in self._all() if _fits(row, which)]
        fitting.sort(key=_place, reverse=True)
        return tuple(fitting[which.offset : which.offset + which.limit])

    async def active(self) -> int:
        """Count those of either kind that have not ended."""
        self._store._open()  # noqa: SLF001  # as above
        return sum(row.terminated_at is None for row in self._all())

    async def live_rows(self) -> tuple[InstanceRow, ...]:
        """Return all with rows of their own that are not known to have ended, oldest first."""
        self._store._open()  # noqa: SLF001  # as above
        live = [row for row in self._rows.values() if row.terminated_at is None]
        return tuple(sorted(live, key=_place))

    async def events(self, instance_id: UUID, *, limit: int = 1000) -> tuple[EventRow, ...]:
        """Return the last events of an instance in the order in which they were written."""
        self._store._open()  # noqa: SLF001  # as above
        check_count(limit)
        return tuple(self._events.get(instance_id, ())[-limit:])

    async def tally(self, owner_id: UUID | None = None) -> Tally:
        """Count all instances, or those of one owner."""
        self._store._open()  # noqa: SLF001  # as above
        rows = [row for row in self._all() if owner_id in (None, row.owner_id)]
        ends = [(row.created_at, row.terminated_at) for row in rows if row.terminated_at]
        return Tally(
            by_state=Counter(row.state for row in rows),
            by_health=Counter(row.health_state for row in rows if row.terminated_at is None),
            ended=len(ends),
            lived=sum(end - begin for begin, end in ends),
            restarts=sum(row.restarts_total for row in rows),
        )

    async def prune(self, before: float, *, limit: int = 1000) -> tuple[UUID, ...]:
        """Forget instances with rows of their own that ended before an instant."""
        self._store._open()  # noqa: SLF001  # as above
        old = sorted(
            (row.terminated_at, row.id)
            for row in self._rows.values()
            if row.terminated_at is not None and row.terminated_at < before
        )
        gone = tuple(instance_id for _, instance_id in old[:limit])
        for instance_id in gone:
            del self._rows[instance_id]
            self._events.pop(instance_id, None)
        return gone

    def _all(self) -> Iterator[InstanceRow]:
        yield from self._rows.values()
        yield from self._attempts()

    def _attempts(self) -> Iterator[InstanceRow]:
        for agent_id, record in self._store._records.items():  # noqa: SLF001  # as above
            ledger = self._store._of(agent_id).attempts  # noqa: SLF001  # as above
            for row in ledger.values():
                yield as_instance(_attempt(record, row))
            begun = _attempt(record, None)
            if begun.current not in ledger and begun.is_live:
                yield as_instance(begun)


def _attempt(record: Row, row: Row | None) -> Attempt:
    running = record[COARSE] == "running"
    ledger = [None] * len(_LEDGER) if row is None else [row[place] for place in _LEDGER]
    work = record[_WORK]
    told = from_json(work) if work is not None else {}
    shut = (bool(told.get("frozen")), told.get("containment", ""))
    head = (*(record[place] for place in _READ), record[_CURRENT], running, *shut)
    return Attempt._make((*head, *ledger))


def _place(row: InstanceRow) -> tuple[float, str]:
    return row.created_at, str(row.id)


def _fits(row: InstanceRow, which: InstanceFilter) -> bool:
    if not which.states and not which.ended and row.state in ENDED:
        return False
    name = "" if which.name_pattern is None else re.escape(which.name_pattern).replace(r"\*", ".*")
    return (
        (not which.states or row.state in which.states)
        and which.health_state in (None, row.health_state)
        and (which.tag is None or which.tag.lower() in {tag.lower() for tag in row.tags})
        and which.definition_id in (None, row.definition_id)
        and which.owner_id in (None, row.owner_id)
        and (which.name_pattern is None or re.fullmatch(name, row.name, re.DOTALL) is not None)
    )
