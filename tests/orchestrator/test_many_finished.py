"""Thousands of lifecycles that are over cost a start and a listing little."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from bench.finished import fill
from lifecycle.machine.states import Accepted, Reason, Rejected, Tally
from lifecycle.paths import Paths
from lifecycle.store import damage, peek

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from lifecycle.machine.states import State
    from lifecycle.record import AgentLifecycle
    from tests.orchestrator.loopkit import World

MANY = 5000


def some_given_up(number: int) -> State:
    tally = Tally(attempt=2, spawn_count=2)
    if number % 1000 == 0:
        return Rejected(tally=tally, reason=Reason.MAX_RETRIES, text="out of retries")
    if number % 2:
        return Rejected(tally=tally, reason=Reason.PERSON, text="no")
    return Accepted(tally=tally, commit="0" * 40)


def test_ps_reads_a_page_and_not_all_that_is_over(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Paths.of(world.repo).database
    asyncio.run(fill(database, MANY))
    read, plain = [0], peek._plain  # each row passes there

    def counted(row: tuple[Any, ...]) -> dict[str, Any]:
        read[0] += 1
        return plain(row)

    monkeypatch.setattr(peek, "_plain", counted)
    first = world.json("ps")
    assert len(first["lifecycles"]) == 50
    assert read[0] < 200
    second = world.json("ps", "--cursor", str(first["next_cursor"]))
    assert len(second["lifecycles"]) == 50
    ids = [row["agent_id"] for page in (first, second) for row in page["lifecycles"]]
    assert len(set(ids)) == 100


def test_ps_finds_the_few_that_a_person_has_to_see_among_all_that_are_over(world: World) -> None:
    asyncio.run(fill(Paths.of(world.repo).database, MANY, some_given_up))
    shown = world.json("ps", "--limit", "3")
    assert [row["agent_id"] for row in shown["lifecycles"]] == [
        "agent-T4000", "agent-T3000", "agent-T2000",
    ]  # fmt: skip
    rest = world.json("ps", "--cursor", str(shown["next_cursor"]))
    assert [row["agent_id"] for row in rest["lifecycles"]] == ["agent-T1000", "agent-T0"]
    assert rest["next_cursor"] is None


def test_a_start_reads_no_record_that_is_over(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(fill(Paths.of(world.repo).database, MANY, some_given_up))
    read, whole = [0], damage.row_record  # type: ignore[attr-defined]  # as it is called there

    def counted(row: Sequence[Any]) -> AgentLifecycle:
        read[0] += 1
        return whole(row)

    monkeypatch.setattr(damage, "row_record", counted)
    world.call("up", "--no-server")
    assert read[0] < 10
