"""Instances that ended are kept for a while, and then deleted with their folders."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lifecycle.clock import SteppedClock
from lifecycle.fleet.api.queries import GetInstancesFilter, TerminationOptions
from lifecycle.fleet.api.registry import AgentDefinition
from lifecycle.fleet.spawner.spawner import AgentSpawner
from lifecycle.store.sqlite.store import SqliteStore
from tests.lifecycle.fleet.spawner_world import Puppet, Told, staged, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lifecycle.fleet.spawner_world import Stage

HOUR = 3600.0
ALL = GetInstancesFilter(include_terminated=True)
SELDOM = 1e9
"""Nothing is measured, however far the clock is stepped."""


async def ended(stage: Stage) -> list[str]:
    """Spawn two that end with their state kept, and one that lives."""
    names = []
    for _ in range(2):
        instance = await stage.spawner.spawn(stage.request_for(stage.shell("exec sleep 600")))
        await stage.spawner.terminate(instance, TerminationOptions(persist_final_state=True))
        names.append(str(instance.instance_id))
    await stage.spawner.spawn("puppet")
    return names


@pytest.mark.parametrize("retention", [timedelta(hours=5), 5 * HOUR])
async def test_a_spawner_deletes_by_itself_what_ended_long_ago(
    tmp_path: Path, retention: timedelta | float
) -> None:
    clock = SteppedClock()
    async with staged(tmp_path, clock=clock, retention=retention, sample_interval=SELDOM) as stage:
        names = await ended(stage)
        folder = tmp_path / ".loopwright" / "instances"
        assert {each.name.split(".")[0] for each in folder.iterdir()} == set(names)
        clock.advance(4 * HOUR)
        assert len(await stage.spawner.get_active_instances(ALL)) == 3

        async def gone() -> bool:
            clock.advance(HOUR)
            return len(await stage.spawner.get_active_instances(ALL)) == 1

        await until(gone)
        await until(lambda: not list(folder.iterdir()))


async def test_it_deletes_at_its_start_what_became_old_meanwhile(tmp_path: Path) -> None:
    clock, store = SteppedClock(), SqliteStore.in_memory()
    async with staged(
        tmp_path, clock=clock, store=store, retention=None, sample_interval=SELDOM
    ) as stage:
        await ended(stage)
        clock.advance(1000 * HOUR)
        assert len(await stage.spawner.get_active_instances(ALL)) == 3
    async with (
        staged(
            tmp_path,
            clock=clock,
            store=store,
            sample_interval=SELDOM,
            retention=timedelta(hours=24),
        ) as stage,
        stage.spawner,
    ):

        async def left() -> int:
            return len(await stage.spawner.get_active_instances(ALL))

        # What lived until the first one closed has only just ended.
        async def one_is_left() -> bool:
            return await left() == 1

        await until(one_is_left)


async def test_a_store_that_is_closed_under_it_is_reported_and_no_more(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "state.db")
    async with staged(tmp_path, store=store, retention=timedelta(hours=24)) as stage:
        await store.aclose()
        async with stage.spawner:
            await until(lambda: stage.told.of("instance_upkeep_failed"))

        assert stage.told.of("instance_upkeep_failed")[0]["task"] == "retention"


@pytest.mark.parametrize(("shared", "kept"), [(True, 1), (False, 0)])
async def test_only_a_store_of_its_own_is_swept_unasked(
    tmp_path: Path, *, shared: bool, kept: int
) -> None:
    clock, told = SteppedClock(), Told()
    given = SqliteStore.in_memory(clock=clock.now) if shared else None
    async with AgentSpawner(
        given, clock=clock, folder=tmp_path, report=told.report, audit=told, sample_interval=SELDOM
    ) as spawner:
        puppet = AgentDefinition(name="puppet", runs=lambda: Puppet([]))
        await spawner.terminate(await spawner.spawn(puppet))
        turns = 0

        async def left() -> int:
            return len(await spawner.get_active_instances(ALL))

        async def swept() -> bool:
            nonlocal turns
            turns += 1
            clock.advance(HOUR)
            return turns > 100 or await left() == 0

        await until(swept)

        assert await left() == kept
