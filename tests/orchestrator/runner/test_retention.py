"""What retention removes, and what it never touches."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from lifecycle.clock import SteppedClock
from lifecycle.engine.retention import RETIRED
from lifecycle.machine.states import (
    About,
    Accepted,
    AwaitingHuman,
    Completed,
    Reason,
    Rejected,
    State,
    coarse,
)
from lifecycle.paths import Paths
from lifecycle.plan import Agent, Task
from lifecycle.record import AgentLifecycle
from lifecycle.settings import Settings
from lifecycle.store.instances import InstanceRow, new_instance_id
from tests.lifecycle.store.damaging import NO_JSON, damage, stored
from tests.orchestrator.filled import loop_of
from tests.waiting import until

if TYPE_CHECKING:
    from lifecycle.engine.engine import LocalEngine
    from lifecycle.loop import AgentLifecycleLoop
    from tests.orchestrator.loopkit import World

HOUR = 3600.0
STATES: dict[str, State] = {
    "accepted": Accepted(commit="c"),
    "rejected": Rejected(reason=Reason.ERROR, text="broken"),
    "completed": Completed(summary="done"),
    "waiting": AwaitingHuman(about=About.QUESTION, text="?", since=0.0),
}


def _loop(world: World, clock: SteppedClock, *, retention_hours: float = 24) -> AgentLifecycleLoop:
    settings = Settings(retention_hours=retention_hours)
    return loop_of(world.repo, settings=settings, clock=clock)


async def _keep(engine: LocalEngine, name: str, state: State) -> None:
    """Make a lifecycle in this state, with a workspace, a commit and logs."""
    task = Task(id=f"T-{name}", title=name)
    agent = Agent(agent_id=f"agent-{name}", command=("true",))
    machine, shared = engine.machine, engine.shared
    workspace = await machine.workspaces.prepare(agent.agent_id)
    (workspace.path / "dirty.txt").write_text("not committed\n")
    for folder in machine.paths.all_of(agent.agent_id):
        folder.mkdir(parents=True)
        (folder / "1").write_text("x")
    await shared.store.create(
        AgentLifecycle(
            agent_id=agent.agent_id, task=name, task_id=task.id, work=state, state=coarse(state),
            updated_at=shared.clock.now(), created_at=shared.clock.now(),
            facts={"task": task.model_dump(mode="json"), "agent": agent.model_dump(mode="json")},
        )
    )  # fmt: skip


async def _names(engine: LocalEngine) -> set[str]:
    return {record.task for record in (await engine.shared.store.list()).records}


async def _until_gone(engine: LocalEngine, names: set[str]) -> None:
    async def gone() -> bool:
        return not await _names(engine) & names

    await until(gone, f"{names} are gone")


async def test_old_accepted_and_rejected_ones_go_with_all_they_had_and_nothing_else(
    world: World,
) -> None:
    clock = SteppedClock()
    async with _loop(world, clock).opened() as engine:
        for name, state in STATES.items():
            await _keep(engine, name, state)
        clock.advance(23 * HOUR)
        await _keep(engine, "young", STATES["accepted"])
        clock.advance(2 * HOUR)
        await _until_gone(engine, {"accepted", "rejected"})
        assert await _names(engine) == {"completed", "waiting", "young"}
        assert set(await engine.shared.store.all(RETIRED)) == {"T-accepted"}
    kept = {"agent/agent-completed", "agent/agent-waiting", "agent/agent-young"}
    assert set(world.branches()) == {"main", *kept}
    paths = Paths.of(world.repo)
    for name in STATES:
        gone = name in ("accepted", "rejected")
        worktree = world.workspace(f"agent-{name}")
        for folder in (*paths.all_of(f"agent-{name}"), worktree):
            assert folder.exists() is not gone, folder
    saved = world.git("for-each-ref", "--format=%(refname)", "refs/loopwright/saved").split()
    assert {ref.split("/")[3] for ref in saved} == {"agent-accepted", "agent-rejected"}


async def test_instances_that_ended_go_with_their_folders_and_those_alive_stay(
    world: World,
) -> None:
    clock = SteppedClock()
    folder = Paths.of(world.repo).instances
    async with _loop(world, clock).opened() as engine:
        instances = engine.shared.store.instances
        old, alive = (
            InstanceRow(
                id=new_instance_id(clock.now(), number), definition_id=UUID(int=1), state=state,
                health_state="unknown", created_at=clock.now(), updated_at=clock.now(),
                terminated_at=clock.now() if state == "terminated" else None,
            )
            for number, state in enumerate(("terminated", "ready"))
        )  # fmt: skip
        for row in (old, alive):
            await instances.save(row)
            (folder / str(row.id)).mkdir(parents=True)
            (folder / f"{row.id}.1.log").write_text("said")
        clock.advance(25 * HOUR)

        async def gone() -> bool:
            clock.advance(HOUR)  # the look before may have ended only now
            return await instances.get(old.id) is None

        await until(gone)
        await until(lambda: len(list(folder.iterdir())) == 2)
        assert await instances.get(alive.id) is not None
    assert {each.name.split(".")[0] for each in folder.iterdir()} == {str(alive.id)}


async def test_what_became_old_while_nobody_ran_goes_at_the_next_start(world: World) -> None:
    clock = SteppedClock()
    async with _loop(world, clock).opened() as engine:
        await _keep(engine, "accepted", STATES["accepted"])
    clock.advance(25 * HOUR)
    async with _loop(world, clock).opened() as engine:
        await _until_gone(engine, {"accepted"})
        assert engine.shared.completed == {"T-accepted": "accepted"}
    async with _loop(world, clock).opened() as engine:
        assert engine.shared.completed == {"T-accepted": "accepted"}, "it is still known as done"


async def test_what_is_kept_for_minutes_is_looked_for_every_few_minutes(world: World) -> None:
    clock = SteppedClock()
    async with _loop(world, clock, retention_hours=0.1).opened() as engine:
        await _keep(engine, "accepted", STATES["accepted"])
        clock.advance(0.13 * HOUR)
        await _until_gone(engine, {"accepted"})


async def test_a_damaged_record_never_goes_and_keeps_no_other_from_going(world: World) -> None:
    clock, paths = SteppedClock(), Paths.of(world.repo)
    async with _loop(world, clock).opened() as engine:
        for name in ("accepted", "rejected"):
            await _keep(engine, name, STATES[name])
    damage(paths.database, "agent-rejected", NO_JSON)
    before = stored(paths.database, "agent-rejected")
    clock.advance(25 * HOUR)
    async with _loop(world, clock).opened() as engine:
        await _until_gone(engine, {"accepted"})
    assert stored(paths.database, "agent-rejected") == before
    assert "agent/agent-rejected" in world.branches()
    assert (world.workspace("agent-rejected") / "dirty.txt").exists()
