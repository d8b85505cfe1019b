"""The prompt as a pipe, so that it can be told how much of it was read.

Owns the pipe and both its ends. Never blocks, whether it is read or not.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from runtime.logs.masking_pump import waiting

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

_CHUNK = 1 << 16


class PromptPipe:
    """A named pipe that is filled as fast as it is read, and then closed.

    A reading end is kept open, so that a program that ends early breaks nothing, and what it left
    can be counted.
    """

    def __init__(self, path: Path, prompt: bytes) -> None:
        self.path = path
        self._rest = memoryview(prompt)
        os.mkfifo(path, 0o600)
        self._out = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._into: int | None = None
        try:
            self._into = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        finally:
            if self._into is None:
                os.close(self._out)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        os.close(self._out)

    def pour(self) -> None:
        """Start to fill it; the event loop does the rest."""
        if self._into is not None:
            asyncio.get_running_loop().add_writer(self._into, self._write)

    def unread(self) -> int:
        """Return how many bytes of the prompt nobody has read so far."""
        return waiting(self._out) + len(self._rest)

    def _write(self) -> None:
        if self._into is None:
            return
        try:
            written = os.write(self._into, self._rest[:_CHUNK])
        except BlockingIOError:
            return
        self._rest = self._rest[written:]
        if not self._rest:
            self._end()

    def _end(self) -> None:
        into, self._into = self._into, None
        if into is not None:
            asyncio.get_running_loop().remove_writer(into)
            os.close(into)
