"""Later pages of `ps`: the same rows as the quick look gives, from the store's keyset listing."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from lifecycle.record import AgentState, Filter
from lifecycle.store.codec import encode
from lifecycle.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lifecycle.record import AgentLifecycle
    from lifecycle.store.damage import Damaged

_PAGE = 1000


def rows_before(  # noqa: PLR0913, PLR0917  # as `ps` has them
    database: Path,
    cursor: int,
    states: Sequence[str],
    tags: Sequence[str],
    limit: int,
    fits: Callable[[dict[str, Any]], bool],
) -> list[dict[str, Any]]:
    """Return rows that come after the cursor of an earlier page."""
    which = Filter(states=tuple(AgentState(state) for state in states), tags=tuple(tags))
    return asyncio.run(_read(database, cursor, which, limit, fits))


async def _read(
    database: Path,
    cursor: int,
    which: Filter,
    limit: int,
    fits: Callable[[dict[str, Any]], bool],
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    place: int | None = cursor
    async with await SqliteStore.open(database) as store:
        while place is not None and len(rows) < limit:
            page = await store.list(which, cursor=place, limit=_PAGE)
            found = [*map(_row, page.records), *map(_damaged, page.damaged)]
            found.sort(key=lambda row: row["cursor"], reverse=True)
            rows += [row for row in found if fits(row)]
            place = page.next_cursor
    return rows[:limit]


def _row(record: AgentLifecycle) -> dict[str, Any]:
    work = record.work
    tally = work.tally if work is not None else None
    return {
        "cursor": record.cursor,
        "agent_id": record.agent_id,
        "task_id": record.task_id,
        "coarse": record.state.value,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "work_kind": type(work).__name__ if work is not None else "",
        "attempt": tally.attempt if tally else 0,
        "retry_count": tally.retry_count if tally else 0,
        "spawn_count": tally.spawn_count if tally else 0,
        "task": record.task,
        "error": record.error,
        "tags": list(record.tags),
        "work": json.loads(encode(work)) if work is not None else None,
        "damaged": "",
    }


def _damaged(found: Damaged) -> dict[str, Any]:
    known = {name: getattr(found, name) for name in ("cursor", "agent_id", "task_id")}
    known |= {"created_at": found.created_at, "updated_at": found.updated_at}
    nothing = {"work_kind": "", "attempt": 0, "retry_count": 0, "spawn_count": 0, "task": ""}
    rest: dict[str, Any] = {"error": None, "tags": [], "work": None}
    return {**known, **nothing, **rest, "coarse": found.state, "damaged": found.problem}
