"""Whatever is asked of many instances at once, no state is wrong and nothing is left alive."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.fleet.api.events import AgentStateChangedEvent
from lifecycle.fleet.api.instances import AgentInstance, InstanceState, is_valid_transition
from lifecycle.fleet.api.queries import GetInstancesFilter, TerminationOptions
from lifecycle.fleet.errors import FleetError
from lifecycle.fleet.spawner.restart_policy import CrashLoop
from lifecycle.store.sqlite.store import SqliteStore
from tests.lifecycle.fleet.spawner_world import Stage, staged

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

WALKERS, STEPS = 12, 12
EVERY = GetInstancesFilter(include_terminated=True, limit=1000)
POLICY = {"type": "immediate", "max_retries": 10}


class Walker:
    """Does things at random with the instances of a stage."""

    def __init__(self, stage: Stage, chance: random.Random) -> None:
        self.stage, self.chance = stage, chance
        self.programs = [
            stage.shell("sleep 600", name="sleeper"),
            stage.shell("trap '' TERM; sleep 600", name="deaf"),
            stage.shell("sleep 0.02; exit 1", name="crasher"),
            stage.shell("sleep 0.02", name="brief"),
        ]

    def spawn(self) -> Coroutine[Any, Any, Any]:
        options = {"restart_policy": POLICY} if self.chance.random() < 0.5 else {}
        if self.chance.random() < 0.5:
            return self.stage.spawner.spawn(self.stage.request(options))
        return self.stage.spawner.spawn(
            self.stage.request_for(self.chance.choice(self.programs), options)
        )

    def act(self, instance: AgentInstance) -> Coroutine[Any, Any, Any]:  # noqa: PLR0911  # one line per act reads best
        spawner, one = self.stage.spawner, instance.instance_id
        match self.chance.randrange(7):
            case 0:
                return spawner.suspend(one)
            case 1:
                return spawner.resume(one)
            case 2:
                return spawner.process(one, self.chance.choice(["x", "crash", "refuse", 0.01]))
            case 3:
                return spawner.terminate(one, TerminationOptions.IMMEDIATE)
            case 4:
                return spawner.terminate(
                    one, TerminationOptions(graceful_timeout=1, force_if_timeout=False)
                )
            case 5:
                return self.kill(instance)
            case _:
                return spawner.get_statistics()

    async def kill(self, instance: AgentInstance) -> None:
        pids = [each.identity.pid for each in self.stage.terminals.live()]
        if instance.details.get("pid") in pids:
            os.kill(instance.details["pid"], signal.SIGKILL)

    async def walk(self) -> None:
        for _ in range(STEPS):
            there = await self.stage.spawner.get_active_instances()
            step = (
                self.act(self.chance.choice(there))
                if there and self.chance.random() < 0.7
                else self.spawn()
            )
            with contextlib.suppress(FleetError, RuntimeError):
                await step
            await asyncio.sleep(self.chance.random() * 0.01)


@pytest.mark.parametrize("seed", [1, 2])
async def test_no_walk_leads_to_a_wrong_state_or_leaves_anything_alive(
    tmp_path: Path, seed: int
) -> None:
    async with await SqliteStore.open(tmp_path / "state.db") as store:
        rule = CrashLoop(failures=4)
        async with staged(tmp_path, store=store, sample_interval=0.02, crash_loop=rule) as stage:
            walkers = [Walker(stage, random.Random(f"{seed}.{one}")) for one in range(WALKERS)]  # noqa: S311  # the same walk each time
            await asyncio.gather(*(walker.walk() for walker in walkers))
            await stage.spawner.aclose(grace=0.1)

            assert stage.terminals.live() == ()
            every = await stage.spawner.get_active_instances(EVERY)
            assert len(every) > WALKERS
            for instance in every:
                assert instance.state in (InstanceState.TERMINATED, InstanceState.FAILED)
                changes = [
                    AgentStateChangedEvent.model_validate_json(each.event_data_json)
                    for each in await stage.spawner.get_events(instance.instance_id)
                    if each.event_type == "AgentStateChangedEvent"
                ]
                assert changes[0].previous_state is InstanceState.INITIALIZING
                assert changes[-1].new_state is instance.state
                for one in changes:
                    assert is_valid_transition(one.previous_state, one.new_state)
                for one, other in pairwise(changes):
                    assert other.previous_state is one.new_state
