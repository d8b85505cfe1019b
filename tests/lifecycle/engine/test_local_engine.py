"""The engine for one machine keeps the rules of every engine, and commits each fact by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lifecycle.result import LoopResultType
from tests.lifecycle.engine.contract import STORIES, EngineContract, Plays, played
from tests.lifecycle.engine.stories import AGENT, Play, Story

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def plays(tmp_path: Path) -> Plays:
    def make(name: str, story: Story) -> Play:
        return Play(story, tmp_path / name)

    return make


class TestLocalEngine(EngineContract):
    pass


async def test_the_demo_passes_each_kind_of_place(plays: Plays) -> None:
    play = await played(plays, "whole", STORIES["the demo"])
    places = play.lives[0].passed
    orders = ("PrepareWorkspace", "SpawnAgent", "TakeSnapshot", "PublishBranch", "LookAtBlockers",
              "OpenPullRequest", "LookAtPullRequest", "RunGates")  # fmt: skip
    assert {f"{when} {order}" for order in orders for when in ("before", "after")} <= set(places)
    assert len(places) >= 100
    assert play.result is not None
    assert play.result.result_type is LoopResultType.TASK_COMPLETE
    assert (play.result.spawn_count, play.result.retry_count) == (3, 0)


async def test_each_fact_of_an_attempt_is_committed_by_itself(plays: Plays) -> None:
    play = await played(plays, "whole", STORIES["an agent that always fails"])
    passed = play.lives[0].passed
    for fact in ("AgentSpawned", "AgentExited", "SnapshotTaken"):
        assert passed.count(f"before commit of {fact}") == 3


async def test_an_agent_that_was_interrupted_starts_again_under_its_own_number(
    plays: Plays,
) -> None:
    whole = await played(plays, "whole", STORIES["an agent that always fails"])
    at = whole.lives[0].passed.index("after commit of AgentSpawned") + 1
    play = await played(plays, "crashed", STORIES["an agent that always fails"], at)
    attempts = [actor.attempt for actor in play.world.actors.values()]
    assert attempts == [1, 1, 2, 3]
    record = await play.store.get(AGENT)
    assert record is not None
    assert record.work is not None
    assert record.work.tally.interruptions == 1
    assert (record.work.tally.attempts, record.work.tally.retry_count) == (3, 2)
    assert record.work.tally.spawn_count == 4
