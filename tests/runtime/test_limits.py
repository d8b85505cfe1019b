"""Limits: refused where they cannot be given, and never given in part without being told."""

from __future__ import annotations

import dataclasses
import os
import resource
import sys
from typing import TYPE_CHECKING, Any

import pytest

from runtime.errors import SpawnError
from runtime.limits import Limits, LimitUnavailableError
from runtime.process import ProcessExit, TerminalManager
from runtime.processes.cgroups import names, probe
from tests.runtime.process_fixtures import GRACE, Stage, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from runtime.process import SpawnOrder

ABLE = probe.capabilities()
ALL = Limits(memory_mb=512, cpu_percent=100, processes=50, open_files=100)
HERE = Limits(
    memory_mb=512 if ABLE.memory.base else None,
    cpu_percent=100 if ABLE.cpu.base else None,
    processes=50 if ABLE.processes.base else None,
    open_files=100,
)
"""What this machine gives."""


@pytest.fixture
async def poor(tmp_path: Path) -> AsyncIterator[Stage]:
    """A machine without control groups."""
    folder = tmp_path / "poor"
    folder.mkdir()
    stage = Stage(folder, TerminalManager(folder, able=probe.nothing("there are none")))
    yield stage
    await stage.terminals.aclose(GRACE)


def limited(order: SpawnOrder, limits: Limits, **more: Any) -> SpawnOrder:
    return dataclasses.replace(order, limits=limits, **more)


@pytest.mark.parametrize("name", ["memory_mb", "cpu_percent", "processes", "open_files"])
def test_a_limit_that_allows_nothing_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0. Set it to"):
        Limits(**{name: 0})


def test_no_limits_are_false() -> None:
    assert not Limits()
    assert Limits(processes=1)


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (Limits(memory_mb=5), "memory limit 5 MB"),
        (Limits(cpu_percent=5), "processor limit 5 %"),
        (Limits(processes=5), "process limit 5"),
    ],
)
async def test_a_limit_that_cannot_be_given_is_refused_with_the_reason_and_a_remedy(
    poor: Stage, limits: Limits, text: str
) -> None:
    with pytest.raises(LimitUnavailableError, match=f"{text} .*there are none.*systemd-run"):
        await poor.terminals.spawn(limited(poor.order("true"), limits))
    assert poor.terminals.live() == ()


async def test_a_weaker_start_is_possible_and_tells_what_is_weaker(poor: Stage) -> None:
    order = limited(poor.order("/bin/sh", "-c", "ulimit -n"), ALL, allow_weaker=True)
    process = await poor.terminals.spawn(order)
    await process.sweep(GRACE)
    assert process.weaker == (
        "the memory limit 512 MB is only watched, every few seconds: there are none",
        "the processor limit 100 % is not enforced: there are none",
        "the process limit 50 is not enforced: there are none",
    )
    assert poor.log.read_text() == "100\n"


async def test_a_watched_memory_limit_ends_the_tree_at_the_next_measurement(poor: Stage) -> None:
    program = (
        "import os, time\nos.fork()\nx = b'x' * 50_000_000\nprint('up', flush=True)\ntime.sleep(60)"
    )
    order = poor.order(sys.executable, "-c", program)
    process = await poor.terminals.spawn(limited(order, Limits(memory_mb=80), allow_weaker=True))
    await until(lambda: poor.log.read_text().count("up") == 2)
    assert process.limit_reached == ""
    assert poor.terminals.sample()[order.spawn_id].memory_bytes > 80 << 20
    report = await process.sweep(GRACE)
    assert process.limit_reached == "memory limit 80 MB"
    assert (report.exit, report.survivors) == (ProcessExit(None, 9), ())


async def test_what_is_shared_counts_once_for_a_watched_limit(poor: Stage) -> None:
    program = (
        "import os, time\nx = b'x' * 50_000_000\nos.fork()\nprint('up', flush=True)\ntime.sleep(60)"
    )
    order = poor.order(sys.executable, "-c", program)
    process = await poor.terminals.spawn(limited(order, Limits(memory_mb=90), allow_weaker=True))
    await until(lambda: poor.log.read_text().count("up") == 2)
    assert poor.terminals.sample()[order.spawn_id].memory_bytes > 90 << 20
    assert process.limit_reached == ""
    await process.stop(GRACE)


async def test_a_limited_agent_is_the_ordered_program_and_nothing_is_left_of_its_start(
    stage: Stage,
) -> None:
    script = 'cat; echo "$0 $1"; ls /proc/self/fd | wc -l; echo oops >&2; exit 3'
    plain = await stage.terminals.spawn(stage.order("/bin/sh", "-c", script, "a b", "c'd"))
    await plain.sweep(GRACE)
    order = stage.order("/bin/sh", "-c", script, "a b", "c'd", log=stage.folder / "limited")
    process = await stage.terminals.spawn(limited(order, HERE))
    report = await process.sweep(GRACE)
    assert report.exit == ProcessExit(3, None)
    assert (stage.folder / "limited").read_text() == stage.log.read_text()
    assert process.limit_reached == ""


