"""Refuses a repository whose records are lost: its agents' branches are there, and no database.

Apart from the store, which a command that only finds nothing need not load.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from lifecycle.paths import Paths
from lifecycle.store.lost_records import refuse_lost
from runtime.branches import BranchManager
from runtime.proc_table import MARK_VARIABLE

if TYPE_CHECKING:
    from pathlib import Path


async def refuse_lost_of(repo: Path) -> None:
    """Raise RecordsLostError where branches of agents tell of records that are gone."""
    await refuse_lost(Paths.of(repo).database, BranchManager(repo).agents)


def refuse_lost_to_people(repo: Path) -> None:
    """Do so outside of any event loop; an agent may not see the records, and is told nothing."""
    if not os.environ.get(MARK_VARIABLE):
        asyncio.run(refuse_lost_of(repo))
