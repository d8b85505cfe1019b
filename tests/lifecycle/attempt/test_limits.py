"""Limits end what hangs and spare what works; stopping leaves nothing alive."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from lifecycle.machine.events import LimitReached
from lifecycle.result import LoopResultType
from lifecycle.services import SAMPLE_INTERVAL
from tests.lifecycle.world import DONE, HANG, Step, World, commit, says

COUNT = "n=0; while [ $n -lt 200000 ]; do n=$((n+1)); done"
IDLE: dict[str, Any] = {"idle_limit": 0.8, "wall_limit": 0.0}


async def _limits(world: World) -> list[str]:
    return [
        entry.event.text for entry in await world.journal() if isinstance(entry.event, LimitReached)
    ]


async def test_an_agent_that_hangs_reaches_the_idle_limit(world: World) -> None:
    result = await world.run({1: [*commit("x.txt"), HANG], 2: [DONE]}, **IDLE)
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 1)
    assert await world.outcomes() == ["hang", "task_complete"]
    assert await _limits(world) == ["no output, no file change and no CPU use for 0.8 s"]
    assert "no output, no file change" in world.prompt(2)


@pytest.mark.parametrize(
    "busy",
    [
        "end = time.process_time() + 1.6\nwhile time.process_time() < end: pass",
        "for n in range(16): print(n, flush=True); time.sleep(0.1)",
        "for n in range(16): open('busy.txt', 'w').write(str(n)); time.sleep(0.1)",
        f"import subprocess\nfor n in range(4): subprocess.run(['sh', '-c', '{COUNT}'])",
    ],
    ids=["spinning", "talking", "writing", "children"],
)
async def test_an_agent_that_works_never_reaches_the_idle_limit(world: World, busy: str) -> None:
    program = f"import time\n{busy}"
    steps: list[Step] = [
        {"run": {"argv": [sys.executable, "-S", "-c", program]}},
        {"delete": "busy.txt"},
        DONE,
    ]
    result = await world.run(steps, **IDLE)
    assert await _limits(world) == []
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 0)


async def test_an_agent_that_takes_too_long_reaches_the_wall_limit_however_busy(
    world: World,
) -> None:
    result = await world.run({1: [{"spin": 600}], 2: [DONE]}, wall_limit=0.6, idle_limit=0.0)
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 1)
    assert await world.outcomes() == ["timeout", "task_complete"]
    assert "wall limit of 0.6 s" in world.prompt(2)


async def test_a_word_that_comes_with_the_limit_still_counts(world: World) -> None:
    script = [{"ignore_term": True}, HANG]
    late = [*commit("x.txt"), says("task_complete", how="whole"), HANG]
    result = await world.run({1: late, 2: script}, **IDLE)
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 0)


async def test_an_agent_that_ignores_term_is_killed_after_the_grace(world: World) -> None:
    async with world.running([{"ignore_term": True}, {"write": {"path": "up"}}, HANG]) as running:
        await running.appears("up")
        await running.at("Working")
        await running.loop.shutdown()
    assert world.marked() == []
    [row] = await world.attempts()
    assert row.signal == 9


@pytest.mark.parametrize("clear_env", [True, False])
async def test_a_daemon_left_behind_is_ended(world: World, clear_env: bool) -> None:  # noqa: FBT001  # a parameter
    flag = world.folder / "flag"
    daemon = {"daemon": {"s": 1.5, "path": str(flag), "clear_env": clear_env}}
    result = await world.run([daemon, *commit("x.txt"), DONE])
    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert world.marked() == []
    assert not flag.exists()


async def test_what_an_agent_left_behind_is_counted(world: World) -> None:
    await world.run([{"daemon": 600}, {"exit": 1}], max_retries=0)
    [row] = await world.attempts()
    assert row.swept >= 1


async def test_a_flood_of_output_is_cut_in_the_middle(world: World) -> None:
    steps: list[Step] = [{"say": "first words"}, {"flood": 3_000_000}, {"say": "last words"}, DONE]
    result = await world.run(steps, log_cap_bytes=100_000)
    assert result.result_type is LoopResultType.TASK_COMPLETE
    log = world.paths.log("agent-T001", 1).read_bytes()
    assert len(log) < 120_000
    assert log.startswith(b"first words\n")
    assert b"last words" in log[-200:]
    assert b"bytes left out" in log


def test_living_agents_are_measured_often_enough_for_the_default_limits() -> None:
    assert SAMPLE_INTERVAL <= 5
