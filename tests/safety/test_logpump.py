"""What a process says reaches its log without secrets: whole, in order, and never waited for."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import resource
import select
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runtime.commands import CommandRunner
from runtime.errors import SpawnError
from runtime.limits import Limits
from runtime.logs import masking_pump
from runtime.logs.masking_pump import LogPump
from runtime.masking.masker import Masker, MaskStream
from tests.runtime.process_fixtures import GRACE, Stage, alive, staged, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from runtime.process import AgentProcess

PLANTED = "zx81/spectrum+48k"
MASKER = Masker({"HOME_KEY": PLANTED})


def descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as stage:
        stage.terminals.masker = MASKER
        yield stage


async def swept(stage: Stage, script: str, **env: str) -> str:
    process = await stage.sh(script, **env)
    await process.sweep(GRACE)
    return stage.log.read_text()


async def test_a_secret_that_the_masker_does_not_know_is_in_the_log(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.terminals.masker = Masker()
    monkeypatch.setattr(Masker, "learn", lambda *_: None)
    assert PLANTED in await swept(stage, 'echo "$KEY"', KEY=PLANTED)


async def test_a_secret_split_over_writes_and_streams_never_gets_into_the_log(stage: Stage) -> None:
    script = (
        "printf 'start zx81/'; sleep 0.05; printf 'spectrum+48k end\\n' >&2; "
        'printf "%s" "$KEY" | base64; echo "$KEY" | tr + -; printf "zx81/spec"'
    )
    said = await swept(stage, script, KEY=PLANTED)
    rows = said.splitlines()
    assert rows[0] == "start ***HOME_KEY*** end"
    assert rows[1].startswith("***HOME_KEY***")
    assert rows[2] == "zx81/spectrum-48k"
    assert rows[3] == "zx81/spec"


async def test_last_words_are_in_the_log_when_the_exit_is_told(stage: Stage) -> None:
    rows = "".join(f"row {number}\n" for number in range(5000))
    process = await stage.python(
        "import sys; sys.stdout.write(''.join(f'row {n}\\n' for n in range(5000)))"
    )
    await process.wait()
    assert stage.log.read_text() == rows
    await process.sweep(GRACE)


async def test_a_child_that_lives_on_is_heard_until_it_is_swept(stage: Stage) -> None:
    process = await stage.sh(
        "(trap 'echo zx81/spectrum+48k is ending; exit' TERM; echo up; echo $$ > child;"
        " while :; do sleep 0.02; done) & while [ ! -e child ]; do sleep 0.01; done"
    )
    await process.wait()
    await process.sweep(5)
    assert "***HOME_KEY*** is ending" in stage.log.read_text()


async def test_the_end_is_told_while_a_survivor_holds_the_pipe(
    stage: Stage, tmp_path: Path
) -> None:
    """Who holds the pipe, and is no child of the agent, is not waited for."""
    holder = await stage.terminals.spawn(
        stage.order(sys.executable, "-c", _HOLD, str(tmp_path / "door"), log=tmp_path / "h.log")
    )
    await until((tmp_path / "door").exists)
    process = await stage.python(_HAND_OVER.replace("DOOR", str(tmp_path / "door")))
    async with asyncio.timeout(10):
        await process.sweep(GRACE)
    assert stage.log.read_text() == "handed over\n"
    assert alive(holder.identity.pid)


_HOLD = """
import array, socket, sys, time
door = socket.socket(socket.AF_UNIX); door.bind(sys.argv[1]); door.listen()
guest, _ = door.accept()
_, held, *_ = guest.recvmsg(1, socket.CMSG_SPACE(4))
guest.sendall(b"k")
time.sleep(60)
"""
_HAND_OVER = """
import array, socket
guest = socket.socket(socket.AF_UNIX); guest.connect("DOOR")
rights = array.array("i", [1])
guest.sendmsg([b"f"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
guest.recv(1)
print("handed over")
"""


async def test_a_gate_s_excerpt_holds_no_secret(stage: Stage) -> None:
    runner = CommandRunner(stage.terminals, grace=GRACE)
    result = await runner.run(
        f"echo {PLANTED}; exit 1", cwd=stage.folder, log=stage.log, timeout=20, mark="gate-1"
    )
    assert result.excerpt == "***HOME_KEY***\n"


async def test_limits_are_taken_on_in_front_of_the_pipe(stage: Stage) -> None:
    order = stage.order("/bin/sh", "-c", f"ulimit -n; echo {PLANTED} >&2")
    process = await stage.terminals.spawn(replace(order, limits=Limits(open_files=64)))
    await process.sweep(GRACE)
    assert stage.log.read_text() == "64\n***HOME_KEY***\n"


@pytest.mark.parametrize("limits", [Limits(), Limits(open_files=64)])
async def test_a_start_that_fails_leaves_no_pipe_open(stage: Stage, limits: Limits) -> None:
    before = descriptors()
    with pytest.raises(SpawnError):
        await stage.terminals.spawn(replace(stage.order("/no/such/program"), limits=limits))
    assert descriptors() == before


async def test_a_full_disk_drops_output_and_says_so_once(tmp_path: Path) -> None:
    path = tmp_path / "small.log"
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    pump = LogPump(log, MASKER)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    os.write(pump.sink, b"before\n")
    pump.drain()
    # A file that may not grow is refused like one on a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (7, hard))
    try:
        for _ in range(3):
            os.write(pump.sink, b"lost\n")
            pump.drain()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    os.write(pump.sink, b"after\n")
    pump.close()
    assert path.read_bytes() == b"before\n\n[15 bytes could not be written]\nafter\n"


async def test_a_thousand_lines_a_second_cost_next_to_nothing(stage: Stage) -> None:
    """The pump wakes up some fifty times a second however many lines come."""
    process: AgentProcess = await stage.python(
        "import time\nfor n in range(20):\n"
        "  for _ in range(20): print('a line of ordinary length, a few words', flush=True)\n"
        "  time.sleep(0.02)"
    )
    began, used = time.monotonic(), time.process_time()
    await process.wait()
    share = (time.process_time() - used) / (time.monotonic() - began)
    await process.sweep(GRACE)
    assert stage.log.read_text().count("\n") == 400
    assert share < 0.25  # some 2 % by itself; generous where the machine is busy


async def test_without_secrets_no_output_comes_through_the_runner(stage: Stage) -> None:
    stage.terminals.masker = Masker()
    process = await stage.sh("[ -p /dev/fd/1 ] && echo pipe || echo file")
    await process.sweep(GRACE)
    assert stage.log.read_text() == "file\n"


@pytest.mark.parametrize("begins", [b"", b"its first page is not filled\n"])
async def test_a_pipe_that_was_full_is_read_again_without_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins: bytes
) -> None:
    """Some programs drop, when they exit, what nobody has taken from them by then."""
    monkeypatch.setattr(masking_pump, "PAUSE", 3600)
    path = tmp_path / "a.log"
    pump = LogPump(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), MASKER)
    os.set_blocking(pump.sink, False)
    said = begins + b"a line of ordinary length\n" * 200_000
    left = memoryview(said)[os.write(pump.sink, begins) :]
    left = left[os.write(pump.sink, left) :]
    pump.begin(asyncio.get_running_loop())

    def all_taken() -> bool:
        nonlocal left
        with contextlib.suppress(BlockingIOError):
            while left:
                left = left[os.write(pump.sink, left) :]
        return not left

    await until(all_taken)
    pump.close()
    assert path.read_bytes() == said


@pytest.fixture
def pump(tmp_path: Path) -> Iterator[LogPump]:
    log = os.open(tmp_path / "a.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    pump = LogPump(log, MASKER)
    os.set_blocking(pump.sink, False)
    yield pump
    pump.close()


def _hold(pump: LogPump) -> int:
    return fcntl.fcntl(pump.sink, fcntl.F_GETPIPE_SZ)


async def test_who_never_waits_gets_rid_of_a_megabyte_at_the_second_try(
    pump: LogPump, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the secrets in what was read first are looked for."""
    said = b"x" * ((1 << 20) - 1) + b"\n"
    tries = [os.write(pump.sink, said)]
    looked, written = MaskStream.feed, threading.Event()

    def slowly(stream: MaskStream, data: bytes) -> bytes:
        assert written.wait(20)
        return looked(stream, data)

    def try_again() -> None:
        with select.epoll() as room:
            room.register(pump.sink, select.EPOLLOUT)
            room.poll(20)
        tries.append(os.write(pump.sink, said[tries[0] :]))
        written.set()

    monkeypatch.setattr(MaskStream, "feed", slowly)
    writer = threading.Thread(target=try_again)
    writer.start()
    pump.begin(asyncio.get_running_loop())
    await until(lambda: (tmp_path / "a.log").stat().st_size == len(said))
    writer.join()
    assert tries == [tries[0], len(said) - tries[0]]


async def test_a_pipe_that_was_full_gives_back_what_others_may_need(
    pump: LogPump, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masking_pump, "_A_WHILE", 0.05)
    resize, held = LogPump.resize, [_hold(pump)]

    def noted(pump: LogPump, holds: int) -> None:
        resize(pump, holds)
        held.append(_hold(pump))

    monkeypatch.setattr(LogPump, "resize", noted)
    os.write(pump.sink, b"x" * held[0])
    pump.begin(asyncio.get_running_loop())
    await until(lambda: len(held) > 2)
    assert held == [held[0], 1 << 20, held[0]]
    assert (tmp_path / "a.log").stat().st_size == held[0]


async def test_a_pipe_made_where_the_user_had_none_left_grows_when_it_is_full(
    pump: LogPump, tmp_path: Path
) -> None:
    """Who uses up the pages for pipes is given two for each further one."""
    usual = _hold(pump)
    pump.resize(8192)
    assert _hold(pump) == 8192
    said = b"y" * os.write(pump.sink, b"y" * usual)
    pump.begin(asyncio.get_running_loop())
    await until(lambda: _hold(pump) >= usual)
    await until(lambda: (tmp_path / "a.log").read_bytes() == said)
