"""Writes the files of an attempt: what it is handed, and its program's private settings.

Must not know what stands in them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.private_files import make_private

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runtime.agents.adapter import File

_FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


@contextlib.contextmanager
def readable(text: str, path: Path) -> Iterator[Path | int]:
    """Give a text as a file: an open one in memory where the platform can, else one at this path.

    A new file on disk may cost as much as starting a process.
    """
    if sys.platform != "linux":
        write(path, text)
        yield path
        return
    file = os.memfd_create("prompt")
    try:
        _fill(file, text.encode(errors="replace"))
        os.lseek(file, 0, os.SEEK_SET)
        yield file
    finally:
        os.close(file)


def write_config(folder: Path, files: Iterable[File], *, needed: bool) -> None:
    """Write the private settings of one attempt's program; nobody else may read them."""
    files = tuple(files)
    if not files and not needed:
        return
    make_private(folder)
    for file in files:
        write(Path(file.path), file.text)


def drop_config(folder: Path) -> None:
    """Remove them again, where there are any."""
    if os.path.lexists(folder):
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # that of another attempt may still be there
            folder.parent.rmdir()


def write(path: Path, text: str) -> None:
    """Write a file as a whole, replacing an existing one; no reader sees half of it.

    A new file is written in one go under its own name: to rename it costs as much again.
    """
    name, content = os.fspath(path), text.encode(errors="replace")
    try:
        _put(name, content)
    except FileNotFoundError:
        make_private(path.parent)
        _put(name, content)
    except FileExistsError:
        fresh = path.with_name(f".{path.name}.new")
        fresh.unlink(missing_ok=True)
        _put(os.fspath(fresh), content)
        fresh.replace(path)


def _put(name: str, content: bytes) -> None:
    file = os.open(name, _FRESH, 0o600)
    try:
        _fill(file, content)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108  # beside the calls it belongs to
        raise
    finally:
        os.close(file)


def _fill(file: int, content: bytes) -> None:
    written = os.write(file, content)
    while written < len(content):
        written += os.write(file, content[written:])
