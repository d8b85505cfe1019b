"""Holding a tree still, and letting it go on."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from runtime import proc_table
from runtime.limits import NO_LIMITS, Limits
from runtime.process import ProcessExit
from runtime.processes.cgroups import probe
from tests.runtime.process_fixtures import GRACE, Stage, alive, until

if TYPE_CHECKING:
    from runtime.process import AgentProcess

CONFINED = Limits(processes=200)
BOTH = [NO_LIMITS, *([CONFINED] if probe.capabilities().processes.base else [])]
BOTH_WAYS = pytest.mark.parametrize("limits", BOTH, ids=["signals", "freezer"][: len(BOTH)])

BUSY = """
import os, time
first = os.getpid()
for _ in range(3):
    os.fork()
if os.getpid() != first and os.getpid() % 2:
    os.setsid()
while True:
    os.write(1, b'.')
    time.sleep(0.001)
"""
FORKING = """
import os, time
while True:
    if os.fork():
        time.sleep(0.002)
        os.wait()
    else:
        os.write(1, b'.')
        os._exit(0)
"""


async def _started(stage: Stage, program: str, limits: Limits) -> AgentProcess:
    order = dataclasses.replace(stage.order(sys.executable, "-c", program), limits=limits)
    process = await stage.terminals.spawn(order)
    await until(lambda: _written(stage) > 20)
    return process


def _written(stage: Stage) -> int:
    return stage.log.stat().st_size


async def _still(stage: Stage) -> bool:
    before = _written(stage)
    await asyncio.sleep(0.05)
    return _written(stage) == before


@BOTH_WAYS
@pytest.mark.parametrize("program", [BUSY, FORKING], ids=["busy", "forking"])
async def test_nothing_of_a_suspended_tree_runs_until_it_is_resumed(
    stage: Stage, program: str, limits: Limits
) -> None:
    process = await _started(stage, program, limits)
    await process.suspend()
    assert await _still(stage)
    assert process.suspended
    assert stage.terminals.sample()[process.order.spawn_id].suspended
    await process.resume()
    assert not stage.terminals.sample()[process.order.spawn_id].suspended
    before = _written(stage)
    await until(lambda: _written(stage) > before + 20)
    await process.stop(0)


@BOTH_WAYS
async def test_a_suspended_tree_uses_no_processor_time(stage: Stage, limits: Limits) -> None:
    process = await _started(stage, "import os\nwhile True:\n    os.write(1, b'.')\n", limits)
    await process.suspend()

    def ticks() -> int:
        return stage.terminals.sample()[process.order.spawn_id].cpu_ticks

    before = ticks()
    await asyncio.sleep(0.1)
    assert ticks() == before
    await process.stop(0)


@BOTH_WAYS
async def test_a_suspended_agent_hears_of_its_end_and_may_end_in_its_own_way(
    stage: Stage, limits: Limits
) -> None:
    script = (
        "trap 'echo saved; exit 7' TERM; echo 123456789012345678901; while :; do sleep 0.001; done"
    )
    order = dataclasses.replace(stage.order("/bin/sh", "-c", script), limits=limits)
    process = await stage.terminals.spawn(order)
    await until(lambda: _written(stage) > 20)
    await process.suspend()
    report = await process.stop(5)
    assert report.exit == ProcessExit(7, None)
    assert "saved" in stage.log.read_text()
    assert not process.suspended


@BOTH_WAYS
async def test_who_was_stopped_before_stays_stopped(stage: Stage, limits: Limits) -> None:
    order = stage.order("/bin/sh", "-c", "sleep 60 & echo $! > child; wait")
    process = await stage.terminals.spawn(dataclasses.replace(order, limits=limits))
    child = await stage.number("child")
    os.kill(child, signal.SIGSTOP)
    await until(lambda: _is_stopped(child))
    await process.suspend()
    await process.resume()
    await until(lambda: not _is_stopped(process.identity.pid))
    assert _is_stopped(child)
    await process.stop(GRACE)
    assert not alive(child)


def _is_stopped(pid: int) -> bool:
    row = proc_table.read_row(pid)
    return row is not None and row.stopped


@BOTH_WAYS
async def test_an_agent_that_is_killed_while_suspended_has_ended(
    stage: Stage, limits: Limits
) -> None:
    process = await _started(stage, BUSY, limits)
    await process.suspend()
    os.kill(process.identity.pid, signal.SIGKILL)
    report = await asyncio.wait_for(process.sweep(GRACE), 10)
    assert report.exit == ProcessExit(None, 9)
    assert report.survivors == ()
    assert not process.suspended


@BOTH_WAYS
async def test_suspending_twice_or_after_the_end_changes_nothing(
    stage: Stage, limits: Limits
) -> None:
    process = await _started(stage, BUSY, limits)
    await process.resume()
    await process.suspend()
    await process.suspend()
    await process.resume()
    await process.resume()
    assert not await _still(stage)
    await process.stop(0)
    await process.suspend()
    assert not process.suspended
