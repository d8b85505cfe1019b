"""The runner's own log: one JSON object per line in `.loopwright/runner.log`.

Owns the file and its cap. Logging never stops a loop: what cannot be written is dropped.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from lifecycle.reporting import level_of
from orchestrator.terminal.text import stamp

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runtime.masking.masker import Masker

NAME = "runner.log"
CAP = 5 * 1024 * 1024
"""Bytes of the log; one older log of the same size is kept beside it."""


class RunnerLog:
    """Writes the log of a runner, or of a command that does the work of one."""

    def __init__(
        self,
        folder: Path,
        *,
        now: Callable[[], float],
        cap: int = CAP,
        masker: Masker | None = None,
    ) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._now = now
        self._file = _CappedFile(folder / NAME, cap, masker)

    def report(self, event: str, /, **fields: object) -> None:
        """Log an event with its fields."""
        first = {"timestamp": stamp(self._now()), "level": "", "event": ""}
        line = {**first, **fields, "level": level_of(event), "event": event}
        self._file.append(json.dumps(line, default=str))

    def close(self) -> None:
        """Close the file; what is reported later is dropped."""
        self._file.close()


class _CappedFile:
    """Appends lines, and begins anew when it is full."""

    def __init__(self, path: Path, cap: int, masker: Masker | None) -> None:
        self._path, self._cap, self._masker = path, cap, masker
        self._descriptor: int | None = self._open()

    def append(self, message: str) -> None:
        """Append a line."""
        if self._descriptor is None:
            return
        if self._masker is not None:
            message = self._masker.mask(message)
        line = message.encode("utf-8", errors="backslashreplace") + b"\n"
        try:
            if os.fstat(self._descriptor).st_size + len(line) > self._cap:
                self._rotate(self._descriptor)
            os.write(self._descriptor, line)
        except OSError:
            # A full disk must not stop a loop; the loop has its own way to say so.
            return

    def close(self) -> None:
        """Close; harmless when called again."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _rotate(self, full: int) -> None:
        """Continue in a new file; while none can be made, in the full one."""
        with suppress(OSError):
            with suppress(FileNotFoundError):
                self._path.replace(self._path.with_name(f"{NAME}.1"))
            self._descriptor = self._open()
            os.close(full)

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(self._path, flags, 0o600)
