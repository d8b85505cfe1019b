"""Counts and metrics go with what happens, under the names that are documented."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lifecycle.fleet.api.instances import HealthState, InstanceState
from lifecycle.fleet.api.options import SpawnRequest
from lifecycle.fleet.api.queries import UNLIMITED, GetInstancesFilter, TerminationOptions
from lifecycle.fleet.api.registry import definition_id_of
from lifecycle.fleet.errors import AgentNotFoundError
from lifecycle.fleet.spawner.metrics import BOUNDS, Metrics
from tests.lifecycle.fleet.spawner_world import staged

if TYPE_CHECKING:
    from pathlib import Path

S = InstanceState


async def test_statistics_count_what_is_and_what_was(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        spawner = stage.spawner
        first = await spawner.spawn(stage.request())
        second = await spawner.spawn(stage.request())
        await spawner.spawn(stage.request())
        await spawner.terminate(first.instance_id)
        await spawner.suspend(second.instance_id)

        counted = await spawner.get_statistics()

        assert counted.active_instances == 2
        assert counted.by_state == {S.TERMINATED: 1, S.SUSPENDED: 1, S.READY: 1}
        assert counted.by_health == {HealthState.UNKNOWN: 2}
        assert counted.max_concurrent == UNLIMITED
        assert (counted.total_spawned, counted.total_terminated) == (3, 1)
        assert counted.average_uptime.total_seconds() > 0
        assert counted.total_restarts == 0


async def test_metrics_have_the_documented_names(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        spawner = stage.spawner
        instance = await spawner.spawn(stage.request())
        hanging = await spawner.spawn(stage.request(hangs="shut_down"))
        with pytest.raises(AgentNotFoundError):
            await spawner.spawn(SpawnRequest(agent_definition_id=definition_id_of("nobody")))
        before = spawner.metrics.snapshot()
        await spawner.terminate(instance.instance_id)
        await spawner.terminate(hanging.instance_id, TerminationOptions.IMMEDIATE)

        after = spawner.metrics.snapshot()

        assert before.gauges["lifecycle.instances.active"] == {"": 2}
        assert before.gauges["lifecycle.instances.by_state"]["ready"] == 2
        assert after.gauges["lifecycle.instances.active"] == {"": 0}
        assert after.gauges["lifecycle.instances.by_state"]["ready"] == 0
        assert after.gauges["lifecycle.instances.by_state"]["terminated"] == 2
        assert after.counters == {
            "lifecycle.spawn.count": 3,
            "lifecycle.spawn.failures": 1,
            "lifecycle.terminate.count": 2,
            "lifecycle.terminate.forced": 1,
            "lifecycle.restarts.count": 0,
            "lifecycle.license.rejections": 0,
        }
        assert after.histograms["lifecycle.spawn.duration"].count == 2
        assert after.histograms["lifecycle.terminate.duration"].count == 2
        await spawner.get_statistics()
        assert spawner.metrics.snapshot().gauges["lifecycle.instances.by_state"] == {
            str(state): 2 if state is S.TERMINATED else 0 for state in S
        }


def test_a_histogram_counts_what_took_no_longer_than_each_bound() -> None:
    metrics = Metrics()
    for seconds in (0.001, 0.005, 0.2, 1000.0):
        metrics.took("x", seconds)

    shot = metrics.snapshot().histograms["x"]

    assert shot.count == 4
    assert shot.total == pytest.approx(1000.206)
    assert dict(shot.buckets)[0.005] == 2
    assert dict(shot.buckets)[0.25] == 3
    assert shot.buckets[-1] == (BOUNDS[-1], 3)


async def test_instances_are_listed_by_all_filters(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        spawner = stage.spawner
        one = await spawner.spawn(stage.request({"name": "Review #1", "tags": ["PR-1", "nightly"]}))
        two = await spawner.spawn(stage.request({"name": "Review #2", "tags": ["pr-2"]}))
        await spawner.terminate(two.instance_id)

        async def names(**fields: object) -> list[str | None]:
            found = await spawner.get_active_instances(GetInstancesFilter.model_validate(fields))
            return [each.name for each in found]

        assert await names() == ["Review #1"]
        assert await names(include_terminated=True) == ["Review #2", "Review #1"]
        assert await names(tag="pr-1") == ["Review #1"]
        assert await names(tag="PR-2") == []
        assert await names(tag="PR-2", include_terminated=True) == ["Review #2"]
        assert await names(state="terminated") == ["Review #2"]
        assert await names(health_state="unknown") == ["Review #1"]
        assert await names(definition_id=stage.puppet.definition_id) == ["Review #1"]
        assert await names(name_pattern="*#2", include_terminated=True) == ["Review #2"]
        assert await names(include_terminated=True, limit=1, offset=1) == ["Review #1"]
        found = await spawner.get_instance(two.instance_id)
        assert found is not None
        assert found.spawn_options == two.spawn_options
        assert (found.tags, found.created_at) == (("pr-2",), two.created_at)
        assert one.uptime.total_seconds() >= 0
