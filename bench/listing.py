"""A page of 50 lifecycles among 100,000 records, against the same among 1,000."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from bench.measure import Options, Row, best, burst, in_turns, pages_compared, script
from bench.world import facts_like, fill, world
from lifecycle.machine.states import AgentState
from lifecycle.record import AgentLifecycle, Filter
from lifecycle.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

PAGE = 50
STATES = (AgentState.RUNNING, AgentState.COMPLETED, AgentState.REJECTED, AgentState.ACCEPTED)


async def _filled(path: Path, count: int) -> SqliteStore:
    store = await SqliteStore.open(path)
    await fill(lambda number: store.create(_record(number)), count)
    return store


def _record(number: int) -> AgentLifecycle:
    return AgentLifecycle(
        agent_id=f"agent-{number}",
        task=f"Task {number}",
        task_id=f"T{number}",
        state=STATES[number % len(STATES)],
        tags=("nightly",) if number % 7 == 0 else (),
        created_at=float(number),
        facts=facts_like(f"T{number}"),
    )


async def _page(store: SqliteStore, count: int, which: Filter, chance: random.Random) -> None:
    page = await store.list(which, cursor=chance.randrange(count // 2, count), limit=PAGE)
    if len(page.records) != PAGE:
        raise RuntimeError(f"a page of {len(page.records)} records")


async def measure(options: Options) -> list[Row]:
    """Measure pages at any place of the list, of all records and of one state."""
    few, many = 1000, 10_000 if options.quick else 100_000
    chance = random.Random(1)  # noqa: S311  # the same places each time
    with world() as made:
        small = await _filled(made.root / "small.db", few)
        large = await _filled(made.root / "large.db", many)

        async def attempt(which: Filter, name: str) -> Row:
            mine, theirs = await in_turns(
                lambda: burst(lambda: _page(large, many, which, chance)),
                lambda: burst(lambda: _page(small, few, which, chance)),
                options.rounds(300),
            )
            return pages_compared(
                what=f"list {name}, page of {PAGE} at {many:,} records",
                against="at 1,000 records",
                mine=mine,
                theirs=theirs,
                at_most=1.5,
                reach="<= 1.5x, < 100 ms",
                within=0.1,
            )

        rows = []
        for which, name in (
            (Filter(), "all"),
            (Filter(states=(AgentState.RUNNING, AgentState.COMPLETED)), "two states"),
        ):
            rows.append(await best(lambda which=which, name=name: attempt(which, name)))  # type: ignore[misc]  # bound at once
        await small.aclose()
        await large.aclose()
        return rows


if __name__ == "__main__":
    script(measure)
