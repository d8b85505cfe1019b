"""The loops of a runner under their supervisor."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.plan import Agent, Task
from lifecycle.result import LoopResult, LoopResultType
from orchestrator.crew import Crew
from tests.lifecycle.world import DONE, HANG, World, commit, git, until

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.engine import Engine

Ended = dict[str, LoopResult | Exception | None]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a user's repository with one commit on main."""
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    (repo / "a.txt").write_text("a\n")
    git(repo, "add", ".")
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
    git(repo, *who, "commit", "-qm", "first")
    return World(tmp_path)


def crew_of(
    engine: Engine, ended: Ended, late: list[str] | None = None, late_after: float = 5.0
) -> Crew:
    async def told(agent_id: str, result: LoopResult | None, problem: Exception | None) -> None:
        ended[agent_id] = result or problem

    named = [] if late is None else late
    return Crew(
        engine,
        ended=told,
        late=lambda agent_id, _seconds: named.append(agent_id),
        late_after=late_after,
    )


def job(world: World, name: str, *steps: Any) -> tuple[Agent, Task]:
    return world.agent(list(steps), name), Task(id=name, title="T")


async def test_one_loop_that_breaks_never_disturbs_the_others(world: World) -> None:
    ended: Ended = {}
    async with world.loop().opened() as engine:
        crew = crew_of(engine, ended)
        crew.start(*job(world, "good", *commit("x"), DONE))
        await crew.run()
        crew = crew_of(engine, ended)
        crew.start(*job(world, "other", *commit("x"), DONE))
        agent, _ = job(world, "good", DONE)
        crew.start(agent, Task(id="another", title="T"))  # its record is of another task
        await crew.run()
    found = ended["other"]
    assert isinstance(found, LoopResult)
    assert found.result_type is LoopResultType.TASK_COMPLETE
    assert "has a record for task good" in str(ended["good"])


async def test_a_shutdown_ends_each_loop_with_its_work_saved(world: World) -> None:
    ended: Ended = {}
    late: list[str] = []
    async with world.loop().opened() as engine:
        crew = crew_of(engine, ended, late)
        for name in ("a", "b"):
            crew.start(*job(world, name, {"write": {"path": "up", "text": "u"}}, HANG))
        paths = [world.workspace.parent / name / "up" for name in ("a", "b")]
        await until(lambda: all(path.exists() for path in paths))
        await crew.shutdown()
        await crew.run()
        crew.start(*job(world, "c", DONE))
        assert not crew.runs("c")
    kinds = {name: getattr(found, "result_type", found) for name, found in ended.items()}
    assert kinds == {"a": LoopResultType.SHUTDOWN, "b": LoopResultType.SHUTDOWN}
    assert late == []
    assert world.marked() == []


async def test_to_end_one_scope_drains_that_loop_alone(world: World) -> None:
    ended: Ended = {}
    async with world.loop().opened() as engine:
        crew = crew_of(engine, ended)
        for name in ("a", "b"):
            crew.start(*job(world, name, HANG))
        await until(lambda: len(world.marked()) == 2)
        assert crew.supervisor.stop("a")
        await until(lambda: "a" in ended)
        assert (crew.runs("a"), crew.runs("b")) == (False, True)
        assert len(world.marked()) == 1
        await crew.shutdown()
        await crew.run()


async def test_a_loop_that_does_not_end_in_time_is_named_and_waited_for(
    world: World,
) -> None:
    ended: Ended = {}
    late: list[str] = []
    stubborn = [{"ignore_term": True}, {"write": {"path": "up", "text": "u"}}, HANG]
    world.settings["stop_grace"] = 0.0
    async with world.loop().opened() as engine:
        crew = crew_of(engine, ended, late, 0.1)
        world.settings["stop_grace"] = 1.0
        crew.start(*job(world, "a", *stubborn))
        await until((world.workspace.parent / "a" / "up").exists)
        await crew.shutdown()
        await crew.run()
    assert late == ["a"]
    assert getattr(ended["a"], "result_type", None) is LoopResultType.SHUTDOWN
    assert world.marked() == []


async def test_an_end_that_cannot_be_taken_ends_all_loops_and_is_raised(world: World) -> None:
    async with world.loop().opened() as engine:

        async def told(agent_id: str, _result: object, _problem: object) -> None:
            if agent_id == "bad":
                raise OSError("the store is gone")

        crew = Crew(engine, ended=told, late=lambda _who, _seconds: None)
        crew.start(*job(world, "a", HANG))
        await until(lambda: len(world.marked()) == 1)
        crew.start(*job(world, "bad", *commit("x"), DONE))
        with pytest.raises(OSError, match="the store is gone"):
            await asyncio.wait_for(crew.run(), 20)
        assert world.marked() == []


async def test_a_loop_can_be_begun_anew_the_moment_it_has_ended(world: World) -> None:
    async with world.loop().opened() as engine:
        ends: list[str] = []

        async def told(agent_id: str, result: LoopResult | None, _problem: object) -> None:
            assert result is not None
            ends.append(result.result_type)
            if len(ends) == 1:
                assert not crew.runs(agent_id)
                crew.start(*job(world, agent_id, DONE))
                assert crew.runs(agent_id)

        crew = Crew(engine, ended=told, late=lambda _who, _seconds: None)
        crew.start(*job(world, "a", *commit("x"), DONE))
        await asyncio.wait_for(crew.run(), 20)
    assert ends == ["task_complete", "task_complete"]
