"""Carries what a process says to its log and takes the secrets out on the way.

Owns the pipe between a process and its log, where there are secrets to mask. It must not interpret
what is said, and never waits: not for the process, not for the disk, not for what holds the pipe.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import termios
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from runtime.masking.masker import Masker, MaskStream

PAUSE = 0.02
"""Seconds after each read in which the pipe fills up: 50 reads a second carry any stream of lines.
After a full pipe the pause is as long as the read took: a flood gets half of the time."""
_PIPE = 1 << 18
"""Bytes; of larger ones a user may have too few for a hundred agents."""
_WIDE = 1 << 20
"""Bytes that a pipe found full may hold for `_A_WHILE`: a program that prints as much
without ever waiting, such as a long prompt, succeeds at the second try, however late we read."""
_A_WHILE = 1.0
"""Seconds."""
_BURST = 8 << 20
"""Bytes that are carried without a pause after a full pipe: some programs drop unread output when
they exit. Only longer output is made to wait."""
_LEAST = 1 << 16
"""Bytes of a burst that a read uses up at least, so that it is soon over where little comes."""
_RESIZE, _SIZE = getattr(fcntl, "F_SETPIPE_SZ", None), getattr(fcntl, "F_GETPIPE_SZ", None)
_SMALL = 1 << 16
"""Bytes that a pipe holds where that cannot be changed."""


def waiting(pipe: int) -> int:
    """Tell how many bytes in a pipe nobody has read yet."""
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


class LogPump:
    """A pipe that a process writes into, emptied into its log by the event loop."""

    def __init__(self, log: int, masker: Masker) -> None:
        """Take over `log`, an open file to append to."""
        self._stream: MaskStream = masker.stream()
        self._log: int | None = log
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._lost = 0
        self._left = _BURST
        """Of the burst at hand; all of it where there is none."""
        self._over = False
        self._source, self.sink = os.pipe2(os.O_CLOEXEC) if hasattr(os, "pipe2") else os.pipe()
        os.set_blocking(self._source, False)
        self._narrowing: asyncio.TimerHandle | None = None
        self._full = 0
        self.resize(_PIPE)

    def started(self) -> None:
        """Close our end for writing, once the process has its own."""
        sink, self.sink = self.sink, -1
        if sink >= 0:
            os.close(sink)

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have the event loop carry what comes."""
        self._loop = loop
        loop.add_reader(self._source, self._ready)

    def drain(self) -> None:
        """Carry all that was said until now; what is said meanwhile may have to wait."""
        if self._log is None:
            return
        left = waiting(self._source)
        while left > 0 and (carried := self._carry()):
            left -= carried

    def close(self) -> None:
        """Carry what is there, and end; do not wait for others that still hold the pipe."""
        if self._log is None:
            return
        self.started()
        self.drain()
        self._write(self._stream.end())
        if self._narrowing is not None:
            self._narrowing.cancel()
        if self._pause is not None:
            self._pause.cancel()
        elif self._loop is not None:
            self._loop.remove_reader(self._source)
        os.close(self._source)
        os.close(self._log)
        self._log = self._loop = self._pause = self._narrowing = None

    def _ready(self) -> None:
        loop = self._loop
        if loop is None:
            return
        began = loop.time()
        carried = self._carry()
        if self._in_burst(carried) and not self._over:
            return
        loop.remove_reader(self._source)
        self._pause = None
        if not self._over:
            pause = PAUSE if carried < self._full else min(loop.time() - began, PAUSE)
            self._pause = loop.call_later(pause, self._again)

    def _again(self) -> None:
        self._pause = None
        if self._loop is not None:
            self._loop.add_reader(self._source, self._ready)

    def _in_burst(self, carried: int) -> bool:
        """Tell whether to continue at once; a used burst is refilled when the pipe is not full."""
        if self._left == _BURST and carried < self._full:
            return False
        if self._left > 0:
            self._left -= max(carried, _LEAST)
            return True
        if carried < self._full:
            self._left = _BURST
        return False

    def _widen(self) -> None:
        if self._narrowing is None and self._loop is not None:
            self._narrowing = self._loop.call_later(_A_WHILE, self._narrow)
            self.resize(_WIDE)

    def _narrow(self) -> None:
        """Give back what others may need; a pipe too full for that is widened again by a read."""
        self._narrowing = None
        self.resize(_PIPE)

    def resize(self, holds: int) -> None:
        """Have the pipe hold that much, if there is as much to be had."""
        held = _SMALL
        if _RESIZE is not None and _SIZE is not None:
            with contextlib.suppress(OSError):  # the user's pipes may hold no more, or it is full
                fcntl.fcntl(self._source, _RESIZE, holds)
            held = fcntl.fcntl(self._source, _SIZE)
        # It holds pages, and what is written in pieces need not fill them.
        self._full = min(held, _PIPE) // 2

    def _carry(self) -> int:
        """Carry one pipe full at most; return how much that was."""
        if waiting(self._source) >= self._full:
            # Before the read, which lets blocked writers continue.
            self._widen()
        try:
            data = os.read(self._source, _PIPE)
        except BlockingIOError:
            return 0
        # All that held the pipe are gone when it says nothing instead of "not now".
        self._over = not data
        self._write(self._stream.feed(data))
        return len(data)

    def _write(self, data: bytes) -> None:
        """Append to the log; what a full disk does not take is dropped, and that is said once."""
        if self._log is None or not data:
            return
        try:
            if self._lost:
                self._append(b"\n[%d bytes could not be written]\n" % self._lost)
                self._lost = 0
            self._append(data)
        except OSError:
            self._lost += len(data)

    def _append(self, data: bytes) -> None:
        while self._log is not None and data:
            data = data[os.write(self._log, data) :]
