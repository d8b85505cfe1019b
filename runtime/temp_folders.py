"""Temporary folders of the runner, named after its process, so that stale ones can be removed.

Owns their names and their removal. It must not be used for files that are kept.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
import time
import weakref
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from runtime import proc_table
from runtime.remove_tree import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX = "loopwright-tmp-"
_NAME = re.compile(rf"{_PREFIX}(\d+)\.(\d+)\.([0-9.]+)-.*")
_STRANGE_FOR = 86_400.0
"""Seconds after which a folder of a process in another container is removed."""


@contextmanager
def scratch(purpose: str) -> Iterator[Path]:
    """Create an empty folder, removed at the end; after a crash `sweep` removes it."""
    folder = _make(purpose)
    try:
        yield folder
    finally:
        _end(folder)


def scratch_of(owner: object, purpose: str) -> Path:
    """Create a folder that is removed together with its owner."""
    folder = _make(purpose)
    weakref.finalize(owner, _end, folder)
    return folder


def sweep() -> tuple[Path, ...]:
    """Remove the folders of this user whose processes are gone; return them."""
    swept = []
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            found = folder.lstat()
            own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
            if own and _is_left(folder.name, found.st_mtime):
                remove_tree(folder)
                swept.append(folder)
    return tuple(swept)


def _make(purpose: str) -> Path:
    prefix = f"{_PREFIX}{_who(os.getpid())}-{purpose}-"
    return Path(tempfile.mkdtemp(prefix=prefix)).resolve()


def _end(folder: Path) -> None:
    with suppress(OSError):  # the next sweep tries again
        remove_tree(folder)


def _is_left(name: str, changed: float) -> bool:
    told = _NAME.fullmatch(name)
    if told is None:
        return False
    if int(told[1]) != _namespace():
        return time.time() - changed > _STRANGE_FOR  # noqa: TID251  # as the file system counts
    row = proc_table.read_row(int(told[2]))
    return row is None or row.dead or f"{row.start}" != told[3]


@cache
def _who(pid: int) -> str:
    row = proc_table.read_row(pid)
    return f"{_namespace()}.{pid}.{row.start if row else 0}"


@cache
def _namespace() -> int:
    """Return the id of the process namespace of this container."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0
