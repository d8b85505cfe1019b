"""Files and folders of the runner's own: made for this user alone, written whole or not at all.

It must not know what is in them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def make_private(folder: Path) -> None:
    """Create the folder and its missing parents for this user alone."""
    missing = [folder, *folder.parents]
    for each in reversed([path for path in missing if not path.exists()]):
        each.mkdir(mode=0o700, exist_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Replace the file in one step; a reader sees the old content or the new one."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        # Always a new file: a link that lies there would redirect the write.
        fresh.unlink(missing_ok=True)
        with fresh.open("xb") as file:
            file.write(content)
        if path.exists():
            fresh.chmod(path.stat().st_mode & 0o777)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
