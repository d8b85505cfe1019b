"""Users under a limit on processes and threads, which root does not know."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

NOBODY_ELSE = 50_000
"""Users of numbers from here on have no processes but those of a test."""


def limited_user(folder: Path) -> tuple[int, tuple[str, ...]]:
    """Give a folder to a user whom limits hold; returns who, and what begins a command as it.

    It may still read what is only root's, such as an interpreter in root's home.
    """
    if os.geteuid():
        return os.getuid(), ()
    user = NOBODY_ELSE + os.getpid() % 10_000
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)
    powers = "+dac_override,+dac_read_search"
    # Without this bit access(2) does not know of those powers.
    bits = "--securebits=+no_setuid_fixup"
    who = (bits, f"--reuid={user}", f"--regid={user}", "--clear-groups")
    return user, ("setpriv", *who, f"--inh-caps={powers}", f"--ambient-caps={powers}")
