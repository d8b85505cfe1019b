"""The engine on Temporal keeps the rules of every engine."""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.lifecycle.engine.contract import (
    EVERY_PLACE,
    BeginningAndEnd,
    Crashes,
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


class TestTemporalEngine(
    SameDecisions, Refusals, Requests, Deadlines, Slots, BeginningAndEnd, Crashes
):
    if not EVERY_PLACE:
        apart, pairs, deaths = 49, 1, 12
