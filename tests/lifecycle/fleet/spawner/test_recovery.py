"""After a crash of the runner everything it left is found, ended, and recorded as ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.fleet.api.instances import InstanceState
from lifecycle.fleet.spawner.runner_identity import has_runner, this_runner
from lifecycle.loop import AgentLifecycleLoop
from lifecycle.plan import Plan, Task
from lifecycle.store.instances import InstanceFilter
from lifecycle.store.sqlite.store import SqliteStore
from runtime.branches import BranchManager
from runtime.process import TerminalManager
from runtime.workspace import WorkspaceManager
from tests.lifecycle.fleet.spawner_world import alive, staged
from tests.runtime.processes.watchdog.watchdogs import kill_with_watchdogs
from tests.waiting import until, wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


ROOT = Path(__file__).resolve().parents[4]
S = InstanceState
RUNNER = """
import asyncio, sys, time
from pathlib import Path
from lifecycle.store.sqlite.store import SqliteStore
from tests.lifecycle.fleet.spawner_world import staged

DAEMON = '''
import os, time
if os.fork() == 0:
    os.setsid()
    open("daemon", "w").write(f"{os.getpid()}\\\\n")
    time.sleep(600)
open("leader", "w").write(f"{os.getpid()}\\\\n")
time.sleep(600)
'''

async def main(folder):
    async with (
        await SqliteStore.open(folder / "state.db") as store,
        staged(folder, store=store) as stage,
    ):
        await stage.spawner.spawn(stage.request({"name": "object"}))
        program = stage.program(DAEMON, cwd=folder)
        await stage.spawner.spawn(stage.request_for(program, {"name": "program"}))
        deaf = stage.shell("trap '' TERM; echo deaf; sleep 600", ready_text="deaf")
        instance = await stage.spawner.spawn(stage.request_for(deaf, {"name": "ending"}))
        stopping = asyncio.create_task(stage.spawner.terminate(instance.instance_id))
        while not all((folder / name).exists() for name in ("daemon", "leader")):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        (folder / "up").touch()
        await stopping

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.fixture
def crashed(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """Let a runner spawn three instances and be killed, and its watchdog with it.

    Returns a leader and its daemon.
    """
    runner = subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        wait_until(lambda: (tmp_path / "up").exists() or runner.poll() is not None)
        assert runner.poll() is None
    finally:
        kill_with_watchdogs(runner.pid)
        runner.wait()
    pids = int((tmp_path / "leader").read_text()), int((tmp_path / "daemon").read_text())
    yield pids
    for pid in pids:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


@asynccontextmanager
async def opened(folder: Path, store: SqliteStore) -> AsyncIterator[None]:
    """Open the loops of a repository on a store."""
    repo = folder / "repo"
    subprocess.run(["git", "init", "-q", "-b", "main", str(repo)], check=True)  # noqa: ASYNC221  # nothing else runs
    loop = AgentLifecycleLoop(
        repo_dir=repo,
        plan=Plan(tasks=(Task.model_validate({"id": "T001", "title": "Any"}),)),
        ci_provider=None,
        terminal_manager=TerminalManager(repo),
        branch_manager=BranchManager(repo),
        workspace_manager=WorkspaceManager(repo),
        store=store,
    )
    async with loop.opened():
        yield


async def test_who_opens_the_loops_ends_what_a_killed_runner_had_spawned(
    tmp_path: Path, crashed: tuple[int, int]
) -> None:
    assert [alive(pid) for pid in crashed] == [True, True]
    async with (
        await SqliteStore.open(tmp_path / "state.db") as store,
        opened(tmp_path, store),
    ):
        assert [alive(pid) for pid in crashed] == [False, False]
        rows = store.instances
        assert await rows.live_rows() == ()
        ended = {each.name: each for each in await rows.list(InstanceFilter(ended=True))}
        assert {name: each.state for name, each in ended.items()} == {
            "object": "failed",
            "program": "failed",
            "ending": "terminated",
        }
        lost = "its runner ended while it was alive"
        assert ended["object"].error_message == lost
        assert ended["program"].error_message == f"{lost}; 2 processes of it were ended"
        kinds = [each.event_type for each in await rows.events(ended["program"].id)]
        assert kinds[-1] == "AgentTerminatedEvent"


async def test_who_opens_the_loops_leaves_alone_what_a_living_runner_has(tmp_path: Path) -> None:
    async with (
        await SqliteStore.open(tmp_path / "state.db") as store,
        staged(tmp_path, store=store) as stage,
    ):
        instance = await stage.spawner.spawn(stage.request_for(stage.shell("sleep 600")))
        async with opened(tmp_path, store):
            assert alive(instance.details["pid"])
            assert len(await store.instances.live_rows()) == 1


@pytest.mark.parametrize("change", [{"start_time": 1}, {"boot_id": "another"}, {"pid": 2**22 + 1}])
def test_a_process_that_has_the_number_of_a_runner_by_now_is_not_that_runner(
    change: dict[str, Any],
) -> None:
    assert has_runner({"runner": this_runner()})
    assert not has_runner({"runner": {**this_runner(), **change}})
    assert not has_runner({})


async def test_a_spawner_recovers_what_another_has_lost_and_not_its_own(tmp_path: Path) -> None:
    store = SqliteStore.in_memory()
    async with staged(tmp_path, store=store) as former, staged(tmp_path, store=store) as stage:
        lost = await former.spawner.spawn(former.request())
        own = await stage.spawner.spawn(stage.request_for(stage.shell("sleep 600")))

        recovered = await stage.spawner.recover()

        assert [(each.instance_id, each.state) for each in recovered] == [
            (lost.instance_id, InstanceState.FAILED)
        ]
        assert await stage.spawner.recover() == ()
        assert alive(own.details["pid"])


async def test_a_program_whose_record_was_never_written_is_ended_too(tmp_path: Path) -> None:
    async with staged(tmp_path) as former, staged(tmp_path) as stage:
        lost = await former.spawner.spawn(former.request_for(former.shell("sleep 600")))

        assert await stage.spawner.recover() == ()

        await until(lambda: not alive(lost.details["pid"]))
