"""Merge trains of GitLab: how one is put on, and what a train's pipeline is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci.forge.protocol import LeftQueue
from tests.ci.forge_server import fails
from tests.ci.gitlab.served_trains import TrainWorld
from tests.ci.served_git import BASE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ci.forge.protocol import ForgePull

ENTRY = f"{TrainWorld.at}/merge_trains/merge_requests/1"


def orders(world: TrainWorld) -> list[object]:
    asked = [each for each in world.server.requests if each.method == "POST"]
    return [each.json() for each in asked if each.path == ENTRY]


async def until_computed(world: TrainWorld) -> ForgePull:
    await world.pull(1)
    return await world.pull(1)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[TrainWorld]:
    async with TrainWorld.running(tmp_path / "world") as served:
        yield served


async def test_it_is_put_on_the_train_at_the_reviewed_commit_and_once(world: TrainWorld) -> None:
    pull = await world.opened()
    for _ in range(2):
        result = await world.try_merge(pull, "squash")
        assert (result.merged, result.queued) == (False, True)
    assert world.served.entries == [(1, pull.head_sha)]
    assert orders(world) == [{"sha": pull.head_sha, "squash": True}]
    seen = await world.pull(1)
    assert (seen.queued, seen.group_sha) == (True, world.served.group(1))


async def test_a_newer_head_is_not_put_on(world: TrainWorld) -> None:
    pull = await world.opened()
    await world.commit("agent/a", shared="newer")
    result = await world.try_merge(pull)
    assert not result.queued
    assert "look at it again" in result.reason


@pytest.mark.parametrize(
    ("version", "named"), [("18.2.1-ee", "auto_merge"), ("16.11.0", "when_pipeline_succeeds")]
)
async def test_a_pipeline_that_still_runs_is_waited_for_by_the_train(
    world: TrainWorld, version: str, named: str
) -> None:
    world.served.version, world.served.pipelines_must_pass = version, True
    pull = await world.opened()
    world.served.pipelines[0]["status"] = "running"
    result = await world.try_merge(pull)
    assert result.queued, result.reason
    assert orders(world) == [{"sha": pull.head_sha, "squash": False, named: True}]
    seen = await world.pull(1)
    assert (seen.queued, seen.group_sha) == (True, "")


@pytest.mark.parametrize("rebases", [True, False], ids=["rebases", "old"])
async def test_a_branch_that_lacks_commits_of_its_base_is_rebased_by_the_train_where_it_does(
    world: TrainWorld, *, rebases: bool
) -> None:
    world.served.rebases = rebases
    world.demand_newest()
    await world.opened(shared="a")
    world.origin.commit(BASE, "newer")
    seen = await until_computed(world)
    assert (seen.behind, seen.hindrance) == (False, ""), "the train is asked first"
    result = await world.try_merge(seen)
    assert (result.queued, result.behind) == (rebases, not rebases)


@pytest.mark.parametrize(
    "off", [{"merge_trains_enabled": False}, {"merge_pipelines_enabled": False}]
)
async def test_without_trains_it_is_merged_at_once(world: TrainWorld, off: dict[str, bool]) -> None:
    pull = await world.opened()
    world.served.settings |= off
    assert (await world.try_merge(pull)).merged
    assert world.served.faults.pop()
    assert not world.served.entries


async def test_why_it_cannot_be_put_on_is_told(world: TrainWorld) -> None:
    pull = await world.opened()
    world.server.route("POST", ENTRY, fails(400, "Failed to merge"))
    result = await world.try_merge(pull)
    assert (result.queued, "Failed to merge" in result.reason) == (False, True)


async def test_the_pipeline_of_a_train_is_not_about_the_head(world: TrainWorld) -> None:
    pull = await world.opened()
    await world.try_merge(pull)
    group = world.served.group(1)
    world.served.ends(1, green=False)
    assert [check.state for check in await world.forge.checks(pull.head_sha)] == ["passed"]
    (failed,) = await world.forge.checks(group)
    assert "the sum is wrong" in (await world.forge.explain(group, failed)).excerpt


@pytest.mark.parametrize(
    ("reason", "left"),
    [
        ("the pipeline did not succeed.", {"reason": "the pipeline did not succeed"}),
        ("", {"reason": "by hand", "by_person": True}),
    ],
)
async def test_how_it_left_the_train_is_what_gitlab_wrote_last(
    world: TrainWorld, reason: str, left: dict[str, object]
) -> None:
    pull = await world.opened()
    await world.try_merge(pull)
    group = world.served.group(1)
    world.served.drop(1, "another reason")
    world.served.board(world.served.pulls[1])
    world.served.drop(1, reason)
    world.say(1, "dora", "removed this merge request from the merge train because I say so")
    assert await world.forge.left_queue(pull) == LeftQueue(group=group, **left)


async def test_the_rules_name_the_train_and_the_pipeline(world: TrainWorld) -> None:
    world.served.pipelines_must_pass = True
    rules = await world.forge.branch_rules(BASE)
    assert (rules.queue, rules.demands) == (True, ("a pipeline that passed",))
