"""A log file as an answer: whole, its end, or one range of its bytes.

Never held in memory as a whole. What an agent printed stays what it is: the answer's type and
`nosniff` keep a browser from taking it for anything but text.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import closing
from typing import TYPE_CHECKING

from starlette.responses import Response

from orchestrator.web.edge.problems import Problem, unknown

if TYPE_CHECKING:
    from io import FileIO
    from pathlib import Path

    from starlette.types import Receive, Scope, Send

PIECE = 64 * 1024
MOST_TAIL = 4 * 1024 * 1024
"""Bytes of a log that are looked through for its last lines."""
TEXT = "text/plain; charset=utf-8"
_RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})")


def log_answer(path: Path, *, tail: int | None, part: str) -> Response:
    """Return what is asked for of a log."""
    file = _opened(path)
    try:
        size = os.fstat(file.fileno()).st_size
        if tail is None:
            return _Part(file, part, size)
        text = _last_lines(file.fileno(), size, tail)
    except BaseException:
        file.close()
        raise
    file.close()
    return Response(text, media_type=TEXT)


class _Part(Response):
    """Sends a log, or a range of it, piece by piece; what is written meanwhile is left out."""

    media_type = TEXT

    def __init__(self, file: FileIO, part: str, size: int) -> None:
        self._first, self._end = _span(part, size)
        headers = {"accept-ranges": "bytes", "content-length": str(self._end - self._first)}
        partly = _RANGE.fullmatch(part) is not None
        if partly:
            headers["content-range"] = f"bytes {self._first}-{self._end - 1}/{size}"
        super().__init__(status_code=206 if partly else 200, headers=headers)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        del scope, receive
        with closing(self._file):
            first, end, file = self._first, self._end, self._file.fileno()
            start = {"status": self.status_code, "headers": self.raw_headers}
            await send({"type": "http.response.start", **start})
            while first < end and (piece := os.pread(file, min(PIECE, end - first), first)):
                first += len(piece)
                more = first < end
                await send({"type": "http.response.body", "body": piece, "more_body": more})
            if self._first == end:
                await send({"type": "http.response.body", "body": b""})


def _opened(path: Path) -> FileIO:
    try:
        # What an agent may have put in its place is not followed.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags)
    except OSError as problem:
        raise _missing(path) from problem
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _missing(path)
    return os.fdopen(descriptor, "rb", buffering=0)


def _missing(path: Path) -> Problem:
    return unknown(
        f"there is no log of attempt {path.stem} of {path.parent.name}",
        "GET the lifecycle: it lists its attempts",
    )


def _span(part: str, size: int) -> tuple[int, int]:
    """Return where a range begins and ends; all of it where none is asked for, or no known one."""
    asked = _RANGE.fullmatch(part)
    if asked is None:
        return 0, size
    if asked[1]:
        first, end = int(asked[1]), min(int(asked[2]) + 1, size) if asked[2] else size
    else:
        first, end = max(size - int(asked[2] or 0), 0), size
    if first >= end:
        raise Problem(
            416,
            "range",
            f"the log has {size} bytes, and none of them is in that range",
            "ask for others",
            {"content-range": f"bytes */{size}"},
        )
    return first, end


def _last_lines(file: int, size: int, lines: int) -> bytes:
    begin = max(size - MOST_TAIL, 0)
    # Of a log above its cap the middle is freed while it is written, and reads as zeros.
    data = os.pread(file, size - begin, begin).replace(b"\0", b"")
    at = len(data) - data.endswith(b"\n")
    for _ in range(lines):
        at = data.rfind(b"\n", 0, at)
        if at < 0:
            return data
    return data[at + 1 :]
