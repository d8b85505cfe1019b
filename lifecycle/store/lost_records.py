"""Refuses to start with empty records where records of loops are lost.

Knows what shows that loops ran here: files beside the database, and their branches. Must not change
anything; starting over on purpose is `loopwright init --begin-anew`.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from lifecycle.errors import RecordsLostError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

_NAMED = 5


async def refuse_lost(
    database: Path, agents_with_branches: Callable[[], Awaitable[tuple[str, ...]]]
) -> None:
    """Raise RecordsLostError where there are no records, but files or branches that loops made."""
    if not is_to_be_made(database):
        return
    refuse_traces(database)
    if was_set_aside(database):
        return
    agents = await agents_with_branches()
    if agents:
        more = f" and {len(agents) - _NAMED} more" if len(agents) > _NAMED else ""
        named = ", ".join(agents[:_NAMED])
        raise _lost(database, f"there are branches of {named}{more} (refs/loopwright/base/)")


def is_to_be_made(path: Path) -> bool:
    """Tell whether there are no records: no database, or an empty file."""
    return not any(_holds_something(beside(path, part)) for part in ("", "-wal"))


def _lost(path: Path, traces: str) -> RecordsLostError:
    """Return the error for lost records that left these traces."""
    what = "is empty" if path.exists() else "is missing"
    return RecordsLostError(
        f"{path} {what}, but {traces}: loops ran here, their records are lost, and their tasks "
        "would be done again. Put a backup in its place; or start over on purpose with "
        "`loopwright init --begin-anew`"
    )


def refuse_traces(path: Path) -> None:
    """Raise RecordsLostError where files beside the database show that there were records.

    A damaged one that was set aside was reported, and its audit note moved with it.
    """
    note = beside(path, "-audit")
    if _holds_something(note):
        raise _lost(path, f"{note.name} beside it tells of an audit")
    if was_set_aside(path):
        return
    for name in ("logs", "summaries"):
        with contextlib.suppress(OSError):
            if any(path.parent.joinpath(name).iterdir()):
                raise _lost(path, f"there are {name} in {path.parent.joinpath(name)}")


def was_set_aside(path: Path) -> bool:
    """Tell whether an earlier database was moved aside, which was reported then."""
    return any(path.parent.glob(f"{path.name}.*-[0-9]*"))


def _holds_something(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except (FileNotFoundError, NotADirectoryError):
        return False


def beside(path: Path, suffix: str) -> Path:
    """Return the companion file of a database with this suffix."""
    return path.with_name(path.name + suffix)
