"""The supervisor: each policy, one owner of restarts, one scope per agent, an end in order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lifecycle.fleet.supervisor.factory import fresh_folders
from lifecycle.fleet.supervisor.scope import AgentPhase, AgentScope, CancelScope
from lifecycle.fleet.supervisor.supervisor import (
    ARCHITECT,
    CODER,
    POLICIES,
    OnEnd,
    SupervisorError,
    SupervisorPolicy,
    SupervisorResult,
)
from tests.lifecycle.fleet.supervisor.supervised import (
    Agent,
    World,
    failing_on,
    fails,
    waits,
    works,
)
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

# --- policies ---------------------------------------------------------------------------------


def test_the_policies_are_data() -> None:
    assert (CODER.done, CODER.error) == (OnEnd.RESTART, OnEnd.REQUEUE)
    assert (ARCHITECT.done, ARCHITECT.error) == (OnEnd.RESTART, OnEnd.SHUT_DOWN)
    assert set(POLICIES) == {"coder", "architect"}


@pytest.mark.parametrize("kind", ["coder", "architect"])
async def test_one_that_is_done_is_restarted_for_the_next_task(kind: str) -> None:
    world = World("t1", "t2", "t3")
    world.add("a1", kind, works)
    await until(lambda: world.lives("a1") == 4)
    world.supervisor.shutdown()
    await world.ends()
    assert world.queue.taken == [("a1", "t1"), ("a1", "t2"), ("a1", "t3")]
    assert world.queue.requeued == []


async def test_a_coder_that_fails_is_restarted_and_its_task_goes_back_into_the_queue() -> None:
    world = World("t1", "t2")
    world.add("c1", "coder", failing_on("t1"))
    await until(lambda: len(world.queue.taken) == 3)
    world.supervisor.shutdown()
    await world.ends()
    assert [task for _, task in world.queue.taken] == ["t1", "t2", "t1"]
    assert world.queue.requeued == [("c1", "t1 is too hard")]


async def test_an_architect_that_fails_shuts_everything_down_with_exit_code_1() -> None:
    world = World()
    ended: list[str] = []

    async def coder(agent: Agent, scope: AgentScope) -> None:
        await scope.wait()
        ended.append(agent.agent_id)

    go = asyncio.Event()

    async def architect(_agent: Agent, scope: AgentScope) -> None:
        await go.wait()
        scope.notify(AgentPhase.ERROR, "contradiction")

    world.add("c1", "coder", coder)
    world.add("c2", "coder", coder)
    world.add("arch", "architect", architect)
    await until(lambda: len(world.supervisor.agents) == 3)
    go.set()
    ending = await world.ends()
    assert (ending.exit_code, ending.unstopped) == (1, ())
    assert ending.reason == "architect arch failed: contradiction"
    assert sorted(ended) == ["c1", "c2"]
    assert world.lives("arch") == 1


async def test_one_agents_failure_never_cancels_another() -> None:
    world = World()
    world.add("c2", "coder", waits)

    async def exits(_agent: Agent, _scope: AgentScope) -> None:
        raise SystemExit(3)

    async def cancelled(_agent: Agent, _scope: AgentScope) -> None:
        raise asyncio.CancelledError

    for name, doing in (("f", fails), ("x", exits), ("c", cancelled)):
        world.add(name, "once", doing)
    await until(lambda: list(world.supervisor.agents) == ["c2"])
    await asyncio.sleep(0)
    assert world.lives("c2") == 1
    assert not world.supervisor.agent_scopes["c2"].cancelled
    errors = {change.agent_id: change.error for change in world.changes if change.error}
    assert errors == {
        "f": "ValueError: broken",
        "x": "SystemExit: 3",
        "c": "its task was cancelled",
    }
    world.supervisor.shutdown()
    await world.ends()


async def test_errors_in_a_row_are_followed_by_growing_waits_and_success_resets_them() -> None:
    policy = SupervisorPolicy(done=OnEnd.RESTART, error=OnEnd.RESTART, wait=1.0, longest_wait=5.0)
    assert [policy.wait_after(errors) for errors in range(6)] == [0.0, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert policy.wait_after(10_000) == 5.0


async def test_a_wait_before_a_restart_ends_with_the_shutdown() -> None:
    world = World()
    world.supervisor.policies["coder"] = SupervisorPolicy(
        done=OnEnd.RESTART, error=OnEnd.RESTART, wait=3600.0, longest_wait=3600.0
    )
    world.add("c1", "coder", fails)
    await until(lambda: any(event == "agent_ended" for event, _ in world.reports))
    world.supervisor.shutdown()
    await world.ends()
    assert world.lives("c1") == 1


# --- restarts ---------------------------------------------------------------------------------


async def test_a_restart_makes_a_fresh_agent_with_the_same_id_by_the_settings_of_then() -> None:
    world = World()

    async def changes_settings(_agent: Agent, scope: AgentScope) -> None:
        if world.lives("c1") == 1:
            world.config = "second"
            return
        await scope.wait()

    world.add("c1", "coder", changes_settings)
    await until(lambda: world.lives("c1") == 2)
    world.supervisor.shutdown()
    await world.ends()
    first, *_, last = world.made
    assert first is not last
    assert {agent.agent_id for agent in world.made} == {"c1"}
    assert (first.config, last.config) == ("first", "second")


async def test_each_life_begins_in_a_clean_workspace(tmp_path: Path) -> None:
    seen: list[list[str]] = []
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()

    async def litters(agent: Agent, scope: AgentScope) -> None:
        folder = tmp_path / "work" / agent.agent_id
        seen.append(sorted(path.name for path in folder.iterdir()))
        (folder / "left").touch()
        (folder / "link").symlink_to(outside)
        if len(seen) == 3:
            await scope.wait()

    world = World(clean=fresh_folders(tmp_path / "work"))
    world.add("c1", "coder", litters)
    await until(lambda: len(seen) == 3)
    world.supervisor.shutdown()
    await world.ends()
    assert seen == [[], [], []]
    assert (outside / "kept").exists()
    states = [change.state for change in world.changes if change.life == 1]
    assert states == [AgentPhase.SETUP, AgentPhase.WORKING, AgentPhase.DONE]


@pytest.mark.parametrize("name", ["", "..", "a/b", "."])
async def test_a_workspace_is_never_outside_its_root(tmp_path: Path, name: str) -> None:
    with pytest.raises(SupervisorError):
        await fresh_folders(tmp_path / "work")(name)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "c1").symlink_to(tmp_path)
    await fresh_folders(tmp_path / "work")("c1")
    assert not (tmp_path / "work" / "c1").is_symlink()
    assert (tmp_path / "work").exists()


async def test_an_agent_that_cannot_be_made_or_set_up_has_failed() -> None:
    tries = 0

    async def clean(_agent_id: str) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise OSError("disk full")

    world = World("t1", clean=clean)
    world.add("c1", "coder", works)
    await until(lambda: world.queue.taken)
    world.supervisor.shutdown()
    await world.ends()
    assert world.queue.requeued == [("c1", "OSError: disk full")]


async def test_two_observers_of_one_death_cause_one_restart() -> None:
    world = World()
    dying = asyncio.Event()

    async def dies_once(_agent: Agent, scope: AgentScope) -> None:
        if world.lives("c1") == 1:
            await dying.wait()
            raise RuntimeError("dead")
        await scope.wait()

    world.add("c1", "coder", dies_once)
    await until(lambda: "c1" in world.supervisor.agents)
    scope = world.supervisor.agent_scopes["c1"]
    dying.set()
    scope.notify(AgentPhase.ERROR, "no heartbeat")
    scope.notify(AgentPhase.ERROR, "no heartbeat, says another")
    await until(lambda: world.lives("c1") == 2)
    scope.notify(AgentPhase.ERROR, "no heartbeat, says one who comes late")
    world.add("c2", "coder", waits)
    await until(lambda: "c2" in world.supervisor.agents)
    assert world.lives("c1") == 2
    assert world.queue.requeued == [("c1", "no heartbeat")]
    world.supervisor.shutdown()
    await world.ends()


async def test_one_that_does_not_end_is_not_replaced() -> None:
    """Else two agents of one id would write in one workspace."""
    world = World("t1", grace=0.02)
    release = asyncio.Event()

    async def clings(agent: Agent, scope: AgentScope) -> None:
        agent.queue.take(agent.agent_id)
        scope.notify(AgentPhase.ERROR, "stuck")
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    world.add("c1", "coder", clings)
    ending = await world.ends()
    assert ending.unstopped == ("c1",)
    assert world.lives("c1") == 1
    assert world.queue.requeued == [("c1", "stuck")]
    with pytest.raises(SupervisorError, match="already running"):
        world.supervisor.add("c1", "coder")
    release.set()
    await until(lambda: world.supervisor.ending.unstopped == ())


# --- scopes -----------------------------------------------------------------------------------


async def test_to_end_one_scope_ends_that_agent_for_good_and_no_other() -> None:
    world = World()
    world.add("c1", "coder", waits)
    world.add("c2", "coder", waits)
    await until(lambda: len(world.supervisor.agents) == 2)
    assert world.supervisor.stop("c1")
    await until(lambda: "c1" not in world.supervisor.agent_types)
    assert not world.supervisor.stop("c1")
    assert set(world.supervisor.agents) == {"c2"}
    assert world.lives("c1") == 1
    world.supervisor.shutdown()
    await world.ends()


async def test_scopes_below_end_with_the_one_above() -> None:
    main = CancelScope()
    middle, other = CancelScope(main), CancelScope(main)
    leaf = CancelScope(middle)
    middle.cancel()
    assert (main.cancelled, other.cancelled, leaf.cancelled) == (False, False, True)
    main.cancel()
    main.cancel()
    assert other.cancelled
    assert CancelScope(main).cancelled
    assert await other.sleep(60) is False
    assert await CancelScope().sleep(0.001) is True


async def test_nothing_is_kept_of_agents_that_are_gone() -> None:
    world = World(*(f"t{number}" for number in range(30)))
    world.add("c1", "coder", works)
    await until(lambda: world.lives("c1") == 31)
    assert len(world.supervisor.main._children) == 1
    world.supervisor.shutdown()
    await world.ends()
    supervisor = world.supervisor
    assert not supervisor.agents
    assert not supervisor.agent_types
    assert not supervisor.agent_scopes
    assert not supervisor.main._children
    assert len(asyncio.all_tasks()) == 1


async def test_an_unknown_type_and_a_second_agent_of_an_id_are_refused() -> None:
    world = World()
    world.add("c1", "coder", waits)
    with pytest.raises(SupervisorError, match="known: architect, coder"):
        world.supervisor.add("c2", "painter")
    with pytest.raises(SupervisorError, match="already running"):
        world.supervisor.add("c1", "coder")
    world.supervisor.shutdown()
    await world.ends()
    with pytest.raises(SupervisorError, match="shutting down"):
        world.supervisor.add("c2", "coder")


# --- the end ----------------------------------------------------------------------------------


async def test_run_returns_when_no_agent_is_left() -> None:
    world = World("t1", "t2")
    world.add("o1", "once", works)
    world.add("o2", "once", works)
    assert await world.ends() == SupervisorResult()
    assert {task for _, task in world.queue.taken} == {"t1", "t2"}


async def test_a_shutdown_ends_all_in_order_and_names_what_would_not_stop() -> None:
    world = World(grace=0.02)
    release, tidy = asyncio.Event(), []

    async def tidies(agent: Agent, scope: AgentScope) -> None:
        await scope.wait()
        tidy.append(agent.agent_id)

    async def needs_force(_agent: Agent, _scope: AgentScope) -> None:
        await asyncio.Event().wait()

    async def clings(_agent: Agent, _scope: AgentScope) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    for name, doing in (("t1", tidies), ("t2", tidies), ("force", needs_force), ("bad", clings)):
        world.add(name, "coder", doing)
    await until(lambda: len(world.supervisor.agents) == 4)
    world.supervisor.shutdown("by hand")
    ending = await world.ends()
    assert ending == SupervisorResult(0, "by hand", ("bad",))
    assert sorted(tidy) == ["t1", "t2"]
    assert world.queue.requeued == []
    late = sorted(str(each["agent_id"]) for event, each in world.reports if "late" in event)
    assert late == ["bad", "force"]
    event, fields = world.reports[-1]
    assert (event, fields["unstopped"]) == ("supervisor_stop_failed", ["bad"])
    release.set()
    await until(lambda: len(asyncio.all_tasks()) == 1)


async def test_a_patient_policy_names_who_is_late_and_waits() -> None:
    world = World(grace=0.02)
    release = asyncio.Event()

    async def saves(_agent: Agent, _scope: AgentScope) -> None:
        await release.wait()

    world.add("p1", "patient", saves)
    await until(lambda: world.supervisor.agents)
    world.supervisor.shutdown()
    await until(lambda: any(event == "agent_stop_late" for event, _ in world.reports))
    await asyncio.sleep(0.06)
    assert "p1" in world.supervisor.agents
    release.set()
    assert (await world.ends()).unstopped == ()
    assert [change.state for change in world.changes][-1] == AgentPhase.DONE


async def test_a_queue_that_cannot_take_a_task_back_ends_everything() -> None:
    world = World("t1")

    world.queue.broken = True
    world.add("c1", "coder", fails)
    world.add("c2", "coder", waits)
    ending = await world.ends()
    assert ending.exit_code == 1
    assert ending.reason == "c1 could not be supervised: ConnectionError: the queue is gone"


async def test_to_cancel_the_run_is_to_shut_down_in_order() -> None:
    world = World()
    tidy = []

    async def tidies(agent: Agent, scope: AgentScope) -> None:
        await scope.wait()
        await asyncio.sleep(0.01)
        tidy.append(agent.agent_id)

    world.add("c1", "coder", tidies)
    running = asyncio.create_task(world.supervisor.run())
    await until(lambda: world.supervisor.agents)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert tidy == ["c1"]
    assert world.reports[-1][0] == "supervisor_stopped"


async def test_an_id_can_be_used_again_as_soon_as_it_is_told_to_be_free() -> None:
    world = World("t1", "t2")
    free: list[str] = []

    def gone(agent_id: str) -> None:
        free.append(agent_id)
        if len(free) == 1:
            world.supervisor.add(agent_id, "once")

    world.supervisor._on_gone = gone
    world.add("o1", "once", works)
    await world.ends()
    assert free == ["o1", "o1"]
    assert world.queue.taken == [("o1", "t1"), ("o1", "t2")]
