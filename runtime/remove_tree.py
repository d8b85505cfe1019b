"""Removes folders with anything that programs leave in them."""

from __future__ import annotations

import os
import shutil
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def remove_tree(path: Path) -> None:
    """Remove a file, a link or a folder with all its content; no error if it is missing."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    # Package caches are often read-only, and a read-only folder cannot be emptied.
    for folder, _, _ in os.walk(path):
        os.chmod(folder, stat.S_IRWXU)  # noqa: PTH101  # thousands of entries, each once
    shutil.rmtree(path)
