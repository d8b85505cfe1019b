"""Signs of life of an attempt: output, processor time, changed files.

It must not decide whether they mean busy, idle or hung.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime import proc_table
from runtime.logs import files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from runtime.proc_tree import ProcessRow

_SKIPPED = frozenset({".git", "node_modules", ".venv"})
_MOST_ENTRIES = 50_000


@dataclass(frozen=True, slots=True)
class Activity:
    """One measurement. Any change of `cpu_ticks` is activity: ended processes take theirs away."""

    log_size: int
    cpu_ticks: int
    processes: int
    memory_bytes: int = 0
    """What its control group counts, file caches included; else its resident memory."""
    suspended: bool = False


def measure(
    log: Path, members: Iterable[ProcessRow], *, memory: int | None = None, suspended: bool = False
) -> Activity:
    """Measure one process tree and its log; `memory` is what its group counts, if one does."""
    alive = [row for row in members if not row.dead]
    return Activity(
        log_size=files.size(log),
        cpu_ticks=sum(row.ticks for row in alive),
        processes=len(alive),
        memory_bytes=sum(row.resident for row in alive) if memory is None else memory,
        suspended=suspended,
    )


def is_above(size: int, members: Iterable[ProcessRow]) -> bool:
    """Tell whether a tree uses more memory, counting shared memory once."""
    total = 0
    for row in members:
        part = proc_table.read_pss(row.pid)
        total += row.resident if part is None else part
    return total > size


def newest_change(workspace: Path, since: float) -> float | None:
    """Return the time of the first change found after `since`; None if none was found.

    A folder counts with its own time, which tells of files made, renamed and removed in it. The
    search skips what tools fill (`.git`, `node_modules`, `.venv`), follows no link, and ends after
    50,000 entries.
    """
    entries = 0
    todo = [os.fspath(workspace)]
    while todo and entries < _MOST_ENTRIES:
        try:
            found = os.scandir(todo.pop())
        except OSError:
            continue
        with found:
            for entry in found:
                entries += 1
                try:
                    changed = entry.stat(follow_symlinks=False).st_mtime
                except OSError:
                    continue
                if entry.name in _SKIPPED:
                    continue
                if changed > since:
                    return changed
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
    return None
