"""Takes all that is in no commit out of a checkout, where nothing of it is uncommitted work.

What is left is exactly the commit, whatever its ignore rules and the names of files say.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.folders import remove_tree
from runtime.nested import has_files, may_have_links
from runtime.ownership import OWN_FILES_OUT
from runtime.status import SLOW, Checkout, own_index, status_in
from runtime.tree import LINK_MODE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.git import Git


async def strip(git: Git, checkout: Checkout, commit: str) -> bool:
    """Take it out; False, with nothing touched, where the checkout cannot be just that commit."""
    async with own_index(git, checkout) as index:
        env = index.env
        status = await status_in(git, checkout, index)
        if status.head != commit or status.dirty or status.hidden:
            return False
        listed = await git.run(
            "ls-files", "--others", "--directory", "-z", "--", ".", *OWN_FILES_OUT,
            cwd=checkout.folder, env=env, timeout=SLOW,
        )  # fmt: skip
        names = [os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
        linked = await _linked(git, checkout, env)
    if any(has_files(checkout.folder / name) for name in linked):
        return False
    if linked and (checkout.git_dir / "modules").exists():
        return False
    await asyncio.to_thread(_remove, checkout.folder, names)
    return True


async def _linked(git: Git, checkout: Checkout, env: Mapping[str, str]) -> list[str]:
    """Return the submodules: git does not look into them, and their hooks lie elsewhere."""
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
