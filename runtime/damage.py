"""Objects of a repository that are damaged, as a power cut or a full disk leaves them.

Owns finding out whether one is, and moving it out of the way. What is packed is not looked at.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_AT_ONCE = 1 << 20


def set_aside(objects: Path, sha: str) -> bool:
    """Rename a loose object that does not hold what its name says; tell whether it was one."""
    path = objects / sha[:2] / sha[2:]
    try:
        if _digest(path, sha) == sha:
            return False
        # Not a name that git reads; who knows how to mend it finds it beside.
        os.replace(path, path.with_name(f"{path.name}.damaged"))  # noqa: PTH105  # over an earlier one
    except OSError:
        return False
    return True


def _digest(path: Path, sha: str) -> str:
    digest = hashlib.sha1() if len(sha) == 40 else hashlib.sha256()  # noqa: PLR2004, S324  # git's own
    inflate = zlib.decompressobj()
    with path.open("rb") as file:
        try:
            while part := file.read(_AT_ONCE):
                digest.update(inflate.decompress(part))
        except zlib.error:
            return ""
    return digest.hexdigest()
