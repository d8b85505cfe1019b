"""The engine on Temporal keeps the rules of every engine."""

from __future__ import annotations

import uuid
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from lifecycle.machine.events import Guided
from lifecycle.record import worker_of
from tests.lifecycle.engine.contract import (
    CRASHED,
    EVERY_PLACE,
    STORIES,
    SURE,
    EngineContract,
    Plays,
)
from tests.lifecycle.engine.stories import Play, Story

if TYPE_CHECKING:
    from pathlib import Path

    from tests.orchestrator.engines.temporal.stage import Stage

SOME_CRASHED = (
    ("the demo", "frozen"),
    ("the demo", "going on"),
    ("a question that is answered", "frozen"),
    ("rejected while the agent works", "frozen"),
)
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def plays(tmp_path: Path, stage: Stage) -> Plays:
    def make(name: str, story: Story) -> Play:
        engine = partial(stage.engine, play=uuid.uuid4().hex[:8])
        return Play(story, tmp_path / name, make=engine, settles=stage.settled)

    return make


class TestTemporalEngine(EngineContract):
    if not EVERY_PLACE:
        apart, pairs, deaths, budget_apart = 49, 1, 12, 28

    @pytest.mark.parametrize(("name", "meanwhile"), CRASHED if EVERY_PLACE else SOME_CRASHED)
    async def test_a_crash_at_any_point_ends_in_the_same_record(
        self, plays: Plays, name: str, meanwhile: str
    ) -> None:
        await super().test_a_crash_at_any_point_ends_in_the_same_record(plays, name, meanwhile)

    @pytest.mark.parametrize("name", SURE if EVERY_PLACE else SURE[:1])
    async def test_two_crashes_in_a_row_end_in_the_same_record(
        self, plays: Plays, name: str
    ) -> None:
        await super().test_two_crashes_in_a_row_end_in_the_same_record(plays, name)


async def test_the_record_names_the_worker_of_each_attempt(plays: Plays) -> None:
    play = await plays("named", STORIES["the demo"]).to_the_end()
    (record,) = [each async for each in play.store.every()]
    name = worker_of(record)
    assert name
    assert set(record.facts["attempt_workers"].values()) == {name}
    ran = [row.attempt for row in await play.store.attempts(record.agent_id)]
    assert sorted(map(int, record.facts["attempt_workers"])) == ran


async def test_a_word_too_long_to_travel_is_refused_and_says_what_to_do(plays: Plays) -> None:
    def said(at: float) -> Guided:
        return Guided(at=at, by="Ada", text="x" * 70_000)

    demo = STORIES["the demo"]
    play = plays("long", replace(demo, people=(("Blocked", said), *demo.people)))
    await play.to_the_end()
    refused = await play.store.request_outcome(1)
    assert refused
    assert "takes 70," in refused
    assert "shorten it, or commit it as a file" in refused
    assert play.result is not None
    assert play.result.result_type == "task_complete"
