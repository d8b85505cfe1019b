"""Removes all untracked files from a checkout, if none of them is uncommitted work.

What remains is exactly the commit, whatever its ignore rules say. It must not remove work.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.git.git import SLOW
from runtime.git.ownership import OWN_FILES_OUT
from runtime.git.porcelain import LINK_MODE, names_in
from runtime.remove_tree import remove_tree
from runtime.workspaces.nested_repositories import has_files, may_have_links
from runtime.workspaces.status import Checkout, own_index, status_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.git.git import Git


async def remove_untracked(git: Git, checkout: Checkout, commit: str) -> bool:
    """Remove them; False, with nothing touched, if the checkout cannot be reduced to the commit."""
    async with own_index(git, checkout) as index:
        env = index.env
        status = await status_in(git, checkout, index)
        if status.head != commit or status.dirty or status.hidden:
            return False
        listed = await git.run(
            "ls-files", "--others", "--directory", "-z", "--", ".", *OWN_FILES_OUT,
            cwd=checkout.folder, env=env, timeout=SLOW,
        )  # fmt: skip
        names = names_in(listed.stdout)
        linked = await _linked(git, checkout, env)
    if any(has_files(checkout.folder / name) for name in linked):
        return False
    if linked and (checkout.git_dir / "modules").exists():
        return False
    await asyncio.to_thread(_remove, checkout.folder, names)
    return True


async def _linked(git: Git, checkout: Checkout, env: Mapping[str, str]) -> list[str]:
    """Return the submodules: git does not look into them, and their hooks are elsewhere."""
    if not may_have_links(Path(env["GIT_INDEX_FILE"])):
        return []
    told = await git.run("ls-files", "--stage", "-z", cwd=checkout.folder, env=env, timeout=SLOW)
    entries = told.stdout.split(b"\0")
    return [
        os.fsdecode(entry.partition(b"\t")[2])
        for entry in entries
        if entry.startswith(LINK_MODE + b" ")
    ]


def _remove(folder: Path, names: list[str]) -> None:
    for name in names:
        remove_tree(folder / name.removesuffix("/"))
