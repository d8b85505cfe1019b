"""Which file the output of this process goes to, so that others can name it."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from pathlib import Path

from runtime.git.ownership import STATE_FOLDER

_LONGEST_PATH = 1024


def output_file() -> str:
    """Return the path of the file that is our standard error; empty where it is none."""
    try:
        descriptor = sys.stderr.fileno()
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return _path_of(descriptor)
    except (OSError, ValueError, AttributeError):
        return ""


def is_kept() -> bool:
    """Tell whether our output goes to a log of ours, which keeps what was for one person and now.

    A file that somebody named on the command line is theirs: it gets what a terminal would.
    """
    return Path(output_file()).parent.name == STATE_FOLDER


def _path_of(descriptor: int) -> str:
    if sys.platform == "darwin":
        found = fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(_LONGEST_PATH))
        return os.fsdecode(found.rstrip(b"\0"))
    path = Path(f"/proc/self/fd/{descriptor}").readlink()
    return str(path) if path.exists() else ""
