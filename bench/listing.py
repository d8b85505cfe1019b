"""A page of 50 lifecycles among 100,000 records, against the same among 1,000."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

from bench.measure import BURST, Options, Row, best, script
from bench.world import facts_like, world
from lifecycle.machine.states import Coarse
from lifecycle.record import AgentLifecycle, Filter
from lifecycle.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

PAGE = 50
AT_ONCE = 500
STATES = (Coarse.RUNNING, Coarse.COMPLETED, Coarse.REJECTED, Coarse.ACCEPTED)


async def _filled(path: Path, count: int) -> SqliteStore:
    store = await SqliteStore.open(path)
    for first in range(0, count, AT_ONCE):
        await asyncio.gather(
            *(
                store.create(
                    AgentLifecycle(
                        agent_id=f"agent-{number}",
                        task=f"Task {number}",
                        task_id=f"T{number}",
                        state=STATES[number % len(STATES)],
                        tags=("nightly",) if number % 7 == 0 else (),
                        created_at=float(number),
                        facts=facts_like(f"T{number}"),
                    )
                )
                for number in range(first, min(first + AT_ONCE, count))
            )
        )
    return store


async def _pages(
    store: SqliteStore, count: int, which: Filter, chance: random.Random
) -> list[float]:
    times = []
    for _ in range(BURST):
        cursor = chance.randrange(count // 2, count)
        began = time.perf_counter()
        page = await store.list(which, cursor=cursor, limit=PAGE)
        times.append(time.perf_counter() - began)
        if len(page.records) != PAGE:
            raise RuntimeError(f"a page of {len(page.records)} records")
    return times


def _p95(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


async def measure(options: Options) -> list[Row]:
    """Measure pages at any place of the list, of all records and of one state."""
    few, many = 1000, 10_000 if options.quick else 100_000
    chance = random.Random(1)  # noqa: S311  # the same places each time
    with world() as made:
        small = await _filled(made.root / "small.db", few)
        large = await _filled(made.root / "large.db", many)

        async def attempt(which: Filter, name: str) -> Row:
            mine: list[float] = []
            theirs: list[float] = []
            for _ in range(options.rounds(300)):
                theirs += await _pages(small, few, which, chance)
                mine += await _pages(large, many, which, chance)
            p95, floor = _p95(mine), _p95(theirs)
            ratio = p95 / floor
            return Row(
                what=f"list {name}, page of {PAGE} at {many:,} records, p95",
                against="at 1,000 records",
                ours=f"{p95 * 1000:.2f} ms",
                floor=f"{floor * 1000:.2f} ms",
                ratio=ratio,
                reach="<= 1.5x, < 100 ms",
                ok=ratio <= 1.5 and p95 < 0.1,
                badness=max(ratio / 1.5, p95 / 0.1),
                samples=len(mine),
            )

        rows = []
        for which, name in (
            (Filter(), "all"),
            (Filter(states=(Coarse.RUNNING, Coarse.COMPLETED)), "two states"),
        ):
            rows.append(await best(lambda which=which, name=name: attempt(which, name)))  # type: ignore[misc]  # bound at once
        await small.aclose()
        await large.aclose()
        return rows


if __name__ == "__main__":
    script(measure)
