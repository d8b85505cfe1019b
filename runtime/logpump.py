"""Carries what a process says to its log and takes the secrets out on the way.

Owns the pipe between a process and its log, where there are secrets to mask. It must not interpret
what is said, and never waits: not for the process, not for the disk, not for what holds the pipe.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from runtime.masking import Masker, MaskStream

PAUSE = 0.02
"""Seconds after each read in which the pipe fills up: 50 reads a second carry any stream of lines,
and whoever floods waits."""
_PIPE = 1 << 18
"""Bytes; of larger ones a user may have too few for a hundred agents."""
_WIDE = 1 << 20
"""Bytes that a pipe found full may hold until it is found less than half full: whoever never waits
gets rid of a prompt as long as this at its second try, however late we were to read the first."""
_BURST = 8 << 20
"""Bytes that are carried without a pause once a pipe was found full: some programs drop what nobody
took when they exit. Only who goes on for longer is made to wait."""
_LEAST = 1 << 16
"""Bytes of a burst that a read uses up at least, so that it is soon over where little comes."""
_DRAINED = _WIDE // _PIPE + 1
"""Reads that empty the widest pipe."""
_RESIZE = getattr(fcntl, "F_SETPIPE_SZ", None)
_SMALL = 1 << 16
"""Bytes that a pipe holds which was not enlarged."""


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
        # It holds pages, and what is written in pieces need not fill them.
        self._full = (self._resized(_PIPE) or _SMALL) // 2
        self._wide = False

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
        for _ in range(_DRAINED):
            if self._log is None or not self._carry():
                return

    def close(self) -> None:
        """Carry what is there, and end; whoever still holds the pipe is not waited for."""
        if self._log is None:
            return
        self.started()
        self.drain()
        self._write(self._stream.end())
        if self._pause is not None:
            self._pause.cancel()
        elif self._loop is not None:
            self._loop.remove_reader(self._source)
        os.close(self._source)
        os.close(self._log)
        self._log = self._loop = self._pause = None

    def _ready(self) -> None:
        loop = self._loop
        if loop is None:
            return
        carried = self._carry()
        self._widen(full=carried >= self._full)
        if self._in_burst(carried) and not self._over:
            return
        loop.remove_reader(self._source)
        self._pause = None
        if not self._over:
            self._pause = loop.call_later(PAUSE, self._again)

    def _again(self) -> None:
        self._pause = None
        if self._loop is not None:
            self._loop.add_reader(self._source, self._ready)

    def _in_burst(self, carried: int) -> bool:
        """Tell whether to go on at once; a burst used up is refilled when the pipe is not full."""
        if self._left == _BURST and carried < self._full:
            return False
        if self._left > 0:
            self._left -= max(carried, _LEAST)
            return True
        if carried < self._full:
            self._left = _BURST
        return False

    def _widen(self, *, full: bool) -> None:
        if full is not self._wide:
            self._wide = full
            self._resized(_WIDE if full else _PIPE)

    def _resized(self, holds: int) -> int:
        """Have the pipe hold that much; return what it holds then, 0 where it stays as it is."""
        if _RESIZE is not None:
            with contextlib.suppress(OSError):  # the user's pipes may hold no more, or it is full
                return fcntl.fcntl(self._source, _RESIZE, holds)
        return 0

    def _carry(self) -> int:
        """Carry one pipe full at most; return how much that was."""
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
