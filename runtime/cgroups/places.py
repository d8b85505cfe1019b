"""Where this process stands in the control group hierarchies of the kernel.

Pure: it reads texts of `/proc` that it is given. It must not touch the hierarchies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_CONTROLLERS = ("memory", "cpu", "pids", "freezer")
UNIFIED = ""
"""The name under which version 2 is listed."""
_OCTAL = re.compile(r"\\([0-7]{3})")
_SEPARATOR = " - "


@dataclass(frozen=True, slots=True)
class Place:
    """Our own group in one hierarchy, and the folder where that hierarchy begins for us."""

    own: Path
    top: Path


def find(mountinfo: str, membership: str) -> dict[str, Place]:
    """Read `/proc/self/mountinfo` and `/proc/self/cgroup`: controller of version 1, or UNIFIED."""
    paths = _paths(membership)
    places: dict[str, Place] = {}
    for line in mountinfo.splitlines():
        before, found, after = line.partition(_SEPARATOR)
        fields, kind = before.split(), after.split()
        if not found or not kind or kind[0] not in {"cgroup", "cgroup2"}:
            continue
        root, top = _plain(fields[3]), Path(_plain(fields[4]))
        names = [UNIFIED] if kind[0] == "cgroup2" else kind[-1].split(",")
        for name in names:
            if name in {UNIFIED, *_CONTROLLERS} and name in paths:
                places.setdefault(name, Place(_below(top, root, paths[name]), top))
    return places


def _paths(membership: str) -> dict[str, str]:
    paths = {}
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    return paths


def _below(top: Path, root: str, path: str) -> Path:
    """Find our group below a mount that may show only a part of the hierarchy."""
    inside = (
        path.removeprefix(root) if root != "/" and (path + "/").startswith(root + "/") else path
    )
    if ".." in inside.split("/"):
        # We are outside of what our namespace shows; what it shows is all there is for us.
        return top
    return top / inside.lstrip("/")


def _plain(field: str) -> str:
    return _OCTAL.sub(lambda code: chr(int(code[1], 8)), field)
