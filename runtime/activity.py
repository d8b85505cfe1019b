"""Signs of life of an attempt: output, processor time, changed files.

It gives facts only; whether they mean busy, idle or hung is decided elsewhere.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime import output

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from runtime.proctable import Row

_SKIPPED = frozenset({".git", "node_modules", ".venv"})
_MOST_ENTRIES = 50_000


@dataclass(frozen=True, slots=True)
class Activity:
    """One measurement. A change of `cpu_ticks` either way is life: the dead take theirs along."""

    log_size: int
    cpu_ticks: int
    processes: int


def measure(log: Path, members: Iterable[Row]) -> Activity:
    """Measure one process tree and its log."""
    alive = [row for row in members if not row.dead]
    return Activity(output.size(log), sum(row.ticks for row in alive), len(alive))


def newest_change(workspace: Path, since: float) -> float | None:
    """Return the time of a change after `since`, the first one met; None when none was met.

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
