"""A command on a real terminal: what it shows there, and a person who types."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from typing import TYPE_CHECKING

from tests import warm
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Self

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """One command in a terminal of its own; `with` ends it."""

    def __init__(
        self, folder: Path, *args: str, columns: int = 80, before: Sequence[str] = (), **env: str
    ) -> None:
        """`before` is what starts it, in place of the command itself."""
        self._out = b""
        self._fd, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        plain = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        variables = {**plain, "TERM": "xterm", "GIT_PAGER": "cat", **env}
        self._process = _started(folder, [*before], [*args], variables, theirs)
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._fd)

    @property
    def raw(self) -> str:
        return self._out.decode(errors="replace").replace("\r\n", "\n")

    @property
    def text(self) -> str:
        """What is shown, without colours."""
        return _ESCAPES.sub("", self.raw)

    def _read(self, seconds: float) -> bool:
        """Read what comes; tell whether more may come."""
        ready, _, _ = select.select([self._fd], [], [], seconds)
        if not ready:
            return True
        try:
            piece = os.read(self._fd, 65_536)
        except OSError:
            return False
        self._out += piece
        return bool(piece)

    def shows(self, text: str) -> None:
        """Wait until the newest that is shown holds a text."""
        end = time.monotonic() + PATIENCE
        while text not in self.text:
            assert self._read(0.2) or text in self.text, self.text
            assert time.monotonic() < end, f"{text!r} is not shown: {self.text}"

    def press(self, keys: str, after: str = "> ") -> None:
        """Type, once it is asked for at the end of what is shown."""
        end = time.monotonic() + PATIENCE
        while not self.text.endswith(after):
            assert self._read(0.2), self.text
            assert time.monotonic() < end, f"it does not ask: {self.text}"
        self._out = b""
        os.write(self._fd, keys.encode())

    def ends(self, code: int) -> str:
        """Wait for the end; returns what was shown since the last key."""
        end = time.monotonic() + PATIENCE
        while self._read(0.2):
            assert time.monotonic() < end, self.text
        assert self._process.wait(PATIENCE) == code, self.text
        return self.text


def _in_own_terminal() -> None:
    """Begin a session whose terminal is standard input, so that Ctrl-C there is a signal."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _started(
    folder: Path, before: list[str], args: list[str], env: dict[str, str], terminal: int
) -> warm.Process | subprocess.Popen[bytes]:
    if not before:
        return warm.Process(
            args,
            cwd=folder,
            env=env,
            streams=(terminal, terminal, terminal),
            first=_in_own_terminal,
        )
    return subprocess.Popen(
        [*before, *args],
        cwd=folder,
        env=env,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
