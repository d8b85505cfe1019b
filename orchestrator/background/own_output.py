"""Which file the output of this process goes to, so that others can name it."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from pathlib import Path

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


def _path_of(descriptor: int) -> str:
    if sys.platform == "darwin":
        found = fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(_LONGEST_PATH))
        return os.fsdecode(found.rstrip(b"\0"))
    path = Path(f"/proc/self/fd/{descriptor}").readlink()
    return str(path) if path.exists() else ""
