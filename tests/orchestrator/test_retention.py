"""What retention removes, and what it never touches."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lifecycle.clock import SteppedClock
from lifecycle.loop import AgentLifecycleLoop
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
from lifecycle.plan import Agent, Plan, Task
from lifecycle.record import AgentLifecycle
from lifecycle.retention import RETIRED
from lifecycle.settings import Settings
from runtime.branches import BranchManager
from runtime.process import TerminalManager
from runtime.workspace import WorkspaceManager
from tests.store.damaging import NO_JSON, change, stored

if TYPE_CHECKING:
    from lifecycle.engine import Engine
    from tests.orchestrator.loopkit import World

HOUR = 3600.0
STATES: dict[str, State] = {
    "accepted": Accepted(commit="c"),
    "rejected": Rejected(reason=Reason.ERROR, text="broken"),
    "completed": Completed(summary="done"),
    "waiting": AwaitingHuman(about=About.QUESTION, text="?", since=0.0),
}


def _loop(world: World, clock: SteppedClock, *, retention_hours: float = 24) -> AgentLifecycleLoop:
    return AgentLifecycleLoop(
        repo_dir=world.repo, plan=Plan(tasks=()), ci_provider=None,
        terminal_manager=TerminalManager(world.repo), branch_manager=BranchManager(world.repo),
        workspace_manager=WorkspaceManager(world.repo), clock=clock,
        settings=Settings(retention_hours=retention_hours),
    )  # fmt: skip


async def _keep(engine: Engine, name: str, state: State) -> None:
    """Make a lifecycle in this state, with a workspace, a commit and logs."""
    task = Task(id=f"T-{name}", title=name)
    agent = Agent(agent_id=f"agent-{name}", command=("true",))
    parts = engine.parts
    workspace = await parts.workspaces.prepare(agent.agent_id)
    (workspace.path / "dirty.txt").write_text("not committed\n")
    for folder in parts.paths.all_of(agent.agent_id):
        folder.mkdir(parents=True)
        (folder / "1").write_text("x")
    await parts.store.create(
        AgentLifecycle(
            agent_id=agent.agent_id, task=name, task_id=task.id, work=state, state=coarse(state),
            updated_at=parts.clock.now(), created_at=parts.clock.now(),
            facts={"task": task.model_dump(mode="json"), "agent": agent.model_dump(mode="json")},
        )
    )  # fmt: skip


async def _names(engine: Engine) -> set[str]:
    return {record.task for record in (await engine.parts.store.list()).records}


async def _until_gone(engine: Engine, names: set[str]) -> None:
    async with asyncio.timeout(10):
        while await _names(engine) & names:  # noqa: ASYNC110  # the store tells nobody of changes
            await asyncio.sleep(0.01)


async def test_old_accepted_and_rejected_ones_go_with_all_they_had_and_nothing_else(
    world: World,
) -> None:
    clock = SteppedClock()
    async with _loop(world, clock).opened() as engine:
        for name, state in STATES.items():
            await _keep(engine, name, state)
        clock.advance(23 * HOUR)
        await asyncio.sleep(0.1)
        assert await _names(engine) == set(STATES)
        clock.advance(2 * HOUR)
        await _until_gone(engine, {"accepted", "rejected"})
        assert await _names(engine) == {"completed", "waiting"}
        assert set(await engine.parts.store.all(RETIRED)) == {"T-accepted"}
    assert set(world.branches()) == {"main", "agent/agent-completed", "agent/agent-waiting"}
    paths = Paths.of(world.repo)
    for name in STATES:
        gone = name in ("accepted", "rejected")
        worktree = world.workspace(f"agent-{name}")
        for folder in (*paths.all_of(f"agent-{name}"), worktree):
            assert folder.exists() is not gone, folder
    saved = world.git("for-each-ref", "--format=%(refname)", "refs/loopwright/saved").split()
    assert {ref.split("/")[3] for ref in saved} == {"agent-accepted", "agent-rejected"}


async def test_what_became_old_while_nobody_ran_goes_at_the_next_start(world: World) -> None:
    clock = SteppedClock()
    async with _loop(world, clock).opened() as engine:
        await _keep(engine, "accepted", STATES["accepted"])
    clock.advance(25 * HOUR)
    async with _loop(world, clock).opened() as engine:
        await _until_gone(engine, {"accepted"})
        assert engine.parts.completed == {"T-accepted": "accepted"}
    async with _loop(world, clock).opened() as engine:
        assert engine.parts.completed == {"T-accepted": "accepted"}, "it is still known as done"


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
    change(paths.database, "agent-rejected", NO_JSON)
    before = stored(paths.database, "agent-rejected")
    clock.advance(25 * HOUR)
    async with _loop(world, clock).opened() as engine:
        await _until_gone(engine, {"accepted"})
    assert stored(paths.database, "agent-rejected") == before
    assert "agent/agent-rejected" in world.branches()
    assert (world.workspace("agent-rejected") / "dirty.txt").exists()
