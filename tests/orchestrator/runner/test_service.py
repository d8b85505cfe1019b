"""Loops under their supervisor: started, ended in order, restarted, reported, none disturbed."""

from __future__ import annotations

import asyncio
import io
import json
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.plan import Task
from orchestrator.runner.service import Service
from orchestrator.runner.signals import SignalHandler
from orchestrator.runner.workload import Job, Workload
from orchestrator.wording.live_view import PlainView
from tests.begun import begun
from tests.lifecycle.world import DONE, HANG, PATIENCE, World, commit, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from lifecycle.audit import AuditEntry
    from lifecycle.engine.engine import LocalEngine
    from lifecycle.record import AgentLifecycle
    from orchestrator.runner.server_interface import Beside

UP = {"write": {"path": "up", "text": "u"}}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a user's repository with one commit on main."""
    begun(tmp_path / "repo", {"a.txt": "a\n"})
    return World(tmp_path)


@dataclass
class Stays:
    """What keeps a runner alive when no loop is left."""

    stays: bool = True
    used_at: float | None = None

    async def decisions(self) -> int:
        return 0

    async def run(self, *_: object) -> None:
        """Is never asked to."""


@dataclass
class Pages:
    """Pages in which somebody decides, until all is decided."""

    used_at: float | None
    stays: bool = False
    waiting: int = 1

    async def decisions(self) -> int:
        return self.waiting

    async def run(self, *_: object) -> None:
        """Is never asked to."""


class View(PlainView):
    """Keeps what is told of ended loops; may break as a view must not."""

    def __init__(self) -> None:
        self.told = io.StringIO()
        super().__init__(self.told)
        self.ended: list[str] = []
        self.breaks_on = ""

    def over(self, record: AgentLifecycle) -> None:
        self.ended.append(record.agent_id)
        if record.agent_id == self.breaks_on:
            raise OSError("the store is gone")


class Runner:
    """A runner that stays, without a server, and the loops that a test begins in it."""

    def __init__(
        self, world: World, engine: LocalEngine, late_after: float, beside: Beside
    ) -> None:
        self.world, self.engine, self.view = world, engine, View()
        signals = SignalHandler(lambda _: None)
        self.service = Service(engine, self.view, signals, revives=True, late_after=late_after)
        self.run = asyncio.create_task(self.service.run(Workload((), beside=beside)))

    def start(self, name: str, *steps: Any, task: str = "") -> None:
        agent = self.world.agent(list(steps), name)
        self.service.start(Job(agent, Task(id=task or name, title="T")))

    async def aclose(self) -> None:
        await self.service.shutdown()
        await asyncio.gather(self.run, return_exceptions=True)


@asynccontextmanager
async def running(
    world: World, late_after: float = 5.0, beside: Beside | None = None
) -> AsyncIterator[Runner]:
    async with world.loop().opened() as engine:
        runner = Runner(world, engine, late_after, beside or Stays())
        try:
            yield runner
        finally:
            await runner.aclose()


async def test_one_loop_that_breaks_never_disturbs_the_others(world: World) -> None:
    async with running(world) as runner:
        runner.start("good", *commit("x"), DONE)
        await until(lambda: runner.view.ended == ["good"])
        runner.start("other", *commit("x"), DONE)
        runner.start("good", DONE, task="another")  # its record is of another task
        await until(lambda: len(runner.view.ended) == 3)
    assert "has a record for task good" in runner.service.ending.defects["good"]
    assert runner.service.ending.codes.keys() == {"good"}


async def test_a_shutdown_ends_each_loop_with_its_work_saved(world: World) -> None:
    async with running(world) as runner:
        for name in ("a", "b"):
            runner.start(name, UP, HANG)
        paths = [world.workspace.parent / name / "up" for name in ("a", "b")]
        await until(lambda: all(path.exists() for path in paths))
        await runner.service.shutdown()
        await runner.run
        runner.start("c", DONE)
        assert not runner.service.runs("c")
    assert sorted(runner.view.ended) == ["a", "b"]
    assert "has not ended" not in runner.view.told.getvalue()
    assert world.marked() == []


