"""Which file system holds a path, as far as this system tells. Changes nothing."""

from __future__ import annotations

import sys
from pathlib import Path


def kind_at(path: Path) -> str:
    """Return the type of the file system that holds a path; nothing where that is not told."""
    if sys.platform != "linux":
        return ""
    try:
        lines = Path("/proc/self/mountinfo").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    best, kind = -1, ""
    for line in lines:
        mount, _, rest = line.partition(" - ")
        place = _unescaped(mount.split()[4])
        if path.is_relative_to(place) and len(place) >= best:
            best, kind = len(place), rest.split()[0]
    return kind


def _unescaped(place: str) -> str:
    """Read the octal escapes that the kernel writes for blanks; all else is UTF-8 as it is."""
    raw = place.encode().decode("unicode_escape").encode("latin-1")
    return raw.decode(errors="replace")
