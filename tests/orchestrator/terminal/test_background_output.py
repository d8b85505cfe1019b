"""A terminal or pipe that takes nothing holds up no loop, and no end."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import termios
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from orchestrator.terminal.background_output import (
    MOST_WAITING,
    BackgroundStream,
    OutputThread,
    ProgressStream,
    background_output,
)
from orchestrator.terminal.live_area import REMEMBERED, LiveArea
from tests.orchestrator.loopkit import BIN, DONE, PATIENCE, of_store, until

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from lifecycle.store.sqlite.store import SqliteStore
    from tests.orchestrator.loopkit import World


@contextmanager
def _on(world: World, out: int, *args: str) -> Generator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [BIN / "loopwright", *args],
        cwd=world.repo,
        env={**os.environ, "TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=out,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _full_pipe() -> tuple[int, int]:
    """Return a pipe into which nothing more goes."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    with suppress(BlockingIOError):
        while os.write(theirs, b"x" * 4096):
            pass
    os.set_blocking(theirs, True)
    return ours, theirs


def _stopped_terminal() -> tuple[int, int]:
    """Return a terminal that takes nothing, as after Ctrl-S."""
    ours, theirs = pty.openpty()
    termios.tcflow(theirs, termios.TCOOFF)
    return ours, theirs


def _read_to_the_end(fd: int) -> str:
    said = b""
    while True:
        try:
            piece = os.read(fd, 65_536)
        except OSError:  # the terminal is closed
            return said.decode()
        if not piece:
            return said.decode()
        said += piece


def _is_done(world: World) -> bool:
    async def asked(store: SqliteStore) -> bool:
        record = await store.get("agent-T001")
        return record is not None and type(record.work).__name__ == "Completed"

    return of_store(world.repo, asked)


@pytest.mark.parametrize("plain", [(), ("--plain",)])
def test_a_terminal_that_takes_nothing_holds_up_neither_the_loops_nor_the_end(
    world: World, plain: tuple[str, ...]
) -> None:
    world.call("add", "x", "--command", world.script("agent", [DONE]))
    ours, theirs = _stopped_terminal()
    with _on(world, theirs, "up", *plain) as process:
        assert process.wait(PATIENCE) == 0
    assert _is_done(world)
    os.close(ours)
    os.close(theirs)


def test_a_full_pipe_holds_up_no_loop_and_loses_no_result(world: World) -> None:
    world.call("add", "x", "--command", world.script("agent", [DONE]))
    ours, theirs = _full_pipe()
    with _on(world, theirs, "up", "--no-server") as process:
        os.close(theirs)
        until(lambda: _is_done(world), "the loop ends")
        said = _read_to_the_end(ours)
        assert process.wait(PATIENCE) == 0
    assert " agent-T001: attempt 1 started" in said
    assert "Next: loopwright accept agent-T001" in said
    os.close(ours)


def test_a_terminal_that_takes_output_again_shows_the_present_table(world: World) -> None:
    world.call("add", "x", "--command", world.script("agent", [{"say": "Reading"}, {"sleep": 60}]))
    ours, theirs = _stopped_terminal()
    with _on(world, theirs, "up", "--no-server") as process:
        until(lambda: "working" in world.call("ps").stdout, "the agent works")
        termios.tcflow(theirs, termios.TCOON)
        os.close(theirs)
        shown = ""
        while "Reading" not in shown:
            shown += os.read(ours, 65_536).decode()
        process.send_signal(signal.SIGINT)
        shown += _read_to_the_end(ours)
        assert process.wait(PATIENCE) == 130
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l"), "the cursor is shown again"
    os.close(ours)


def test_while_a_terminal_takes_nothing_the_newest_frame_and_bounded_lines_are_kept() -> None:
    ours, theirs = _stopped_terminal()
    # Else the terminal changes what is written.
    mode = termios.tcgetattr(theirs)
    mode[1] &= ~termios.OPOST
    termios.tcsetattr(theirs, termios.TCSANOW, mode)
    writer = OutputThread(theirs)
    with os.fdopen(os.dup(theirs), "w") as file:
        stream = BackgroundStream(file, writer, must=False)
        area = LiveArea(stream)  # type: ignore[arg-type]  # as standard error is replaced
        area.open()
        until(lambda: stream.behind, "the terminal is stuck")
        for number in range(REMEMBERED + 7):
            area.show(lambda number=number: [f"frame {number}"])  # type: ignore[misc]
            area.print(lambda _width, number=number: [f"line {number}"])  # type: ignore[misc]
        termios.tcflow(theirs, termios.TCOON)
        until(lambda: not stream.behind, "the terminal takes output")
        area.show(lambda: ["newest frame"])
        writer.close(PATIENCE)
    os.close(theirs)
    shown = _read_to_the_end(ours)
    assert "\nframe" not in shown
    assert "(7 lines before these were left out)\nline 7\n" in shown
    assert shown.endswith(f"line {REMEMBERED + 6}\nnewest frame\n")
    os.close(ours)


def test_lines_into_a_full_pipe_are_bounded_and_results_are_not() -> None:
    ours, theirs = _full_pipe()
    writer = OutputThread(theirs)
    writer.write(b"x" * MOST_WAITING, must=False)
    writer.write(b"y", must=False)
    for _ in range(3):
        writer.write(b"lost\n", must=False)
    writer.write(b"result\n", must=True)
    writer.close(0.0)
    os.set_blocking(ours, False)
    said = b""

    def all_read() -> bool:
        nonlocal said
        try:
            said += os.read(ours, 1 << 20)
        except BlockingIOError:
            return False
        return said.endswith(b"took them)\n")

    until(all_read, "the rest comes")
    assert said.endswith(b"xyresult\n(3 lines were left out here: nobody took them)\n")
    os.close(ours)
    os.close(theirs)


def test_a_reader_that_is_gone_ends_no_waiting_and_raises_nothing() -> None:
    ours, theirs = os.pipe()
    writer = OutputThread(theirs)
    os.close(ours)
    writer.write(b"a\n", must=True)
    writer.close(None)
    assert not writer.behind
    os.close(theirs)


def test_a_terminal_that_takes_a_little_at_a_time_is_behind_too() -> None:
    ours, theirs = _full_pipe()
    writer = OutputThread(theirs)
    writer.write(b"x" * MOST_WAITING, must=False)

    os.set_blocking(ours, False)

    def is_behind() -> bool:
        with suppress(BlockingIOError):
            os.read(ours, 4096)
        return writer.behind

    until(is_behind, "it is behind")
    os.close(ours)
    writer.close(PATIENCE)
    os.close(theirs)


def test_without_a_thread_output_is_written_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    ours, theirs = os.pipe()
    monkeypatch.setattr(threading.Thread, "start", refused)
    with os.fdopen(theirs, "w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        with background_output():
            print("result")  # noqa: T201  # as a command does
    assert _read_to_the_end(ours) == "result\n"
    os.close(ours)


def test_only_what_could_wait_is_written_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        with background_output():
            assert sys.stdout is out
            assert isinstance(sys.stderr, ProgressStream)
