"""Which runner an instance belongs to, and whether that runner is alive.

Must not signal a process, nor decide what happens to an instance.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from runtime import proc_table
from runtime.machine_id import this_machine

if TYPE_CHECKING:
    from collections.abc import Mapping

RUNNER = "runner"
"""The key of the runner in the details of an instance."""


def this_runner() -> dict[str, Any]:
    """Return what distinguishes this process from any other, on any machine and boot."""
    return _runner(os.getpid())


@functools.lru_cache(maxsize=2)
def _runner(pid: int) -> dict[str, Any]:
    row = proc_table.read_row(pid)
    start = row.start if row else 0
    where = {"boot_id": proc_table.boot_id(), "machine": this_machine()}
    return {"pid": pid, "start_time": start, **where}


def machine_of(details: Mapping[str, Any]) -> str:
    """Return the machine of an instance's runner; empty if it is not recorded."""
    match details.get(RUNNER):
        case {"machine": str(machine)}:
            return machine
        case _:
            return ""


def has_runner(details: Mapping[str, Any]) -> bool:
    """Tell whether the runner in an instance's details is alive; this process is."""
    match details.get(RUNNER):
        case {"pid": int(pid), "start_time": int(start), "boot_id": str(boot)}:
            row = proc_table.read_row(pid) if boot == proc_table.boot_id() else None
            return row is not None and not row.dead and row.start == start
        case _:
            return False
