"""A runner ends and takes over what is of its own machine; unnamed, and alone, all is its own."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from lifecycle.clock import SteppedClock, SystemClock
from lifecycle.engine.engine import LocalEngine
from lifecycle.errors import LifecycleError
from lifecycle.fleet.spawner.recovery import recover_instances
from lifecycle.fleet.spawner.runner_identity import this_runner
from lifecycle.machine.states import BackingOff, Process, Tally, Working
from lifecycle.plan import Agent
from lifecycle.record import MACHINE, AgentLifecycle, placed
from lifecycle.reporting import silent
from lifecycle.store.instances import InstanceRow, new_instance_id
from lifecycle.store.sqlite.store import SqliteStore
from lifecycle.working_copy import facts_of
from tests.lifecycle.engine.simulated import Actor, Life
from tests.lifecycle.engine.stories import AGENT, Play, Story

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.process import SpawnOrder
    from runtime.processes.termination import ProcessIdentity

HERE, ELSEWHERE = "here", "elsewhere"


class OnMachine(Actor):
    """An agent whose mark names a machine."""

    machine = ""

    @property
    def identity(self) -> ProcessIdentity:
        return replace(super().identity, machine=self.machine)


async def left_by(play: Play, machine: str) -> Actor:
    """Leave a lifecycle in the middle of an attempt, and its agent alive."""
    agent = Agent(agent_id=AGENT, command=("agent",))
    record = AgentLifecycle(
        agent_id=AGENT, task="T", task_id="T001",
        facts={**facts_of(play.story.task, agent), **({MACHINE: machine} if machine else {})},
    )  # fmt: skip
    mark = f"{AGENT}.{record.birth}.1.0"
    process = Process(pid=100, start_time=1000, boot_id="boot", spawn_id=mark)
    record.work = Working(process=process, since=1.0, tally=Tally(attempt=1, spawn_count=1))
    record.derive()
    await play.store.create(record)
    order = cast("SpawnOrder", None)
    actor = OnMachine(mark, AGENT, 1, 100, order, deque())
    actor.machine = machine
    play.world.actors[mark] = actor
    play.world.living[actor] = None
    return actor


def engine_on(play: Play, *, one_machine: bool) -> LocalEngine:
    machine = play._machine(Life(), SteppedClock(play.world.now))
    machine.machine_id, machine.shared.one_machine = HERE, one_machine
    return LocalEngine(machine)


@pytest.mark.parametrize(
    ("machine", "one_machine", "taken"),
    [
        (ELSEWHERE, False, False),
        (HERE, False, True),
        ("", False, True),
        (ELSEWHERE, True, True),
    ],
)
async def test_what_another_machine_runs_is_left_to_it(
    tmp_path: Path, machine: str, *, one_machine: bool, taken: bool
) -> None:
    play = Play(Story({}), tmp_path / "play")
    actor = await left_by(play, machine)
    engine = engine_on(play, one_machine=one_machine)
    await engine.start()
    assert actor.alive is not taken
    assert isinstance(await play._work(), BackingOff if taken else Working)
    await engine.aclose()


async def test_what_a_worker_has_is_its_coordinators_also_where_no_setting_says_so(
    tmp_path: Path,
) -> None:
    play = Play(Story({}), tmp_path / "play")
    actor = await left_by(play, ELSEWHERE)
    record = await play.store.get(AGENT)
    assert record is not None
    await play.store.update(replace(record, facts=placed(record.facts, "a", "a", 1)))
    engine = engine_on(play, one_machine=True)
    await engine.start()
    assert actor.alive
    with pytest.raises(LifecycleError, match="worker a has agent-T001, and no coordinator"):
        await engine.run(Agent(agent_id=AGENT, command=("agent",)), play.story.task)
    assert isinstance(await play._work(), Working)
    await engine.aclose()


async def test_a_lifecycle_names_the_machine_that_runs_it(tmp_path: Path) -> None:
    play = Play(Story({1: [("say", {"type": "task_complete"}), ("exit", 0)]}), tmp_path / "play")
    await play.to_the_end()
    record = await play.store.get(AGENT)
    assert record is not None
    assert record.facts[MACHINE] == play._machine(Life(), SteppedClock(0.0)).machine_id


@pytest.mark.parametrize("owned", [True, False])
async def test_instances_of_another_machine_stay_as_they_are(
    tmp_path: Path, *, owned: bool
) -> None:
    play = Play(Story({}), tmp_path / "play")
    store = await SqliteStore.open(tmp_path / "state.db")
    told: dict[str, Any] = {**this_runner(), "pid": 1, "start_time": -1, "machine": ELSEWHERE}
    row = InstanceRow(
        id=new_instance_id(1.0, 1), definition_id=new_instance_id(1.0, 2), state="processing",
        health_state="healthy", created_at=1.0, updated_at=1.0,
        details_json=json.dumps({"runner": told}),
    )  # fmt: skip
    await store.instances.save(row)
    terminals = play._machine(Life(), SteppedClock(0.0)).terminals
    found = await recover_instances(
        store, terminals, SystemClock(), silent, lambda name: owned or name == HERE
    )
    await store.aclose()
    assert [each.instance_id for each in found] == ([row.id] if owned else [])
