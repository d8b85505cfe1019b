"""Standard output and error of a program that must not wait for them: a thread does.

A terminal may take nothing (Ctrl-S, a frozen window), and a pipe may be full. Owns what waits, how
much of it is kept, and how long the end waits. Must not know what is said.
"""

from __future__ import annotations

import io
import os
import select
import stat
import sys
import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from typing import TextIO

MOST_WAITING = 1 << 20
"""Bytes that wait at the most; lines about progress beyond that are left out."""
BEHIND_AFTER = 0.1
"""Seconds in which all that waits should be taken."""
GIVE_UP_AFTER = 3.0
"""Seconds without a byte taken, after which the end waits no longer."""
_PIECE = 4096
"""Bytes of one write: a pipe takes so many as one."""


class OutputThread:
    """Writes to one file in a thread of its own, in the order given.

    RuntimeError if the machine has no thread left.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._changed = threading.Condition()
        self._waiting = deque[bytes]()
        self._size = 0
        self._left_out = 0
        self._waits_since = self._taken_at = time.monotonic()
        self._broken = self._closed = False
        threading.Thread(target=self._run, name="output", daemon=True).start()

    @property
    def behind(self) -> bool:
        """Whether something has been waiting for longer than a moment."""
        return bool(self._size) and time.monotonic() - self._waits_since > BEHIND_AFTER

    def write(self, data: bytes, *, must: bool) -> None:
        """Add to what waits; where too much does, only what must not be lost."""
        with self._changed:
            if self._broken or not data:
                return
            if not must and (self._left_out or self._size > MOST_WAITING):
                self._left_out += data.count(b"\n")
                return
            if not self._size:
                self._waits_since = self._taken_at = time.monotonic()
            self._waiting.append(data)
            self._size += len(data)
            self._changed.notify_all()

    def close(self, give_up_after: float | None) -> None:
        """Wait until all is taken; give up once nothing was for so many seconds.

        The thread ends once all is taken, also then.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            while self._size:
                left = None
                if give_up_after is not None:
                    left = self._taken_at + give_up_after - time.monotonic()
                    if left <= 0:
                        return
                self._changed.wait(left)

    def _run(self) -> None:
        while data := self._next():
            try:
                while data:
                    data = data[self._written(data[:_PIECE]) :]
            except OSError:  # the reader is gone, or the terminal is
                with self._changed:
                    self._broken, self._size = True, 0
                    self._waiting.clear()
                    self._changed.notify_all()
                return

    def _next(self) -> bytes:
        """Return what is to be written next; nothing at the end."""
        with self._changed:
            while not (self._waiting or self._closed):
                self._changed.wait()
            return self._waiting.popleft() if self._waiting else b""

    def _written(self, piece: bytes) -> int:
        """Write, and return how much was taken."""
        try:
            count = os.write(self._fd, piece)
        except BlockingIOError:  # who shares the terminal has set it so
            select.select([], [self._fd], [])
            return 0
        with self._changed:
            self._size -= count
            self._taken_at = time.monotonic()
            if not self._size and self._left_out:
                said = f"({self._left_out} lines were left out here: nobody took them)\n".encode()
                self._waiting.append(said)
                self._size, self._left_out = len(said), 0
            self._changed.notify_all()
        return count


class _OverFile(io.TextIOBase):
    """A stream that writes to the file of another one, in its own way."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]  # nor can that of the base be set
        """The encoding of the file."""
        return self._stream.encoding

    def _bytes(self, text: str) -> bytes:
        return text.encode(self.encoding, self._stream.errors or "backslashreplace")

    def writable(self) -> bool:
        """Say that it can be written to."""
        return True

    def isatty(self) -> bool:
        """Tell whether the file is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the number of the file."""
        return self._stream.fileno()


class BackgroundStream(_OverFile):
    """A stream of text whose `write` never waits."""

    def __init__(self, stream: TextIO, writer: OutputThread, *, must: bool) -> None:
        super().__init__(stream)
        self._writer, self._must = writer, must

    @property
    def behind(self) -> bool:
        """Whether nobody takes at the moment what is written."""
        return self._writer.behind

    def write(self, text: str, /) -> int:
        """Let it be written."""
        self._writer.write(self._bytes(text), must=self._must)
        return len(text)


class ProgressStream(_OverFile):
    """A stream about progress in a file: what a full disk does not take is left out."""

    def write(self, text: str, /) -> int:
        """Write what the file takes."""
        data = self._bytes(text)
        with suppress(OSError):
            while data:
                data = data[os.write(self.fileno(), data) :]
        return len(text)


@contextmanager
def background_output() -> Generator[None, None, None]:
    """Let standard output and error be written in the background, where writing could wait.

    A log on a disk that is full loses lines, and ends nothing.

    At the end all is taken, or nobody takes anything. Only a pipe of results is waited for without
    limit: its reader may take its time.
    """
    writers: dict[str, OutputThread] = {}
    streams = {name: getattr(sys, name) for name in ("stdout", "stderr")}
    for name, stream in streams.items():
        if (fd := _may_wait(stream)) is not None:
            stream.flush()
            with suppress(RuntimeError):  # without a thread it is written as ever
                writers[name] = _shared(writers, fd, streams) or OutputThread(fd)
                must = name == "stdout"
                setattr(sys, name, BackgroundStream(stream, writers[name], must=must))
        elif _is_progress(stream, streams["stderr"]):
            stream.flush()
            setattr(sys, name, ProgressStream(stream))
    try:
        yield
    finally:
        for name, stream in streams.items():
            setattr(sys, name, stream)
        for name in ("stderr", "stdout"):
            if name in writers:
                waits = name == "stdout" and not streams[name].isatty()
                writers[name].close(None if waits else GIVE_UP_AFTER)


def _is_progress(stream: TextIO, stderr: TextIO) -> bool:
    """Tell whether a file gets progress: as standard error, or as the log of both streams."""
    try:
        return os.path.sameopenfile(stream.fileno(), stderr.fileno())
    except (OSError, ValueError, AttributeError):
        return False


def _may_wait(stream: TextIO) -> int | None:
    """Return the number of a file that can make who writes wait: a terminal, pipe or socket."""
    try:
        fd = stream.fileno()
        mode = os.fstat(fd).st_mode
    except (OSError, ValueError, AttributeError):  # none at all, or a text in memory
        return None
    return fd if os.isatty(fd) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else None


def _shared(
    writers: Mapping[str, OutputThread], fd: int, streams: Mapping[str, TextIO]
) -> OutputThread | None:
    """Return the writer of the same file, so that both streams keep their order."""
    for name, writer in writers.items():
        if os.path.sameopenfile(fd, streams[name].fileno()):
            return writer
    return None
