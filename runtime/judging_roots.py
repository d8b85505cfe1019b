"""Where the judging checkouts of a repository are and were: another setting, another place.

Owns the list of these folders beside the runner's records. One that the repository is not written
down as an owner of is none of its own: a copied repository takes over its original's list.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.gitview import read_small
from runtime.ownership import STATE_FOLDER, make_private
from runtime.worktrees_dir import JUDGING, owners

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = "roots"


def note(repo: Path, root: Path) -> None:
    """Write down that judging checkouts are made below this folder."""
    known = tuple(_listed(repo))
    if root in known:
        return
    file = _file(repo)
    make_private(file.parent)
    lines = (json.dumps(str(each)) for each in (*filter(Path.is_dir, known), root))
    fresh = file.with_name(f"{_NAME}.new")
    fresh.write_text("".join(f"{line}\n" for line in lines), "ascii")
    fresh.replace(file)


def noted(repo: Path) -> tuple[Path, ...]:
    """Return the folders with judging checkouts of this repository that are there."""
    return tuple(
        root
        for root in _listed(repo)
        if root.name == JUDGING and root.is_dir() and repo in owners(root.parent)
    )


def _listed(repo: Path) -> Iterator[Path]:
    for line in os.fsdecode(read_small(_file(repo)) or b"").splitlines():
        try:
            yield Path(json.loads(line))
        except (ValueError, TypeError):
            continue


def _file(repo: Path) -> Path:
    return repo / STATE_FOLDER / "judging" / _NAME
