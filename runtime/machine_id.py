"""Which machine this is, by a name that stays the same: for marks, records and rows.

The name says nothing of the machine: it is a hash, or drawn by lot where the system has no name of
its own or shares it with others, as containers of one image do. It must not decide what belongs to
whom.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.errors import RepositoryError
from runtime.proc_table import MACHINE_VARIABLE
from runtime.workspaces.worktrees_dir import user_state

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "machine-id"
"""The file in the user's state folder."""
SYSTEM = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_OF_CONTAINERS = (Path("/.dockerenv"), Path("/run/.containerenv"))
_LONGEST = 64
_SIZE = 8


@cache
def this_machine() -> str:
    """Return the name of this machine."""
    return machine_id(os.environ)


def worker_id(name: str, machine: str = "") -> str:
    """Return the name of one worker, of which a machine may have several, for the same places."""
    return f"{machine or this_machine()}.{name}"[:_LONGEST]


def machine_id(
    environ: Mapping[str, str],
    *,
    system: tuple[Path, ...] = SYSTEM,
    containers: tuple[Path, ...] = _OF_CONTAINERS,
) -> str:
    """Return the name that these variables and files give; one that is set comes first."""
    if given := environ.get(MACHINE_VARIABLE, "").strip():
        return given[:_LONGEST]
    inside = "container" in environ or any(map(os.path.lexists, containers))
    if not inside and (name := _first(system)):
        return _hidden(name)
    with suppress(OSError, RepositoryError):
        return _drawn(user_state(environ) / NAME)
    # Nothing can be kept: what stays as long as the container does.
    return _hidden(f"{os.uname().nodename} {_first(system)}")


def _first(files: tuple[Path, ...]) -> str:
    for file in files:
        with suppress(OSError, ValueError):
            if name := file.read_text("ascii").strip():
                return name
    return ""


def _drawn(file: Path) -> str:
    """Return the name in this file, which is drawn if there is none."""
    if name := _first((file,)):
        return name[:_LONGEST]
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = file.with_name(f"{NAME}.{os.getpid()}.new")
    fresh.write_text(secrets.token_hex(_SIZE) + "\n")
    try:
        # Of two that draw at once, the first one's name counts.
        with suppress(FileExistsError):
            os.link(fresh, file)
    finally:
        fresh.unlink()
    return _first((file,))[:_LONGEST]


def _hidden(name: str) -> str:
    return hashlib.sha256(f"loopwright machine {name}".encode()).hexdigest()[: 2 * _SIZE]
