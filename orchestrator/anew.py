"""Begins with empty records where those of earlier loops are lost, because a person says so.

Must not touch records that are there, nor branches and saved work.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lifecycle.audit import Audit
from lifecycle.clock import SystemClock
from lifecycle.paths import Paths
from lifecycle.store.lock import RunnerLock
from lifecycle.store.sqlite import SqliteStore
from lifecycle.store.sqlite_file import is_to_be_made
from orchestrator.cli.options import user
from orchestrator.peopleonly import require_person

if TYPE_CHECKING:
    from pathlib import Path


def begin_anew(repo: Path) -> str:
    """Make empty records if there are none; say what was done."""
    require_person(repo, "begin anew")
    paths = Paths.of(repo)
    paths.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = RunnerLock(paths.root, who="loopwright init --begin-anew")
    lock.acquire()
    try:
        if not is_to_be_made(paths.database):
            return f"ok    {paths.database} holds records and stays as it is"
        asyncio.run(_make(paths.database))
    finally:
        lock.release()
    return (
        f"done  {paths.database} is made anew and empty; tasks that are run again go on from the "
        "branches that are there"
    )


async def _make(database: Path) -> None:
    async with await SqliteStore.open(database, anew=True) as store:
        audit = Audit(store.trail, now=SystemClock().now)
        await audit.record("begin_anew", user(), database.name, "done", "the records were lost")
