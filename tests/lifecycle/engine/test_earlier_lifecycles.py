"""An agent whose lifecycle is over takes up other work; the old record keeps a name of its own."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lifecycle.engine.retention import Retention
from lifecycle.errors import ConflictingUpdateError, LifecycleError
from lifecycle.machine.events import AcceptRequested, Guided, PersonEvent, RejectRequested
from lifecycle.machine.states import Accepted, Completed, Rejected
from lifecycle.record import Filter
from lifecycle.result import LoopResultType
from lifecycle.store.rows.workers import WorkerRow
from tests.lifecycle.world import AGENT, DONE, World, commit

if TYPE_CHECKING:
    from lifecycle.record import AgentLifecycle

COMPLETE = LoopResultType.TASK_COMPLETE


async def person(world: World, kind: type[PersonEvent]) -> AgentLifecycle:
    async with world.loop().opened() as engine:
        return await engine.ask(AGENT, kind(at=time.time(), by="Ada"))  # noqa: TID251  # people have clocks


async def earlier(world: World) -> list[AgentLifecycle]:
    return [each async for each in world.store.every(Filter(earlier_of=AGENT))]


async def test_an_agent_takes_its_next_task_once_its_work_is_accepted(world: World) -> None:
    await world.run([*commit("x.txt"), DONE])
    before = await person(world, AcceptRequested)

    result = await world.run([*commit("y.txt"), DONE], task=world.task("T002"))

    assert (result.result_type, result.task_id, result.spawn_count) == (COMPLETE, "T002", 1)
    record = await world.record()
    assert (record.task_id, record.changed_files) == ("T002", ["y.txt"])
    assert (world.workspace / "x.txt").exists(), "it starts from what was accepted"
    (old,) = await earlier(world)
    assert old.agent_id == before.earlier_id == f"{AGENT}@{before.birth}"
    assert isinstance(old.work, Accepted)
    assert [entry.after for entry in await world.store.journal(old.agent_id)][-1] == "Accepted"
    assert [row.attempt for row in await world.store.attempts(old.agent_id)] == [1]
    assert [row.attempt for row in await world.attempts()] == [1]
    for path_of in (world.paths.log, world.paths.summary, world.paths.snapshot):
        assert path_of(old.agent_id, 1).exists()
        assert path_of(AGENT, 1).exists()
    assert [each.agent_id async for each in world.store.every(Filter(current=True))] == [AGENT]


async def test_a_task_that_the_agent_was_accepted_for_earlier_is_done(world: World) -> None:
    await world.run([*commit("x.txt"), DONE])
    await person(world, AcceptRequested)
    await world.run([*commit("y.txt"), DONE], task=world.task("T002"))

    again = await world.run([{"exit": 1}])

    assert (again.result_type, again.agent_id, again.task_id) == (COMPLETE, AGENT, "T001")
    assert (await world.record()).task_id == "T002"


async def test_what_depends_on_an_earlier_task_of_an_agent_starts(world: World) -> None:
    await world.run([*commit("x.txt"), DONE])
    await person(world, AcceptRequested)
    await world.run([*commit("y.txt"), DONE], task=world.task("T002"))
    task = world.task("T003", dependencies=["T001"])

    result = await world.loop().run_agent_loop(world.agent([DONE], "agent-T003"), task)

    assert result.result_type is COMPLETE


async def test_what_an_earlier_lifecycle_signalled_in_a_shared_mailbox_does_not_count(
    world: World,
) -> None:
    shared = world.repo / "communications.json"
    agent = world.agent([*commit("x.txt"), DONE])
    await world.loop(comm_file=shared).run_agent_loop(agent, world.task())
    await person(world, RejectRequested)
    assert "task_complete" in shared.read_text()

    agent = world.agent({1: [*commit("y.txt"), {"exit": 1}], 2: [DONE]})
    result = await world.loop(comm_file=shared).run_agent_loop(agent, world.task())

    assert (result.result_type, result.spawn_count) == (COMPLETE, 2)
    assert await world.outcomes() == ["error", "task_complete"]


async def test_the_same_task_begins_again_after_a_persons_reject(world: World) -> None:
    await world.run([*commit("x.txt"), DONE])
    before = await person(world, RejectRequested)

    result = await world.run([*commit("y.txt"), DONE])

    assert (result.result_type, result.spawn_count) == (COMPLETE, 1)
    record = await world.record()
    assert record.birth != before.birth
    assert record.changed_files == ["y.txt"], "nothing of the rejected work is in it"
    (old,) = await earlier(world)
    assert isinstance(old.work, Rejected)
    saved = world.git("for-each-ref", f"refs/loopwright/saved/{AGENT}")
    assert saved, "what was rejected can be found still"


async def test_work_that_waits_for_a_decision_is_not_put_aside(world: World) -> None:
    await world.run([*commit("x.txt"), DONE])

    with pytest.raises(ConflictingUpdateError, match="loopwright accept agent-T001"):
        await world.run([DONE], task=world.task("T002"))

    assert isinstance(await world.work(), Completed)
    assert await earlier(world) == []


async def test_given_up_work_is_continued_and_not_put_aside(world: World) -> None:
    await world.run([{"exit": 1}], max_retries=0)

    result = await world.run([*commit("x.txt"), DONE], max_retries=1)

    assert (result.result_type, result.spawn_count) == (COMPLETE, 2)
    assert await earlier(world) == []


async def test_an_earlier_lifecycle_takes_no_requests(world: World) -> None:
    await world.run([*commit("x.txt"), DONE])
    await person(world, RejectRequested)
    await world.run([*commit("y.txt"), DONE])
    (old,) = await earlier(world)
    asked = Guided(at=time.time(), by="Ada", text="more")  # noqa: TID251  # as above

    async with world.loop().opened() as engine:
        with pytest.raises(LifecycleError, match=f"is an earlier lifecycle of {AGENT}"):
            await engine.ask(old.agent_id, asked)

    assert await earlier(world) == [old]
    assert (world.workspace / "y.txt").exists()


async def test_retention_removes_earlier_lifecycles_with_their_files_and_nothing_else(
    world: World,
) -> None:
    await world.run([*commit("x.txt"), DONE])
    await person(world, RejectRequested)
    await world.run([*commit("y.txt"), DONE])
    (old,) = await earlier(world)
    async with world.loop().opened() as engine:
        world.settings["retention_hours"] = 0
        retention = Retention(engine.machine, engine._claim)
        workers, now = engine.shared.store.workers, time.time()  # noqa: TID251  # as above
        gone = WorkerRow(name="a", machine="m", version="1", slots=1, lease=60.0, seen_at=now - 9.0)
        await workers.seen(gone)
        await workers.seen(there := replace(gone, name="b", seen_at=now + 3600.0))
        assert await retention.sweep() == (old.agent_id,)
        assert await workers.all() == (there,)

    assert await earlier(world) == []
    assert not any(path.exists() for path in world.paths.all_of(old.agent_id))
    assert (world.workspace / "y.txt").exists()
    assert isinstance(await world.work(), Completed)
