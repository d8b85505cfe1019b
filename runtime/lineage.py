"""A tag that a process hands down to all its descendants, whatever they do to hide.

A daemon can leave its session and clear its environment, but not shed a resource limit. Linux keeps
one that has had no effect since 2.4 (RLIMIT_LOCKS), is inherited, may be lowered but not raised,
and can be read even of the dead. Each spawn gets its own value, so an orphan tells which spawn it
came from, and children that other code of this process started are never taken for orphans.

A runner that is itself below a tagged process divides the space below its own tag, two levels
deep. Beside the tag, which means something to its own runner only, each process carries the
fingerprint of its mark in another limit without effect (RLIMIT_RSS), by which a later runner knows
it. It must not be relied on against a process that raises its limits on purpose.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import resource
import secrets
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from runtime import room

if TYPE_CHECKING:
    from collections.abc import Iterator

_RLIMIT_LOCKS = 10
_TOP = 1 << 62
_WIDTHS = (1 << 40, 1 << 20, 1)
_VALUES = (1 << 20) - 1
_FINGERPRINTS = 1 << 61
"""Fingerprints begin here: far more than any memory, should a program take them for a limit."""
_spawns = itertools.count(secrets.randbelow(_VALUES))
"""Not from 0: whoever ends what another runner left must not take ours for that one's."""


def _forked() -> None:
    global _spawns  # noqa: PLW0603  # a forked runner is another one
    _spawns = itertools.count(secrets.randbelow(_VALUES))


os.register_at_fork(after_in_child=_forked)


@functools.cache
def _own_limit() -> int:
    if sys.platform != "linux":
        return 0
    # The hard one may be missing: a child can begin its own before `fasten` gets to it.
    limits = resource.prlimit(0, _RLIMIT_LOCKS)
    return min((each for each in limits if each != resource.RLIM_INFINITY), default=_TOP)


@functools.cache
def width() -> int:
    """Return how far tags are apart below our own; 0 when we are too deep, or the limit is used."""
    own = _own_limit()
    if own == _TOP:
        return _WIDTHS[0]
    for outer, inner in itertools.pairwise(_WIDTHS):
        if own and own % outer == 0:
            return inner
    return 0


def fingerprint(mark: str) -> int:
    """Tell what the processes started under this mark carry."""
    digest = hashlib.blake2b(mark.encode(errors="surrogateescape"), digest_size=8).digest()
    return _FINGERPRINTS + int.from_bytes(digest) % _FINGERPRINTS


@contextmanager
def tagging(mark: str) -> Iterator[int | None]:
    """Tag the process that is started inside; yields its tag, None where there can be none.

    The tag is inherited from this thread's process, because a child tagged only after its start
    may have children by then. So it must be short, and nothing else may be started meanwhile.
    Core dumps are turned off in the same way, and the limit of open files is as it was given to us.
    """
    before: list[tuple[int, tuple[int, int]]] = []
    tag = None
    try:
        _lower(resource.RLIMIT_CORE, 0, before)
        if (files := room.files_before()) is not None:
            _lower(resource.RLIMIT_NOFILE, files, before)
        if sys.platform == "linux":
            _lower(resource.RLIMIT_RSS, fingerprint(mark), before)
            if width():
                tag = _own_limit() - (next(_spawns) % _VALUES + 1) * width()
                _lower(_RLIMIT_LOCKS, tag, before)
        yield tag
    finally:
        for limit, values in before:
            resource.setrlimit(limit, values)


def _lower(limit: int, value: int, before: list[tuple[int, tuple[int, int]]]) -> None:
    soft, hard = resource.getrlimit(limit)
    if soft != value and (hard == resource.RLIM_INFINITY or value <= hard):
        resource.setrlimit(limit, (value, hard))
        before.append((limit, (soft, hard)))


def fasten(pid: int, tag: int | None) -> None:
    """Keep a tagged child from taking its tag off again, and from dumping core."""
    if sys.platform == "linux":
        with suppress(OSError):
            resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
            if tag is not None:
                resource.prlimit(pid, _RLIMIT_LOCKS, (tag, tag))


def bears(pid: int, prints: int) -> bool:
    """Tell whether a process, of whichever runner, carries this fingerprint."""
    if sys.platform != "linux":
        return False
    try:
        return resource.prlimit(pid, resource.RLIMIT_RSS)[0] == prints
    except OSError:
        return False


def signs(pid: int) -> tuple[int, int]:
    """Return what a process carries, by whichever runner; processes of one spawn carry the same."""
    if sys.platform != "linux":
        return (0, 0)
    try:
        prints = resource.prlimit(pid, resource.RLIMIT_RSS)[0]
        tag = resource.prlimit(pid, _RLIMIT_LOCKS)[1]
    except OSError:
        return (0, 0)
    return prints, tag


def read(pid: int) -> int | None:
    """Read which tag given here a process descends from; None when there is none to read.

    Ask only about descendants of this process: other runners give the same values.
    """
    if sys.platform != "linux" or not width():
        return None
    try:
        soft, hard = resource.prlimit(pid, _RLIMIT_LOCKS)
    except OSError:
        return None
    tag = hard if 0 <= hard < _own_limit() else soft
    if not 0 <= tag < _own_limit():
        return None
    # A nested runner lowers the tag, but stays within the width it was given.
    return -(-tag // width()) * width()
