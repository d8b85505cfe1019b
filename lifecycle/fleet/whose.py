"""Which runner an instance belongs to, and whether that runner lives: a process beyond doubt.

It must not signal anything, nor decide what becomes of an instance.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from runtime import proctable

if TYPE_CHECKING:
    from collections.abc import Mapping

RUNNER = "runner"
"""Under which name the details of an instance hold it."""


def this_runner() -> dict[str, Any]:
    """Return what tells this process from any other, on this machine and in this boot."""
    return _runner(os.getpid())


@functools.lru_cache(maxsize=2)
def _runner(pid: int) -> dict[str, Any]:
    row = proctable.read_row(pid)
    start = row.start if row else 0
    return {"pid": pid, "start_time": start, "boot_id": proctable.boot_id()}


def has_runner(details: Mapping[str, Any]) -> bool:
    """Tell whether the runner that an instance's details name is alive; this one is."""
    match details.get(RUNNER):
        case {"pid": int(pid), "start_time": int(start), "boot_id": str(boot)}:
            row = proctable.read_row(pid) if boot == proctable.boot_id() else None
            return row is not None and not row.dead and row.start == start
        case _:
            return False
