"""Copies files out of a folder that another process may be changing at the same time.

It must not follow a link: what it copies was in that folder. It starts no process.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP})


@dataclass(frozen=True, slots=True)
class CopyProblems:
    """What was not copied."""

    gone: frozenset[str]
    """Names that are not, or no longer, files of the folder."""
    problems: Mapping[str, str]
    """Names that exist and could not be read, and why."""


def copy_out(top: Path, names: Iterable[str], target: Path) -> CopyProblems:
    """Copy the named files and links below top to the same names below target."""
    target = target.resolve()
    gone: set[str] = set()
    problems: dict[str, str] = {}
    for name in names:
        try:
            _copy(top, name, target / name)
        except OSError as error:
            if error.errno in _GONE:
                gone.add(name)
            else:
                problems[name] = error.strerror or str(error)
    return CopyProblems(frozenset(gone), problems)


def _copy(top: Path, name: str, target: Path) -> None:
    *folders, last = name.split("/")
    at = os.open(top, _FOLDER)
    try:
        for folder in folders:
            inner = os.open(folder, _FOLDER, dir_fd=at)
            os.close(at)
            at = inner
        # A folder now may have been a link when an earlier name was copied.
        if target.parent.resolve() != target.parent:
            raise NotADirectoryError(errno.ENOTDIR, "it was a link before")
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # no link
            target.symlink_to(os.readlink(last, dir_fd=at))
            return
        _copy_file(os.open(last, _FILE, dir_fd=at), target)
    finally:
        os.close(at)


def _copy_file(handle: int, target: Path) -> None:
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        with open(handle, "rb", closefd=False) as source, target.open("xb") as file:
            shutil.copyfileobj(source, file)
    finally:
        os.close(handle)
    target.chmod(stat.S_IRUSR | stat.S_IWUSR | (mode & stat.S_IXUSR))
