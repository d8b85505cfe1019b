"""How many agents there is room for, by what the system says."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest  # noqa: TC002  # pytest resolves the fixture

from runtime import capacity
from runtime.proc_table import tasks_of
from runtime.thread_pool import SteadyPool, provide

ROOT = Path(__file__).resolve().parents[2]


def _in_a_process(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_limit_of_descriptors_is_raised_for_us_alone() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    code = f"""
import resource, subprocess
from runtime import capacity
from runtime.processes import lineage_tag
resource.setrlimit(resource.RLIMIT_NOFILE, (256, {hard}))
capacity.raise_files()
ours = resource.getrlimit(resource.RLIMIT_NOFILE)
with lineage_tag.tagging("a"):
    told = subprocess.run(["/bin/sh", "-c", "ulimit -Sn; ulimit -Hn"], capture_output=True)
print(ours[0], resource.getrlimit(resource.RLIMIT_NOFILE) == ours, *told.stdout.decode().split())
"""
    assert _in_a_process(code) == f"{hard} True 256 {hard}"


def test_who_has_more_open_than_a_child_may_have_can_start_it_all_the_same() -> None:
    code = """
import os, resource, subprocess
from runtime import capacity
from runtime.processes import lineage_tag
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 256))
capacity.raise_files()
kept = [os.open(os.devnull, os.O_RDONLY) for _ in range(100)]
with lineage_tag.tagging("a"):
    print(subprocess.run(["/bin/true"]).returncode)
"""
    assert _in_a_process(code) == "0"


def test_fewer_descriptors_leave_room_for_fewer_agents() -> None:
    found = [
        _in_a_process(
            "import resource; from runtime import capacity; "
            f"resource.setrlimit(resource.RLIMIT_NOFILE, ({most}, {most})); "
            "print(*capacity.room_for_agents())"
        )
        for most in (30, 64, 128)
    ]
    rooms = [int(each.split()[0]) for each in found]
    assert rooms[0] == 1
    assert rooms == sorted(rooms)
    assert rooms[2] > rooms[1] > 1
    assert "`ulimit -n`" in found[0]


def test_a_control_group_with_few_processes_leaves_room_for_few_agents(tmp_path: Path) -> None:
    (tmp_path / "pids.max").write_text("64\n")
    (tmp_path / "pids.current").write_text("16\n")
    found = capacity._of_group(tmp_path)
    assert found is not None
    assert found.agents == 9
    assert f"{tmp_path} may have 64 processes" in found.why
    (tmp_path / "pids.max").write_text("max\n")
    assert capacity._of_group(tmp_path) is None
    assert capacity._of_group(tmp_path / "none") is None


def test_there_is_room_for_one_agent_however_little_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(capacity, "_of_machine", lambda: capacity.Room(-7, "nothing is left"))
    assert capacity.room_for_agents() == capacity.Room(1, "nothing is left", tight=True)


def test_our_own_processes_and_threads_are_counted() -> None:
    over = threading.Event()
    before = tasks_of(os.getuid())
    threads = [threading.Thread(target=over.wait, daemon=True) for _ in range(30)]
    try:
        for thread in threads:
            thread.start()
        # Other tests run beside this one.
        assert before - 25 < tasks_of(os.getuid()) - 30 < before + 25
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_a_pool_makes_do_with_the_threads_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    with SteadyPool(4) as pool:
        held, begun = threading.Event(), threading.Event()

        def hold() -> None:
            begun.set()
            held.wait()

        first = pool.submit(hold)
        assert begun.wait(10)
        monkeypatch.setattr(threading.Thread, "start", refuse)
        later = [pool.submit(int, number) for number in range(5)]
        monkeypatch.undo()
        held.set()
        assert [each.result(10) for each in later] == list(range(5))
        first.result(10)


async def test_a_loop_keeps_a_pool_that_it_has() -> None:
    provide()
    await asyncio.to_thread(int)
    loop = asyncio.get_running_loop()
    mine = loop._default_executor  # type: ignore[attr-defined]  # no public name tells
    assert isinstance(mine, SteadyPool)
    provide()
    assert loop._default_executor is mine  # type: ignore[attr-defined]  # as above
