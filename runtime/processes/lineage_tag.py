"""A tag that a process passes on to all its descendants, whatever they do to hide.

A daemon can leave its session and clear its environment, but not drop a resource limit. Linux has
one without effect since 2.4 (RLIMIT_LOCKS): it is inherited, may be lowered but not raised, and can
be read even of a zombie. Each spawn gets its own value, so an orphan shows which spawn it comes
from, and children that other code of this process started are never mistaken for orphans.

A runner below a tagged process divides the range below its own tag, two levels deep. The tag is
meaningful to its own runner only. For later runners each process also carries the fingerprint of
its mark in another limit without effect (RLIMIT_RSS). It must not be relied on against a process
that raises its limits on purpose.
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

from runtime import capacity

if TYPE_CHECKING:
    from collections.abc import Iterator

_RLIMIT_LOCKS = 10
_TOP = 1 << 62
_WIDTHS = (1 << 40, 1 << 20, 1)
_VALUES = (1 << 20) - 1
_FINGERPRINTS = 1 << 61
"""Fingerprints start here: far more than any memory, in case a program obeys them as a limit."""
_spawns = itertools.count(secrets.randbelow(_VALUES))
"""Not from 0, so that tags of different runners differ."""


def _forked() -> None:
    global _spawns  # noqa: PLW0603  # a forked runner is another one
    _spawns = itertools.count(secrets.randbelow(_VALUES))


os.register_at_fork(after_in_child=_forked)


@functools.cache
def _own_limit() -> int:
    if sys.platform != "linux":
        return 0
    # The hard limit may be unset: a child can run before `fasten` sets it.
    limits = resource.prlimit(0, _RLIMIT_LOCKS)
    return min((each for each in limits if each != resource.RLIM_INFINITY), default=_TOP)


@functools.cache
def width() -> int:
    """Return the distance of tags below our own; 0 if we are too deep, or the limit is in use."""
    own = _own_limit()
    if own == _TOP:
        return _WIDTHS[0]
    for outer, inner in itertools.pairwise(_WIDTHS):
        if own and own % outer == 0:
            return inner
    return 0


def fingerprint(mark: str) -> int:
    """Return the fingerprint that processes started under this mark carry."""
    digest = hashlib.blake2b(mark.encode(errors="surrogateescape"), digest_size=8).digest()
    return _FINGERPRINTS + int.from_bytes(digest) % _FINGERPRINTS


@contextmanager
def tagging(mark: str) -> Iterator[int | None]:
    """Tag the process that is started inside; yields its tag, None if that is impossible.

    The tag is inherited from this process, because a child tagged only after its start may have
    children by then. So the block must be short, and nothing else may be started meanwhile.
    Core dumps are disabled in the same way, and the original limit of open files is restored.
    """
    before: list[tuple[int, tuple[int, int]]] = []
    tag = None
    try:
        _lower(resource.RLIMIT_CORE, 0, before)
        if (files := capacity.files_before()) is not None:
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
    """Stop a tagged child from removing its tag, and from dumping core."""
    if sys.platform == "linux":
        with suppress(OSError):
            resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
            if tag is not None:
                resource.prlimit(pid, _RLIMIT_LOCKS, (tag, tag))


def bears(pid: int, prints: int) -> bool:
    """Tell whether a process, of any runner, carries this fingerprint."""
    if sys.platform != "linux":
        return False
    try:
        return resource.prlimit(pid, resource.RLIMIT_RSS)[0] == prints
    except OSError:
        return False


def signs(pid: int) -> tuple[int, int]:
    """Return the fingerprint and tag of a process; equal for all processes of one spawn."""
    if sys.platform != "linux":
        return (0, 0)
    try:
        prints = resource.prlimit(pid, resource.RLIMIT_RSS)[0]
        tag = resource.prlimit(pid, _RLIMIT_LOCKS)[1]
    except OSError:
        return (0, 0)
    return prints, tag


def read(pid: int) -> int | None:
    """Return the tag, given by this runner, that a process descends from; None if it has none.

    Only for descendants of this process: other runners use the same values.
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
    # A nested runner lowers the tag, but stays within its width.
    return -(-tag // width()) * width()
