"""A machine that sleeps, or whose clock is set, charges nobody and hears everybody."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from lifecycle.attempt import sampling, watch
from lifecycle.clock import SystemClock
from lifecycle.machine.events import (
    Answered,
    LimitReached,
)
from lifecycle.result import LoopResultType
from lifecycle.services import SAMPLE_INTERVAL
from tests.lifecycle.world import DONE, Step, World, says, until

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


class _SetClock:
    """The wall clock, which somebody sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        really = SystemClock.now
        monkeypatch.setattr(SystemClock, "now", lambda clock: really(clock) + self.ahead)


async def test_a_machine_that_slept_charges_no_agent_for_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, told = _SetClock(monkeypatch), list[float]()
    really = watch.AttemptWatch.slept

    def slept(self: watch.AttemptWatch, seconds: float) -> None:
        told.append(seconds)
        really(self, seconds)

    monkeypatch.setattr(watch.AttemptWatch, "slept", slept)
    steps: dict[int, list[Step]] = {1: [{"wait_file": {"path": "go"}}, {"delete": "go"}, DONE]}
    async with world.running(steps, idle_limit=1800.0, wall_limit=14400.0) as running:
        await running.at("Working")
        clock.ahead = 8 * 3600.0
        await until(lambda: told)
        (world.workspace / "go").touch()
        result = await running.result()
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 0)
    assert not any(isinstance(entry.event, LimitReached) for entry in await world.journal())


async def test_people_are_heard_also_after_the_clock_was_set_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = _SetClock(monkeypatch)
    clock.ahead = 7200.0
    steps = {1: [says("question", question="?")], 2: [DONE]}
    async with world.running(steps) as running:
        await running.at("AwaitingHuman")
        clock.ahead = 0.0
        await running.ask(Answered, text="yes")
        result = await running.result()
    assert result.result_type is LoopResultType.TASK_COMPLETE


def test_what_a_machine_sleeps_is_left_out_before_anybody_looks() -> None:
    told: list[str] = []
    due: list[Callable[[], None]] = []
    now = 1000.0

    class Attended:
        process = SimpleNamespace(identity=SimpleNamespace(mark="m"))
        settings = SimpleNamespace(wall_limit=0.0, idle_limit=0.0)

        def slept(self, seconds: float) -> None:
            told.append(f"slept {seconds:g} s")

        def listen(self) -> None:
            told.append("listens")

    clock = SimpleNamespace(now=lambda: now, call_at=lambda _, call: due.append(call))
    passes = sampling.AttemptSampler(
        cast("Any", SimpleNamespace(sample=dict)), cast("Any", clock), SAMPLE_INTERVAL
    )
    passes.add(cast("Any", Attended()))
    for late in (0.0, 600.0):
        now += SAMPLE_INTERVAL + late
        due.pop()()
    assert told == ["listens", "slept 600 s", "listens"]
