"""A runner goes on beside a record that it cannot read, names it, and never touches it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lifecycle.admission import Board
from lifecycle.bases import Bases
from lifecycle.machine.states import Resting, Tally, Working
from lifecycle.plan import Agent, Task
from lifecycle.result import LoopResultType
from lifecycle.store.damage import RecordDamagedError
from lifecycle.store.memory import MemoryStore
from lifecycle.store.sqlite import SqliteStore
from runtime.branches import BranchManager
from tests.lifecycle.test_recovery import UP, _killed
from tests.lifecycle.world import AGENT, DONE, HANG, PATIENCE, World
from tests.store.damaging import NO_JSON, damage, garble, stored
from tests.store.samples import COMPLETED, PROCESS, begun

if TYPE_CHECKING:
    from lifecycle.store.port import LifecycleStore

OTHER = "agent-T002"


async def test_one_damaged_record_keeps_no_other_from_running(world: World) -> None:
    await _killed(world, [UP, HANG], "up.txt")
    assert world.marked() != []
    garble(world.paths.database, AGENT, "work")
    before = stored(world.paths.database, AGENT)
    said: list[tuple[str, dict[str, object]]] = []

    async with await SqliteStore.open(world.paths.database) as store:
        loop = world.loop(store=store)
        loop._report = lambda event, /, **fields: said.append((event, fields))
        run = loop.run_agent_loop(world.agent([DONE], OTHER), world.task("T002"))
        result = await asyncio.wait_for(run, PATIENCE)

    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert [fields for event, fields in said if event == "lifecycle_record_damaged"] == [
        {"agent_id": AGENT, "reason": "no UTF-8 in work"}
    ]
    assert stored(world.paths.database, AGENT) == before
    assert (world.workspace / "up.txt").exists()
    # Its agent outlived its runner, and nobody could attend to it.
    assert world.marked() == []


async def test_the_board_learns_from_all_but_the_damaged(world: World) -> None:
    store = MemoryStore()
    for name in ("a", "b", "c"):
        await _limited(store, name)
    damage(store, world.paths.database, "a", NO_JSON)
    damage(store, world.paths.database, "b", {"facts": '{"agemt":{}}'})
    board = Board()

    await board.learn(store)

    assert [_program_known(board, name) for name in ("a", "b", "c")] == [False, False, True]


async def _limited(store: LifecycleStore, name: str) -> None:
    resting = (Resting(program="claude", why="rate_limit", until=10.0),)
    work = Working(process=PROCESS, since=1.0, tally=Tally(resting=resting))
    facts = {"agent": _agent(name).model_dump(mode="json")}
    await begun(store, name, work=work, facts=facts)


def _agent(name: str) -> Agent:
    return Agent(agent_id=f"agent-{name}", adapter="claude", env={"HOME": f"/{name}"})


def _program_known(board: Board, name: str) -> bool:
    return bool(board.resting(_agent(name), 5.0))


async def test_nobody_starts_without_the_work_of_a_damaged_dependency(world: World) -> None:
    store = MemoryStore()
    # An older lifecycle of the same task must not stand in for it.
    await begun(store, "older", task_id="T001", work=COMPLETED)
    await begun(store, "newer", task_id="T001", work=COMPLETED)
    damage(store, world.paths.database, "newer", NO_JSON)
    bases = Bases(store, BranchManager(world.repo))

    with pytest.raises(RecordDamagedError, match="record of newer"):
        await bases.start_of(Task(id="T002", title="On top", dependencies=("T001",)))
