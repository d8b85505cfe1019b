"""Temporary folders of the runner, each held by a lock, so that those of a dead one can be swept.

Owns their names and their end. Whoever works with files for a moment does so in one of these; what
is to stay is none of them.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import weakref
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.folders import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX = "loopwright-tmp-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def scratch(purpose: str) -> Iterator[Path]:
    """Have an empty folder for a while; a process that is killed leaves it to `sweep`."""
    folder, handle = _make(purpose)
    try:
        yield folder
    finally:
        _end(folder, handle)


def scratch_of(owner: object, purpose: str) -> Path:
    """Make a folder that goes with its owner."""
    folder, handle = _make(purpose)
    weakref.finalize(owner, _end, folder, handle)
    return folder


def sweep() -> tuple[Path, ...]:
    """Remove the folders that no living process holds; return them."""
    swept = []
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            handle = os.open(folder, _FOLDER)
            try:
                found = os.fstat(handle)
                if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
                    continue
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(folder)
                swept.append(folder)
            finally:
                os.close(handle)
    return tuple(swept)


def _make(purpose: str) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{purpose}-")).resolve()
        try:
            handle = os.open(folder, _FOLDER)
        except FileNotFoundError:  # swept before it was held
            continue
        except OSError:
            folder.rmdir()
            raise
        with suppress(OSError):  # a file system without locks: nobody else can hold it, either
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink and folder.exists():
            return folder, handle
        os.close(handle)


def _end(folder: Path, handle: int) -> None:
    with suppress(OSError):  # the next sweep tries again
        remove_tree(folder)
    os.close(handle)
