"""Reads and writes the files of the kernel, each in one piece, and never creates one.

It must not know what they mean.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_MOST = 1 << 16


def read(path: Path) -> str:
    """Return the content; empty if there is no such file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        parts = []
        while part := os.read(handle, _MOST):
            parts.append(part)
        return b"".join(parts).decode()
    except OSError:
        return ""
    finally:
        os.close(handle)


def write(path: Path, text: str) -> None:
    """Write a value; OSError if the kernel refuses it, or there is no such file."""
    # One write: the kernel handles each write separately.
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)
