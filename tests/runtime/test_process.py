"""Starting a process, and noticing and reporting its exit."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import stat
import sys
import threading
from typing import TYPE_CHECKING, Never

import pytest

from runtime import proc_table
from runtime.errors import ShortageError, SpawnError
from runtime.process import ProcessExit, TerminalManager
from tests.runtime.process_fixtures import GRACE, Stage, until

if TYPE_CHECKING:
    from pathlib import Path


DUMP = "import json, os; json.dump(dict(os.environ), open('env.json', 'w'))"


async def test_the_prompt_is_on_standard_input_and_ends(stage: Stage) -> None:
    stage.prompt.write_text("the task\nits summary\n")
    process = await stage.sh("cat > got; echo end >> got")
    assert await process.wait() == ProcessExit(0, None)
    assert (stage.folder / "got").read_text() == "the task\nits summary\nend\n"


async def test_an_agent_that_ends_before_reading_a_huge_prompt_disturbs_nothing(
    stage: Stage,
) -> None:
    stage.prompt.write_bytes(b"x" * (1 << 20))
    process = await stage.sh("exit 3")
    assert (await process.sweep(GRACE)).exit == ProcessExit(3, None)


async def test_a_signal_that_ended_the_process_is_reported(stage: Stage) -> None:
    assert await (await stage.sh("kill -KILL $$")).wait() == ProcessExit(None, 9)


async def test_standard_output_and_error_go_to_the_log(stage: Stage) -> None:
    await (await stage.sh("echo out; echo err >&2")).sweep(GRACE)
    assert stage.log.read_text() == "out\nerr\n"


async def test_the_log_is_for_the_owner_only(stage: Stage) -> None:
    await (await stage.sh("true")).sweep(GRACE)
    assert stat.S_IMODE(stage.log.stat().st_mode) == 0o600
    assert stat.S_IMODE(stage.log.parent.stat().st_mode) == 0o700


async def test_a_second_run_appends_to_the_log_of_the_first(stage: Stage) -> None:
    await (await stage.sh("echo first")).sweep(GRACE)
    await (await stage.sh("echo second")).sweep(GRACE)
    assert stage.log.read_text() == "first\nsecond\n"


async def test_the_process_leads_its_own_session_in_the_given_folder(stage: Stage) -> None:
    process = await stage.sh("pwd -P; exec sleep 60")
    pid = process.identity.pid
    assert os.getsid(pid) == pid != os.getsid(0)
    await until(lambda: stage.log.read_text() == f"{stage.folder.resolve()}\n")
    await process.stop(GRACE)


async def test_nothing_of_the_runners_environment_passes_but_the_allow_list(
    tmp_path: Path,
) -> None:
    terminals = TerminalManager(
        tmp_path,
        environ={
            "PATH": os.environ["PATH"],
            "HOME": "/home/ada",
            "LC_TIME": "C",
            "HTTPS_PROXY": "http://proxy:3128",
            "http_proxy": "http://ada:canary@proxy:3128",
            "ANTHROPIC_API_KEY": "canary",
            "GITHUB_TOKEN": "canary",
            "GIT_DIR": "/canary",
            "PYTHONPATH": "/canary",
            "VIRTUAL_ENV": "/canary",
            "SSH_AUTH_SOCK": "/canary",
            "LOOPWRIGHT_AGENT_ID": "canary",
        },
    )
    stage = Stage(tmp_path, terminals)
    order = stage.order(sys.executable, "-c", DUMP, env={"LOOPWRIGHT_TASK_ID": "T001"})
    await (await terminals.spawn(order)).sweep(GRACE)
    got = json.loads((tmp_path / "env.json").read_text())
    assert "canary" not in json.dumps(got)
    got.pop("LC_CTYPE", None)  # Python sets it for itself
    assert got == {
        "PATH": os.environ["PATH"],
        "HOME": "/home/ada",
        "LC_TIME": "C",
        "HTTPS_PROXY": "http://proxy:3128",
        "LOOPWRIGHT_TASK_ID": "T001",
        "LOOPWRIGHT_SPAWN_ID": order.spawn_id,
        "LOOPWRIGHT_MACHINE_ID": terminals.machine,
    }


async def test_no_descriptor_of_the_runner_reaches_the_child(stage: Stage) -> None:
    with (stage.folder / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)  # noqa: FBT003  # its only parameter
        await (await stage.sh("ls -l /proc/$$/fd")).sweep(GRACE)
    assert "secret" not in stage.log.read_text()


async def test_a_script_without_a_first_line_is_refused(stage: Stage) -> None:
    program = stage.folder / "agent"
    program.write_text("echo hello\n")
    program.chmod(0o755)
    with pytest.raises(SpawnError, match="first line"):
        await stage.terminals.spawn(stage.order("./agent"))


async def test_a_missing_workspace_is_refused(stage: Stage) -> None:
    stage.folder = stage.folder / "gone"
    with pytest.raises(SpawnError, match="no such folder"):
        await stage.terminals.spawn(stage.order("true"))


async def test_a_missing_prompt_is_named(stage: Stage) -> None:
    stage.prompt.unlink()
    with pytest.raises(SpawnError, match=r"prompt\.md"):
        await stage.terminals.spawn(stage.order("true"))


async def test_a_process_that_cannot_be_identified_is_ended_and_not_left_unknown(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    def refused(pid: int, *_: object) -> Never:
        started.append(pid)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(proc_table, "start_of", refused)
    with pytest.raises(ShortageError, match="EMFILE"):
        await stage.sh("sleep 600")
    assert len(started) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


async def test_an_empty_command_is_refused(stage: Stage) -> None:
    with pytest.raises(SpawnError, match="has no command"):
        await stage.terminals.spawn(stage.order())


async def test_the_identity_names_the_process_beyond_doubt(stage: Stage) -> None:
    process = await stage.sh("exec sleep 60")
    identity = process.identity
    row = proc_table.read_row(identity.pid)
    assert row is not None
    assert identity.start_time == row.start > 0
    assert identity.boot_id == proc_table.boot_id() != ""
    assert identity.mark == process.order.spawn_id
    await until(lambda: proc_table.read_mark(identity.pid) == identity.mark)
    await process.stop(GRACE)


async def test_live_lists_a_process_until_nothing_of_it_is_left(stage: Stage) -> None:
    process = await stage.sh("sleep 60 & exit 0")
    await process.wait()
    assert stage.terminals.live() == (process,)
    await process.sweep(GRACE)
    assert stage.terminals.live() == ()


async def test_cancelling_one_who_waits_disturbs_no_other(stage: Stage) -> None:
    process = await stage.sh("read line; exec sleep 60")
    first = asyncio.create_task(process.wait())
    second = asyncio.create_task(process.wait())
    await asyncio.sleep(0)
    first.cancel()
    await process.stop(GRACE)
    assert await second == ProcessExit(None, 15)


async def test_fifty_processes_at_once_each_report_their_own_exit(stage: Stage) -> None:
    async def one(code: int) -> int | None:
        log = stage.folder / f"{code}.log"
        order = stage.order("/bin/sh", "-c", f"exit {code}", log=log)
        process = await stage.terminals.spawn(order)
        report = await process.sweep(GRACE)
        return report.exit.code if report.exit else None

    assert await asyncio.gather(*map(one, range(50))) == list(range(50))


async def test_nothing_is_left_of_processes_that_ended(stage: Stage) -> None:
    def resources() -> tuple[int, list[int], int]:
        descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # a count
        return descriptors, sorted(proc_table.own_children()), threading.active_count()

    await (await stage.sh("true")).sweep(GRACE)  # the loop's own descriptors are there by now
    before = resources()
    for script in ("true", "sleep 60 &", "setsid sleep 60 &", "(sleep 0 &)"):
        await (await stage.sh(script)).sweep(GRACE)
    running = [await stage.sh("sleep 60; :") for _ in range(5)]
    await asyncio.gather(*(process.stop(GRACE) for process in running))
    assert resources() == before


async def test_without_process_handles_a_thread_notices_the_exit(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_pid: int) -> int:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refused)
    assert (await (await stage.sh("exit 5")).sweep(GRACE)).exit == ProcessExit(5, None)
    process = await stage.sh("trap '' TERM; echo up; sleep 60; sleep 60")
    await until(lambda: "up" in stage.log.read_text())
    report = await process.stop(GRACE)
    assert report.exit == ProcessExit(None, 9)
    assert report.forced
    await until(lambda: not any(t.name.startswith("exit-of-") for t in threading.enumerate()))


async def test_a_process_somebody_else_reaped_has_an_unknown_exit(stage: Stage) -> None:
    process = await stage.sh("exit 5")
    os.waitpid(process.identity.pid, 0)  # noqa: ASYNC222  # before the loop can notice
    assert await process.wait() == ProcessExit(None, None)
