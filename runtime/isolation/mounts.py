"""What is visible where in a box, as one ordered list for every engine.

Pure. It must not know how an engine mounts.
"""

from __future__ import annotations

from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.isolation.box import Box


class Kind(Enum):
    """How a place appears inside."""

    EMPTY = auto()
    """A private empty folder, writable and gone afterwards."""
    READ = auto()
    WRITE = auto()
    NOTHING = auto()
    """An empty file."""


class Mount(NamedTuple):
    """One place of the box."""

    path: Path
    kind: Kind


TEMPORARY = Path("/tmp")  # noqa: S108  # the private one of the box
_ROOT = Path("/")


def mounts(box: Box, env: Mapping[str, str]) -> tuple[Mount, ...]:
    """List what to mount, outer places before those within them.

    The same place named twice is as open as the last of: empty, readable, login, hidden, writable,
    workspace, masked.
    """
    found: dict[Path, Kind] = {TEMPORARY: Kind.EMPTY}
    writable = (*box.writable, box.workspace)
    home = Path(env.get("HOME", ""))
    if home.is_absolute() and not any(home.is_relative_to(path) for path in writable):
        found[home] = Kind.EMPTY
    found |= dict.fromkeys((*box.readable, *box.login), Kind.READ)
    found |= dict.fromkeys(box.hidden, Kind.EMPTY)
    found |= dict.fromkeys(writable, Kind.WRITE)
    found |= dict.fromkeys(box.masked, Kind.NOTHING)
    found.pop(_ROOT, None)
    ordered = sorted(found, key=lambda path: (len(path.parts), path))
    return tuple(Mount(path, found[path]) for path in ordered)
