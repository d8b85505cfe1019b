"""Refuses to begin anew in silence where records of loops are gone.

Knows what shows that loops ran here: files beside the database, branches that were made here. Must
not change anything; beginning anew on purpose is `loopwright init --begin-anew`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.store.sqlite_file import is_to_be_made, lost, refuse_traces, was_set_aside

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.ports import Branches

_NAMED = 5


async def refuse_lost(database: Path, branches: Branches) -> None:
    """Raise RecordsLostError where there are no records, but files or branches that loops made."""
    if not is_to_be_made(database):
        return
    refuse_traces(database)
    if was_set_aside(database):
        return
    agents = await branches.agents()
    if agents:
        more = f" and {len(agents) - _NAMED} more" if len(agents) > _NAMED else ""
        named = ", ".join(agents[:_NAMED])
        raise lost(database, f"there are branches of {named}{more} (refs/loopwright/base/)")
