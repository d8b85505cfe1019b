"""One key from a person, or one line where there is no terminal to read keys from."""

from __future__ import annotations

import os
import sys
import termios
import tty
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CTRL_C, CTRL_D, ESCAPE = "\x03", "\x04", "\x1b"


def reads_keys(environ: Mapping[str, str]) -> bool:
    """Tell whether single keys can be read."""
    return sys.stdin.isatty() and sys.stdout.isatty() and environ.get("TERM") != "dumb"


def ask_key(prompt: str, environ: Mapping[str, str]) -> str:
    """Return the key that was pressed, or how a typed line begins; empty at the end of input.

    A key that was pressed before the question stood there is no answer to it.
    """
    if reads_keys(environ):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    sys.stdout.write(prompt)
    sys.stdout.flush()
    if not reads_keys(environ):
        line = sys.stdin.readline()
        return (line.strip()[:1].lower() or "\n") if line else ""
    with _unbuffered():
        pressed = os.read(sys.stdin.fileno(), 32).decode(errors="replace")
    if pressed[:1] == CTRL_C:
        sys.stdout.write("\n")
        raise KeyboardInterrupt
    known = "" if pressed[:1] in ("", CTRL_D) else "\n" if pressed[:1] == ESCAPE else pressed[0]
    sys.stdout.write(f"{known.strip()}\n")
    return known.lower()


def ask_line(prompt: str) -> str | None:
    """Return what was typed; None at the end of input."""
    sys.stdout.write(prompt)
    sys.stdout.flush()
    line = sys.stdin.readline()
    if not line:
        sys.stdout.write("\n")
    return line.strip() if line else None


@contextmanager
def _unbuffered() -> Iterator[None]:
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setraw(fd, termios.TCSADRAIN)
        mode = termios.tcgetattr(fd)
        mode[1] |= termios.OPOST
        termios.tcsetattr(fd, termios.TCSADRAIN, mode)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