async def test_the_group_of_a_limited_agent_lasts_as_long_as_the_agent(stage: Stage) -> None:
    order = limited(stage.order("/bin/sh", "-c", "exec sleep 60"), HERE)
    process = await stage.terminals.spawn(order)
    groups = names.left(probe.tops(), order.spawn_id).get(order.spawn_id, [])
    assert bool(groups) == bool(HERE.processes)
    assert all(group.members() == {process.identity.pid} for group in groups)
    assert not any(names.is_orphaned(group) for group in groups)
    await process.stop(GRACE)
    await until(lambda: not names.left(probe.tops(), order.spawn_id))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("no-such-program", "was not found"),
        ("./missing", r"was not found .* Install it"),
        ("./plain-file", r"is not executable. .*chmod"),
    ],
)
async def test_what_cannot_start_is_refused_as_without_limits(
    stage: Stage, command: str, said: str
) -> None:
    (stage.folder / "plain-file").write_text("x")
    order = stage.order(command)
    with pytest.raises(SpawnError, match=said):
        await stage.terminals.spawn(order)
    with pytest.raises(SpawnError, match=said):
        await stage.terminals.spawn(limited(order, HERE))
    assert names.left(probe.tops(), order.spawn_id) == {}


async def test_where_no_group_can_be_made_nothing_is_started(stage: Stage) -> None:
    able = dataclasses.replace(
        probe.nothing("no"), processes=probe.Ability(stage.folder / "missing", 2)
    )
    terminals = TerminalManager(stage.folder, able=able)
    with pytest.raises(SpawnError, match="No control group could be made"):
        await terminals.spawn(limited(stage.order("touch", "ran"), Limits(processes=5)))
    assert not (stage.folder / "ran").exists()
    assert terminals.live() == ()


@pytest.fixture
def closed() -> Iterator[probe.Capabilities]:
    """Control groups that can be made, but not joined: their neighbour shares out threads only."""
    if ABLE.kill.base is None or ABLE.kill.version == 1:
        yield ABLE
        return
    base = ABLE.kill.base / f"loopwright-trial-{os.getpid()}"
    (base / "neighbour").mkdir(parents=True)
    (base / "neighbour" / "cgroup.type").write_text("threaded")
    yield dataclasses.replace(ABLE, kill=probe.Ability(base, 2), freeze=probe.Ability(base, 2))
    (base / "neighbour").rmdir()
    base.rmdir()


async def test_an_agent_that_cannot_join_its_group_is_not_started(
    stage: Stage, closed: probe.Capabilities
) -> None:
    terminals = TerminalManager(stage.folder, able=closed)
    order = limited(stage.order("touch", "ran"), HERE)
    if closed is ABLE:
        order = limited(stage.order("touch", "ran"), Limits(processes=1 << 40))
    with pytest.raises(SpawnError, match=r"so it was not started|cannot be enforced|be made"):
        await terminals.spawn(order)
    assert not (stage.folder / "ran").exists()
    assert terminals.live() == ()
    assert names.left(probe.tops(), order.spawn_id) == {}


async def test_complaints_of_the_loader_do_not_keep_an_agent_from_its_start(stage: Stage) -> None:
    order = stage.order("echo", "fine", env={"LD_PRELOAD": "missing.so"})
    process = await stage.terminals.spawn(limited(order, HERE))
    report = await process.sweep(GRACE)
    assert report.exit == ProcessExit(0, None)
    assert stage.log.read_text().endswith("fine\n")


async def test_core_dumps_are_off_for_all_and_nothing_of_the_runner_changes(stage: Stage) -> None:
    before = [resource.getrlimit(number) for number in range(16)]
    # It is closed for good a moment after the start.
    script = "ulimit -Sc; while [ $(ulimit -Hc) != 0 ]; do :; done; ulimit -c 100; ulimit -Sc"
    process = await stage.sh(script)
    await process.sweep(GRACE)
    assert stage.log.read_text().split()[0] == "0"
    assert stage.log.read_text().split()[-1] == "0"
    assert [resource.getrlimit(number) for number in range(16)] == before


async def test_the_group_counts_the_memory_that_a_measurement_tells(stage: Stage) -> None:
    order = limited(
        stage.order(sys.executable, "-c", "x = b'x' * 30_000_000; import time; time.sleep(60)"),
        HERE,
    )
    process = await stage.terminals.spawn(order)
    await until(lambda: stage.terminals.sample()[order.spawn_id].memory_bytes > 30_000_000)
    await process.stop(0)
