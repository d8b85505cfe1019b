"""Lifecycles that are over cost a start, a listing and a runner that stays next to nothing."""

from __future__ import annotations

import asyncio
import gc
import os
from collections import Counter
from contextvars import Context
from typing import TYPE_CHECKING, Any

from bench.finished import finish
from bench.growth import Feeding, grow
from lifecycle.machine.states import Accepted, Reason, Rejected, Tally
from lifecycle.paths import Paths
from lifecycle.store import damaged_records, plain_queries
from orchestrator.web.live import board_state, hub

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    import pytest

    from lifecycle.machine.states import State
    from tests.orchestrator.loopkit import World

MANY = 2000
FIRST, LAST = 20, 60
CACHED = {"PosixPath", "list", "ReferenceType"}
"""Of caches that have a bound, far above what a test gets to."""


def spent(each: object) -> bool:
    """Tell what a timer that was cancelled leaves: asyncio keeps up to a hundred of them."""
    return isinstance(each, Context) or (isinstance(each, asyncio.TimerHandle) and each.cancelled())


def some_given_up(number: int) -> State:
    tally = Tally(attempt=2, spawn_count=2)
    if number % 400 == 0:
        return Rejected(tally=tally, reason=Reason.MAX_RETRIES, text="out of retries")
    if number % 2:
        return Rejected(tally=tally, reason=Reason.PERSON, text="no")
    return Accepted(tally=tally, commit="0" * 40)


def counted(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> list[int]:
    """Count the calls of a function from now on."""
    calls, real = [0], getattr(module, name)

    def call(row: Any) -> Any:
        calls[0] += 1
        return real(row)

    monkeypatch.setattr(module, name, call)
    return calls


def test_ps_reads_a_page_and_not_all_that_is_over(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Paths.of(world.repo).database
    asyncio.run(finish(database, MANY))
    read = counted(monkeypatch, plain_queries, "_plain")  # each row passes there
    first = world.json("ps")
    assert len(first["lifecycles"]) == 50
    assert read[0] < 200
    second = world.json("ps", "--cursor", str(first["next_cursor"]))
    assert len(second["lifecycles"]) == 50
    ids = [row["agent_id"] for page in (first, second) for row in page["lifecycles"]]
    assert len(set(ids)) == 100


def test_ps_finds_the_few_that_a_person_has_to_see_among_all_that_are_over(world: World) -> None:
    asyncio.run(finish(Paths.of(world.repo).database, MANY, some_given_up))
    shown = world.json("ps", "--limit", "3")
    assert [row["agent_id"] for row in shown["lifecycles"]] == [
        "agent-T1600", "agent-T1200", "agent-T800",
    ]  # fmt: skip
    rest = world.json("ps", "--cursor", str(shown["next_cursor"]))
    assert [row["agent_id"] for row in rest["lifecycles"]] == ["agent-T400", "agent-T0"]
    assert rest["next_cursor"] is None


def test_a_start_reads_no_record_that_is_over(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(finish(Paths.of(world.repo).database, MANY, some_given_up))
    read = counted(monkeypatch, damaged_records, "row_record")
    world.call("up", "--no-server")
    assert read[0] < 10


async def test_a_runner_that_stays_keeps_next_to_nothing_of_what_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "KEPT", 20)
    monkeypatch.setattr(board_state, "MOST_ENDED", 5)
    kept: list[Counter[str]] = []

    def reached(count: int) -> None:
        del count
        gc.collect()
        kept.append(Counter(type(each).__name__ for each in gc.get_objects() if not spent(each)))

    ending = await grow(tmp_path, os.environ, Feeding([FIRST, LAST], reached))

    more = kept[1] - kept[0]
    each = {kind for kind, count in more.items() if count > (LAST - FIRST) / 2}
    assert each - CACHED == set()
    assert ending.results == {}
    assert ending.records == {}
