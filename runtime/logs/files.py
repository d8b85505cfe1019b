"""Log files: kept below a cap while they are written, shortened at the end, quoted safely.

Children write into their log themselves; where there are secrets to mask, `logpump` does. It must
not interpret what a log says.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import stat
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_PUNCH_AND_KEEP_SIZE = 0x03
_BLOCK = 4096
_CHUNK = 1 << 20
_MARK_ROOM = 128
_MARK = re.compile(rb"\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n")
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
_UNWANTED = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069"
    r"\u200b\u2060-\u2064\ufeff\U000e0000-\U000e007f]"
)


def size(path: Path) -> int:
    """Tell the size of a log; one that is not there yet has none."""
    try:
        return os.stat(path).st_size  # noqa: PTH116  # called for every agent on every pass
    except OSError:
        return 0


def trim(path: Path, cap: int) -> bool:
    """Free the disk space of the middle of a log that is being written; tell whether it did.

    The size stays and the middle reads as zeros, so the writer notices nothing. Where the file
    system cannot do that (macOS, some network disks) the log is only shortened by `finish`.
    """
    if size(path) <= cap:
        return False
    try:
        with _opened(path, os.O_RDWR) as (log, info):
            if info.st_blocks * 512 <= cap:
                return False
            head, tail = _parts(cap)
            start = -(-head // _BLOCK) * _BLOCK
            end = (info.st_size - tail) // _BLOCK * _BLOCK
            return start < end and _punch(log, start, end - start)
    except OSError:
        return False


def finish(path: Path, cap: int) -> int:
    """Shorten a log nobody writes to any more to head, one line that says so, and tail.

    Returns how many bytes were left out, 0 when the log was within its cap.
    """
    if size(path) <= cap:
        return 0
    part = path.with_name(path.name + ".part")
    with _opened(path, os.O_RDONLY) as (log, info):
        head, tail = _parts(cap)
        left_out = info.st_size - head - tail
        if earlier := _MARK.match(os.pread(log, _MARK_ROOM, head)):
            left_out += int(earlier[1]) - len(earlier[0])
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        short = os.open(part, flags, 0o600)
        try:
            _copy(log, 0, head, short)
            os.write(short, b"\n[... %d bytes left out ...]\n" % left_out)
            _copy(log, info.st_size - tail, tail, short)
        finally:
            os.close(short)
    part.replace(path)
    return left_out


def tail(path: Path, max_bytes: int, start: int = 0) -> str:
    """Quote the end of a log, at most `max_bytes` and nothing before `start`, fit to be shown.

    Escape sequences and control characters are removed, invalid UTF-8 is replaced. Empty for a log
    that is missing or not a regular file.
    """
    if size(path) <= start:
        return ""
    try:
        with _opened(path, os.O_RDONLY) as (log, info):
            first = max(info.st_size - max_bytes, min(start, info.st_size), 0)
            data = os.pread(log, max_bytes, first)
    except OSError:
        return ""
    while data and first and data[0] & 0xC0 == 0x80:  # noqa: PLR2004  # the rest of a cut character
        data = data[1:]
    return clean(data.decode(errors="replace"))


def clean(text: str) -> str:
    """Take out what could fool a terminal or a reader: escapes, controls, direction overrides."""
    if text.isascii() and text.isprintable():
        return text
    text = _ESCAPE.sub("", text.replace("\r\n", "\n")).replace("\r", "\n")
    return _UNWANTED.sub("", text)


def _parts(cap: int) -> tuple[int, int]:
    room = max(cap - _MARK_ROOM, 0)
    return room // 2, room - room // 2


@contextmanager
def _opened(path: Path, mode: int) -> Iterator[tuple[int, os.stat_result]]:
    """Open a plain file; what an agent may have put in its place is refused, not waited for."""
    descriptor = os.open(path, mode | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(f"{path} is not a regular file. Remove it.")
        yield descriptor, info
    finally:
        os.close(descriptor)


def _copy(source: int, offset: int, size: int, target: int) -> None:
    end = offset + size
    while offset < end and (chunk := os.pread(source, min(_CHUNK, end - offset), offset)):
        offset += os.write(target, chunk)


def _punch(descriptor: int, offset: int, size: int) -> bool:
    call = _fallocate()
    return call is not None and call(descriptor, _PUNCH_AND_KEEP_SIZE, offset, size) == 0


@functools.cache
def _fallocate() -> Callable[[int, int, int, int], int] | None:
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    call = getattr(libc, "fallocate64", None) or getattr(libc, "fallocate", None)
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return call
