"""The runner's own log: one JSON object per line in `.loopwright/runner.log`.

Owns the file and its cap. Logging never stops a loop: what cannot be written is dropped.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lifecycle.reporting import level_of
from orchestrator.terminal.text import stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
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
        import structlog  # noqa: PLC0415  # only a runner logs, and each `X --help` would pay

        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._now = now
        self._file = _CappedFile(folder / NAME, cap, masker)
        self._log: Any = structlog.wrap_logger(
            self._file,
            processors=[
                structlog.processors.add_log_level,
                self._stamped,
                structlog.processors.JSONRenderer(default=str),
            ],
            wrapper_class=structlog.BoundLogger,
        )

    def report(self, event: str, /, **fields: object) -> None:
        """Log an event with its fields."""
        getattr(self._log, level_of(event))(event, **fields)

    def close(self) -> None:
        """Close the file; what is reported later is dropped."""
        self._file.close()

    def _stamped(self, _logger: Any, _method: str, event: Mapping[str, Any]) -> Mapping[str, Any]:
        first = {"timestamp": stamp(self._now()), "level": event["level"], "event": event["event"]}
        return {**first, **event}


class _CappedFile:
    """A logger for structlog that appends lines and rotates a full file."""

    def __init__(self, path: Path, cap: int, masker: Masker | None) -> None:
        self._path, self._cap, self._masker = path, cap, masker
        self._descriptor: int | None = self._open()

    def msg(self, message: str) -> None:
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

    debug = info = warning = error = msg

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
