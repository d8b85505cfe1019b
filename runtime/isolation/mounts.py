"""The mounts of a sandbox, as one ordered list for every engine.

Pure. It must not know how an engine mounts.
"""

from __future__ import annotations

from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.isolation.sandbox import Sandbox


class MountKind(Enum):
    """How a path appears inside."""

    EMPTY = auto()
    """A private empty folder, writable and removed afterwards."""
    READ = auto()
    WRITE = auto()
    NOTHING = auto()
    """An empty file."""


class Mount(NamedTuple):
    """One mount of the sandbox."""

    path: Path
    kind: MountKind


TEMPORARY = Path("/tmp")  # noqa: S108  # the private one of the sandbox
_ROOT = Path("/")


def mounts(sandbox: Sandbox, env: Mapping[str, str]) -> tuple[Mount, ...]:
    """List what to mount, parents before children.

    If the same path is named twice, the last of these wins: empty, readable, login, hidden,
    writable, workspace (which may be only readable), masked.
    """
    found: dict[Path, MountKind] = {TEMPORARY: MountKind.EMPTY}
    writable = (*sandbox.writable, sandbox.workspace)
    home = Path(env.get("HOME", ""))
    if home.is_absolute() and not any(home.is_relative_to(path) for path in writable):
        found[home] = MountKind.EMPTY
    found |= dict.fromkeys((*sandbox.readable, *sandbox.login), MountKind.READ)
    found |= dict.fromkeys(sandbox.hidden, MountKind.EMPTY)
    found |= dict.fromkeys(writable, MountKind.WRITE)
    if sandbox.read_only:
        found[sandbox.workspace] = MountKind.READ
    found |= dict.fromkeys(sandbox.masked, MountKind.NOTHING)
    found.pop(_ROOT, None)
    ordered = sorted(found, key=lambda path: (len(path.parts), path))
    return tuple(Mount(path, found[path]) for path in ordered)
