"""Changes one agent's entry in a mailbox file that others change at the same time.

Owns the lock, the atomic replacement and moving unreadable files aside. Must not delete what
others wrote. Must start fast: the agent's `signal` imports it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import time
from typing import TYPE_CHECKING, Any

from communication.errors import ContentError, MailboxError
from communication.safe_json import MAX_BYTES, check_shape, read_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LOCK_PATIENCE_S = 10.0
TORN_PATIENCE_S = 0.2
"""How long a writer without our lock may leave its file half written before it is set aside."""

_LOCK_FLAGS = os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SHORTEST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.02
_ATTEMPTS = 8


def edit_entry(
    path: Path,
    agent_id: str,
    change: Callable[[dict[str, Any]], None],
    *,
    max_bytes: int = MAX_BYTES,
    lock_patience_s: float = LOCK_PATIENCE_S,
) -> Path | None:
    """Let `change` edit an agent's entry in place, under the lock.

    Returns where an unreadable file was set aside, if there was one.
    """
    with _locked(path, lock_patience_s):
        document, aside = _readable(path, max_bytes)
        entry = document.get(agent_id)
        if not isinstance(entry, dict):
            entry = {}
        change(entry)
        document[agent_id] = entry
        _replace(path, _encoded(path, document, max_bytes))
    return aside


def _readable(path: Path, max_bytes: int) -> tuple[dict[str, Any], Path | None]:
    waited = 0.0
    while True:
        try:
            return read_object(str(path), max_bytes) or {}, None
        except ContentError as error:
            if error.machine_at_fault:
                raise MailboxError(f"{path}: {error.reason}; it is unchanged") from error
            if waited >= TORN_PATIENCE_S or not _is_regular(path):
                return {}, _set_aside(path)
        time.sleep(_LONGEST_PAUSE_S)
        waited += _LONGEST_PAUSE_S


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _set_aside(path: Path) -> Path | None:
    """Rename whatever is at the path, so that it is out of the way but not lost."""
    number = 1
    while os.path.lexists(aside := path.with_name(f"{path.name}.broken-{number}")):
        number += 1
    try:
        path.rename(aside)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MailboxError(
            f"{path} is unusable and cannot be renamed: {error.strerror}; move it away by hand"
        ) from error
    return aside


def _encoded(path: Path, document: dict[str, Any], max_bytes: int) -> bytes:
    """One line per agent: readable and cheap to write."""
    try:
        lines = [
            f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False, allow_nan=False)}"
            for key, value in document.items()
        ]
        raw = ("{\n" + ",\n".join(lines) + "\n}\n").encode()
        if len(raw) > max_bytes:
            raise MailboxError(
                f"{path} would grow to {len(raw):,} bytes, more than the {max_bytes:,} "
                "that are read; say less"
            )
        check_shape(raw)
    except (ContentError, ValueError, TypeError, RecursionError) as error:
        raise MailboxError(f"{path} would no longer be readable: {error}") from error
    return raw


def _replace(path: Path, raw: bytes) -> None:
    fresh = path.with_name(f"{path.name}.tmp")
    try:
        descriptor = _create(fresh)
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123  # a descriptor, no path
                with contextlib.suppress(FileNotFoundError):
                    os.fchmod(descriptor, stat.S_IMODE(os.lstat(path).st_mode))
                file.write(raw)
                file.flush()
                os.fsync(descriptor)
            fresh.replace(path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise MailboxError(
            f"{path} cannot be written: {error.strerror}; it is unchanged. "
            "Check space and permissions of its folder"
        ) from error


def _create(fresh: Path) -> int:
    """Open a new file; an existing one was left by a writer that died under the lock."""
    for _ in range(_ATTEMPTS):
        try:
            return os.open(fresh, _NEW_FLAGS, 0o666)
        except FileExistsError:
            if stat.S_ISDIR(os.lstat(fresh).st_mode):
                _set_aside(fresh)
            else:
                fresh.unlink(missing_ok=True)
    raise MailboxError(f"{fresh} is repeatedly created by another process; find out which")


@contextlib.contextmanager
def _locked(path: Path, patience_s: float) -> Iterator[None]:
    lock = path.with_name(f"{path.name}.lock")
    waited, pause = 0.0, _SHORTEST_PAUSE_S
    while True:
        descriptor = _open_lock(lock)
        try:
            if _try_lock(descriptor) and _is_still(lock, descriptor):
                yield
                return
        finally:
            os.close(descriptor)
        if waited >= patience_s:
            raise MailboxError(
                f"{lock} has been held by another process for {patience_s:g} s; "
                f"find it with: fuser {lock}"
            )
        # Jitter keeps many writers from retrying in step.
        rest = pause * (0.5 + os.urandom(1)[0] / 255)
        time.sleep(rest)
        waited += rest
        pause = min(pause * 2, _LONGEST_PAUSE_S)


def _open_lock(lock: Path) -> int:
    for _ in range(_ATTEMPTS):
        try:
            descriptor = os.open(lock, _LOCK_FLAGS, 0o644)
        except OSError as error:
            if not os.path.lexists(lock) or _is_regular(lock):
                raise MailboxError(
                    f"{lock} cannot be opened: {error.strerror}; "
                    "the mailbox's folder must exist and be writable"
                ) from error
            _set_aside(lock)
            continue
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        _set_aside(lock)
    raise MailboxError(f"{lock} is repeatedly replaced by another process; find out which")


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(lock: Path, descriptor: int) -> bool:
    """Tell whether the lock file is still in place; a lock on a removed file is useless."""
    try:
        standing = os.lstat(lock)
    except FileNotFoundError:
        return False
    return os.path.samestat(standing, os.fstat(descriptor))
