"""Shell commands: their result, their limit, their output, and nothing left behind."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from runtime.commands import CommandResult, CommandRunner
from runtime.limits import Limits
from runtime.processes.cgroups import probe
from tests.runtime.process_fixtures import GRACE, Stage, alive, until


async def run(stage: Stage, command: str, limit: float = 30, **env: str) -> CommandResult:
    runner = CommandRunner(stage.terminals, grace=GRACE, log_cap=1 << 20)
    return await runner.run(
        command,
        cwd=stage.folder,
        log=stage.log,
        timeout=limit,
        env=env,
        mark=f"gate-{uuid.uuid4().hex}",
    )


@pytest.mark.parametrize(
    ("command", "code", "signal", "said"),
    [
        ("echo out; echo err >&2", 0, None, "out\nerr\n"),
        ("echo reason; exit 3", 3, None, "reason\n"),
        ("kill -SEGV $$", None, 11, ""),
    ],
)
async def test_a_command_is_ok_if_it_ends_with_0(
    stage: Stage, command: str, code: int | None, signal: int | None, said: str
) -> None:
    result = await run(stage, command)
    assert result.ok is (code == 0)
    assert (result.code, result.signal, result.timed_out) == (code, signal, False)
    assert (result.command, result.log) == (command, stage.log)
    assert result.excerpt == stage.log.read_text() == said


async def test_the_limit_ends_the_whole_tree(stage: Stage) -> None:
    command = "setsid sleep 600 & echo $! > far; sleep 600 & echo $! > near; echo working; wait"
    result = await run(stage, command, limit=0.5)
    assert result.timed_out
    assert not result.ok
    assert result.signal == 15
    assert 0.5 <= result.seconds < 20
    assert result.excerpt == "working\n"
    assert not alive(await stage.number("near"))
    assert not alive(await stage.number("far"))


async def test_what_a_finished_command_left_in_the_background_is_ended(stage: Stage) -> None:
    result = await run(stage, "sleep 600 & echo $! > left")
    assert result.ok
    assert not alive(await stage.number("left"))


async def test_a_cancelled_command_is_ended(stage: Stage) -> None:
    running = asyncio.create_task(run(stage, "echo $$ > shell; sleep 600; :", limit=600))
    shell = await stage.number("shell")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not alive(shell)
    await until(lambda: stage.terminals.live() == ())


async def test_a_command_has_nothing_to_read(stage: Stage) -> None:
    assert (await run(stage, "cat", limit=10)).ok


async def test_the_given_environment_is_all_that_is_added(stage: Stage) -> None:
    result = await run(stage, "echo $SUITE-$PYTEST_CURRENT_TEST", SUITE="unit")
    assert result.excerpt == "unit-\n"


async def test_the_excerpt_of_a_second_run_holds_nothing_of_the_first(stage: Stage) -> None:
    await run(stage, "echo first")
    assert (await run(stage, "echo second")).excerpt == "second\n"
    assert stage.log.read_text() == "first\nsecond\n"


async def test_a_flood_is_quoted_by_its_end(stage: Stage) -> None:
    result = await run(stage, "head -c 5000000 /dev/zero | tr '\\0' x; echo; echo the end")
    assert result.excerpt.endswith("x\nthe end\n")
    assert len(result.excerpt) <= 8 << 10
    assert stage.log.stat().st_size <= 1 << 20


async def test_a_command_that_failed_at_a_limit_names_it(stage: Stage) -> None:
    runner = CommandRunner(stage.terminals, grace=GRACE)
    result = await runner.run(
        "ulimit -n; for i in 1 2 3 4 5 6 7 8; do sleep 60 & done",
        cwd=stage.folder,
        log=stage.log,
        timeout=30,
        mark=f"gate-{uuid.uuid4().hex}",
        limits=Limits(processes=4, open_files=77),
        allow_weaker=True,
    )
    assert result.excerpt.startswith("77\n")
    enforced = probe.capabilities().processes.base is not None
    assert result.limit_reached == ("process limit 4" if enforced else "")
    assert result.ok != enforced
