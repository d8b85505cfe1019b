"""The engine on Temporal keeps the rules of every engine."""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING

import pytest

from lifecycle.record import worker_of
from tests.lifecycle.engine.contract import (
    STORIES,
    BeginningAndEnd,
    Deadlines,
    Plays,
    Refusals,
    Requests,
    SameDecisions,
    Slots,
)
from tests.lifecycle.engine.stories import Play, Story

if TYPE_CHECKING:
    from pathlib import Path

    from tests.orchestrator.engines.temporal.stage import Stage

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def plays(tmp_path: Path, stage: Stage) -> Plays:
    def make(name: str, story: Story) -> Play:
        engine = partial(stage.engine, play=uuid.uuid4().hex[:8])
        return Play(story, tmp_path / name, make=engine, settles=stage.settled)

    return make


class TestTemporalEngine(SameDecisions, Refusals, Requests, Deadlines, Slots, BeginningAndEnd):
    pass


async def test_the_record_names_the_worker_of_each_attempt(plays: Plays) -> None:
    play = await plays("named", STORIES["the demo"]).to_the_end()
    (record,) = [each async for each in play.store.every()]
    name = worker_of(record)
    assert name
    assert set(record.facts["attempt_workers"].values()) == {name}
    ran = [row.attempt for row in await play.store.attempts(record.agent_id)]
    assert sorted(map(int, record.facts["attempt_workers"])) == ran
