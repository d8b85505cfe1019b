"""The lock by which one runner at a time owns a repository's state folder.

Owns `runner.lock`. The kernel holds the lock, so it ends with its process in any case; the text in
the file only names the holder, and means nothing while the lock is free.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
import weakref
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from lifecycle.errors import RepositoryBusyError, StoreError

if TYPE_CHECKING:
    from types import TracebackType

NAME = "runner.lock"
_MOST = 4096
"""Bytes of what is said of a holder."""
_TRIES = 10
BUSY_PAUSE = 0.01
"""Asking for the holder takes a shared lock briefly; that must not refuse a runner."""
REQUEST = "a request"
"""How who holds it only for the moment of one request says so."""
_REQUEST_PATIENCE = 10.0


class RunnerLock:
    """The right to run the loops of one repository; `who` is shown to those it refuses."""

    def __init__(self, folder: Path, *, who: str | None = None, machine: str = "") -> None:
        self._folder = folder
        self._who = who
        self._machine = machine
        self._file: int | None = None
        self._refused_at: float | None = None

    def acquire(self) -> None:
        """Take the lock, or raise RepositoryBusyError naming its holder."""
        if self._file is not None:
            return
        path = self._folder / NAME
        for _ in range(_TRIES):
            file = _lock(path)
            if file is not None:
                break
            time.sleep(BUSY_PAUSE)
        else:
            raise RepositoryBusyError(_refusal(self._folder))
        text = json.dumps(_myself(self._who, self._machine)).encode()
        os.ftruncate(file, 0)
        os.pwrite(file, text + b"\n", 0)
        self._file = file
        _held.add(self)

    def acquire_after_requests(self) -> bool:
        """Take the lock; False while somebody holds it for one request, which is soon over."""
        try:
            self.acquire()
        except RepositoryBusyError:
            said = self.holder()
            over_soon = said is None or str(said.get("who", "")).startswith(REQUEST)
            self._refused_at = self._refused_at or time.monotonic()
            patient = time.monotonic() < self._refused_at + _REQUEST_PATIENCE
            if over_soon and patient:
                return False
            self._refused_at = None
            raise
        self._refused_at = None
        return True

    def release(self) -> None:
        """Release the lock; harmless when it is not held."""
        if self._file is not None:
            _held.discard(self)
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None

    def note(self, **facts: object) -> None:
        """Tell others more about this runner, such as where its server answers."""
        if self._file is not None:
            known = _said(os.pread(self._file, _MOST, 0))
            text = json.dumps({**known, **facts}).encode() + b"\n"
            os.pwrite(self._file, text, 0)
            os.ftruncate(self._file, len(text))

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._file is not None

    def holder(self) -> dict[str, Any] | None:
        """Say who holds the lock: pid, host, since; None if nobody does."""
        return holder(self._folder)

    def forget(self) -> None:
        """Close the copy of the lock in a forked child; the parent keeps its own."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def holder(folder: Path) -> dict[str, Any] | None:
    """Say who holds the lock of a state folder, without disturbing the holder."""
    try:
        file = os.open(folder / NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
        return _said(os.pread(file, _MOST, 0))
    finally:
        os.close(file)


def _lock(path: Path) -> int | None:
    """Return the locked file, or None if another holds it."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        raise StoreError(
            f"the lock {path} cannot be opened ({problem.strerror}); "
            "check that the folder belongs to you and can be written"
        ) from problem
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(file).st_ino == path.stat().st_ino:
            return file
    except BlockingIOError:
        pass
    except FileNotFoundError:
        # The file was removed meanwhile, so a lock on it would exclude nobody.
        pass
    except OSError as problem:
        os.close(file)
        if problem.errno in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise StoreError(
                f"{path.parent} is on a file system without locks ({problem.strerror}); "
                "move the repository to a local disk"
            ) from problem
        raise
    os.close(file)
    return None


def _myself(who: str | None, machine: str) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "pid": os.getpid(),
        "host": os.uname().nodename,
        "since": datetime.now(UTC).isoformat(timespec="seconds"),  # noqa: TID251  # for people to read; nothing is decided by it
    }
    with contextlib.suppress(OSError, IndexError, ValueError):
        stat = Path("/proc/self/stat").read_text()
        facts["started"] = int(stat.rpartition(")")[2].split()[19])
    if who:
        facts["who"] = who
    if machine:
        facts["machine"] = machine
    return facts


def _said(content: bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        said = json.loads(content)
        if isinstance(said, dict):
            return said
    return {}


def _refusal(folder: Path) -> str:
    said = holder(folder) or {}
    who = f"{said['who']}, " if said.get("who") else ""
    known = f"{who}pid {said.get('pid', '?')} on host {said.get('host', '?')}"
    return (
        f"another runner ({known}, since {said.get('since', '?')}) holds {folder}; "
        "stop it first, or control it with the other commands (`loopwright ps` shows its loops)"
    )


_held: weakref.WeakSet[RunnerLock] = weakref.WeakSet()


def _drop_copies() -> None:
    for lock in list(_held):
        lock.forget()
    _held.clear()


os.register_at_fork(after_in_child=_drop_copies)
