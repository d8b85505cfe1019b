"""A runner goes on beside a record that it cannot read, names it, and never touches it."""

from __future__ import annotations

import asyncio

import pytest

from lifecycle.admission.program_limits import ProgramLimits
from lifecycle.base_commits import BaseCommits
from lifecycle.machine.states import Tally, UnavailableProgram, Working
from lifecycle.plan import Agent, Task
from lifecycle.result import LoopResultType
from lifecycle.store.damaged_records import RecordDamagedError
from lifecycle.store.sqlite.store import SqliteStore
from runtime.branches import BranchManager
from tests.lifecycle.engine.runner_process import killed
from tests.lifecycle.store.damaging import NO_JSON, damage, garble, stored
from tests.lifecycle.store.samples import COMPLETED, PROCESS, begun
from tests.lifecycle.world import AGENT, DONE, HANG, PATIENCE, World

OTHER = "agent-T002"


async def test_one_damaged_record_keeps_no_other_from_running(world: World) -> None:
    await killed(world, [{"write": {"path": "up.txt"}}, HANG], "up.txt")
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
        {"agent_id": AGENT, "reason": "invalid UTF-8 in work"}
    ]
    assert stored(world.paths.database, AGENT) == before
    assert (world.workspace / "up.txt").exists()
    # Its agent outlived its runner, and nobody could attend to it.
    assert world.marked() == []


async def test_the_board_learns_from_all_but_the_damaged(world: World) -> None:
    async with await SqliteStore.open(world.paths.database) as store:
        for name in ("a", "b", "c"):
            await _limited(store, name)
        damage(world.paths.database, "a", NO_JSON)
        damage(world.paths.database, "b", {"facts": '{"agemt":{}}'})
        program_limits = ProgramLimits()

        await program_limits.learn(store)

    assert [_program_known(program_limits, name) for name in ("a", "b", "c")] == [
        False,
        False,
        True,
    ]


async def _limited(store: SqliteStore, name: str) -> None:
    resting = (UnavailableProgram(program="claude", why="rate_limit", until=10.0),)
    work = Working(process=PROCESS, since=1.0, tally=Tally(resting=resting))
    facts = {"agent": _agent(name).model_dump(mode="json")}
    await begun(store, name, work=work, facts=facts)


def _agent(name: str) -> Agent:
    return Agent(agent_id=f"agent-{name}", adapter="claude", env={"HOME": f"/{name}"})


def _program_known(program_limits: ProgramLimits, name: str) -> bool:
    return bool(program_limits.resting(_agent(name), 5.0))


async def test_nobody_starts_without_the_work_of_a_damaged_dependency(world: World) -> None:
    async with await SqliteStore.open(world.paths.database) as store:
        # An older lifecycle of the same task must not stand in for it.
        await begun(store, "older", task_id="T001", work=COMPLETED)
        await begun(store, "newer", task_id="T001", work=COMPLETED)
        damage(world.paths.database, "newer", NO_JSON)
        base_commits = BaseCommits(store, BranchManager(world.repo))

        with pytest.raises(RecordDamagedError, match="record of newer"):
            await base_commits.start_of(Task(id="T002", title="On top", dependencies=("T001",)))
