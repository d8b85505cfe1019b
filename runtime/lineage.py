"""A tag that a process hands down to all its descendants, whatever they do to hide.

A daemon can leave its session and clear its environment, but not shed a resource limit. Linux keeps
one that has had no effect since 2.4 (RLIMIT_LOCKS), is inherited, may be lowered but not raised,
and can be read even of the dead. Each spawn gets its own value, so an orphan tells which spawn it
came from, and children that other code of this process started are never taken for orphans.

A runner that is itself below a tagged process divides the space below its own tag, two levels
deep. It must not be relied on against a privileged process that raises its limits on purpose.
"""

from __future__ import annotations

import functools
import itertools
import resource
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_RLIMIT_LOCKS = 10
_TOP = 1 << 62
_WIDTHS = (1 << 40, 1 << 20, 1)
_VALUES = (1 << 20) - 1
_spawns = itertools.count()


@functools.cache
def _own_limit() -> int:
    if sys.platform != "linux":
        return 0
    hard = resource.prlimit(0, _RLIMIT_LOCKS)[1]
    return _TOP if hard == resource.RLIM_INFINITY else hard


@functools.cache
def _width() -> int:
    """Divide what is below our own tag; 0 when we are too deep, or the limit is in other use."""
    own = _own_limit()
    if own == _TOP:
        return _WIDTHS[0]
    for outer, inner in itertools.pairwise(_WIDTHS):
        if own and own % outer == 0:
            return inner
    return 0


@contextmanager
def tagging() -> Iterator[int | None]:
    """Tag the process that is started inside; yields its tag, None where there can be none.

    The tag is inherited from this thread's process, because a child tagged only after its start
    may have children by then. So it must be short, and nothing else may be started meanwhile.
    """
    if sys.platform != "linux" or not _width():
        yield None
        return
    tag = _own_limit() - (next(_spawns) % _VALUES + 1) * _width()
    soft, hard = resource.prlimit(0, _RLIMIT_LOCKS)
    resource.prlimit(0, _RLIMIT_LOCKS, (tag, hard))
    try:
        yield tag
    finally:
        resource.prlimit(0, _RLIMIT_LOCKS, (soft, hard))


def fasten(pid: int, tag: int | None) -> None:
    """Keep a tagged child from taking its tag off again."""
    if sys.platform == "linux" and tag is not None:
        with suppress(OSError):
            resource.prlimit(pid, _RLIMIT_LOCKS, (tag, tag))


def read(pid: int) -> int | None:
    """Read which tag given here a process descends from; None when there is none to read.

    Ask only about descendants of this process: other runners give the same values.
    """
    if sys.platform != "linux" or not _width():
        return None
    try:
        soft, hard = resource.prlimit(pid, _RLIMIT_LOCKS)
    except OSError:
        return None
    tag = hard if 0 <= hard < _own_limit() else soft
    if not 0 <= tag < _own_limit():
        return None
    # A nested runner lowers the tag, but stays within the width it was given.
    return -(-tag // _width()) * _width()
