"""Deletes instances that ended long ago, with their folders and logs.

Must not touch one that is active, nor attempts of loops: those go with their lifecycles.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lifecycle.fleet.bodies.command_order import remove_files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from lifecycle.store.sqlite.instances import SqliteInstances

PAGE = 1000


async def prune(
    store: SqliteInstances, folder: Path | None, before: float, *, limit: int = PAGE
) -> int:
    """Delete at most so many instances that ended before a time; return how many."""
    gone = await store.prune(before, limit=limit)
    if folder is not None and gone:
        await asyncio.to_thread(_remove, [folder / str(each) for each in gone])
    return len(gone)


async def prune_all(store: SqliteInstances, folder: Path | None, before: float) -> int:
    """Delete all instances that ended before a time; return how many."""
    count = 0
    while gone := await prune(store, folder, before):
        count += gone
        if gone < PAGE:
            break
    return count


def _remove(folders: Iterable[Path]) -> None:
    for folder in folders:
        remove_files(folder)