async def test_to_end_one_of_the_supervised_drains_that_loop_alone(world: World) -> None:
    async with running(world) as runner:
        for name in ("a", "b"):
            runner.start(name, HANG)
        await until(lambda: len(world.marked()) == 2)
        assert runner.service.supervisor.stop("a")
        await until(lambda: runner.view.ended == ["a"])
        assert (runner.service.runs("a"), runner.service.runs("b")) == (False, True)
        assert len(world.marked()) == 1


async def test_a_loop_that_is_ended_before_it_has_an_owner_starts_no_agent(world: World) -> None:
    async with running(world) as runner:
        runner.start("a", HANG)
        assert runner.service.supervisor.stop("a")
        await until(lambda: "a" not in runner.service.supervisor.agent_types)
        runner.start("b", HANG)
        await until(lambda: "b" in runner.service.supervisor.agents)
        assert runner.service.supervisor.stop("b")
        await until(lambda: runner.view.ended == ["b"])
    assert await world.store.attempts("b") == ()


async def test_a_loop_that_does_not_end_in_time_is_named_and_waited_for(world: World) -> None:
    world.settings["stop_grace"] = 0.0
    async with running(world, late_after=0.1) as runner:
        world.settings["stop_grace"] = 1.0
        runner.start("a", {"ignore_term": True}, UP, HANG)
        await until((world.workspace.parent / "a" / "up").exists)
        await runner.service.shutdown()
        await runner.run
    told = runner.view.told.getvalue()
    assert "a: has not ended after 0.1 s; its work is still being saved" in told
    assert runner.view.ended == ["a"]
    assert world.marked() == []


async def test_it_stays_for_its_pages_and_says_once_in_the_end_that_it_stopped(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    pages = Pages(time.time())  # noqa: TID251  # people have clocks
    async with running(world, beside=pages) as runner:
        await until(lambda: "all loops rest" in runner.view.told.getvalue())
        runner.start("a", *commit("x"), DONE)
        await until(lambda: runner.view.ended == ["a"] and not runner.service.supervisor.agents)
        assert "supervisor_stopped" not in caplog.text
        pages.waiting, pages.used_at = 0, 0.0
        await asyncio.wait_for(runner.run, PATIENCE)
    assert caplog.text.count("supervisor_stopped") == 1


async def test_an_end_that_cannot_be_taken_ends_all_loops_and_is_raised(world: World) -> None:
    async with running(world) as runner:
        runner.view.breaks_on = "bad"
        runner.start("a", HANG)
        await until(lambda: len(world.marked()) == 1)
        runner.start("bad", *commit("x"), DONE)
        with pytest.raises(OSError, match="the store is gone"):
            await asyncio.wait_for(runner.run, 20)
        assert world.marked() == []


async def test_a_loop_can_be_started_again_the_moment_it_has_ended(world: World) -> None:
    async with running(world) as runner:
        ended = runner.view.over

        def again(record: AgentLifecycle) -> None:
            ended(record)
            if len(runner.view.ended) == 1:
                assert not runner.service.runs("a")
                runner.start("a", DONE)
                assert runner.service.runs("a")

        runner.view.over = again  # type: ignore[method-assign]  # as a request revives it
        runner.start("a", *commit("x"), DONE)
        await until(lambda: runner.view.ended == ["a", "a"])
    assert runner.service.ending.codes == {}


async def _held_settings(world: World) -> list[AuditEntry]:
    return [each for each in await world.store.trail.entries() if each.action == "setting"]


async def test_each_change_of_a_setting_is_held_once_with_what_it_was(world: World) -> None:
    world.settings["max_retries"] = 7
    async with running(world) as runner:
        await until(world.store.trail.entries)
        runner.start("a", *commit("x"), DONE)
        await until(lambda: runner.view.ended == ["a"])
        held = await _held_settings(world)
        began = {each.subject: json.loads(each.details) for each in held}
        assert began["max_retries"] == {"from": 100, "to": 7}
        world.settings["max_retries"] = 8
        runner.start("b", *commit("x"), DONE)
        await until(lambda: runner.view.ended == ["a", "b"])
        held = (await _held_settings(world))[len(held) :]
    assert [(each.subject, json.loads(each.details)) for each in held] == [
        ("max_retries", {"from": 7, "to": 8})
    ]
