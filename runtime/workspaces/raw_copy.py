"""Saves the files of a folder byte for byte, where git cannot compare them by its own rules.

Owns a way of saving that ignores every attribute, filter and index of the checkout: git is given
the bytes of each file. It must not change anything in the folder.
"""

from __future__ import annotations

import asyncio
import os
import stat
from typing import TYPE_CHECKING

from runtime.git.git import SLOW, set_over
from runtime.git.ownership import OWN_FILES_OUT
from runtime.git.porcelain import LINK_MODE
from runtime.workspaces.nested_repositories import has_files
from runtime.workspaces.safe_copy import copy_out
from runtime.workspaces.saved_work import Saver
from runtime.workspaces.status import is_blob

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_GONE = b"0 " + b"0" * 40


class RawSaver(Saver):
    """Saves files as they are on disk."""

    async def tree_of(self, head: str, extra: bytes) -> str:
        """Write the files of the folder as a tree, without what the base ignores."""
        del extra  # no rules of an agent are used, so none of them hides anything
        folder, checkout = self._checkout.folder, self._checkout
        rules = self._scratch / "ignored"
        rules.write_bytes(checkout.ignored or b"")
        env = {**self._env, **set_over([("core.sparseCheckout", "false")])}
        env["GIT_INDEX_FILE"] = str(self._fresh_index())
        if head:
            await self._git.run("read-tree", head, cwd=folder, env=env, timeout=SLOW)
        listed = await self._names(env, "--stage")
        known = dict(_entry(each) for each in listed)
        asked = ("--others", f"--exclude-from={rules}", "--", ".", *OWN_FILES_OUT)
        others = [os.fsdecode(name) for name in await self._names(env, *asked)]
        nested = [name for name in others if name.endswith("/")]
        links = [name for name, (mode, _) in known.items() if mode == LINK_MODE]
        nested += [name for name in links if has_files(folder / name)]
        self.problems += "".join(
            f"error: {folder / name}: it is a separate git repository\n"
            for name in checkout.not_made(nested)
        )
        unknown = set(checkout.not_made(each for each in others if not each.endswith("/")))
        files = {name: entry for name, entry in known.items() if entry[0] != LINK_MODE}
        changed = await asyncio.to_thread(_differing, folder, files)
        await self._put(env, changed | unknown, frozenset(files))
        return (await self._git.run("write-tree", cwd=folder, env=env, timeout=SLOW)).text

    async def _names(self, env: Mapping[str, str], *args: str) -> list[bytes]:
        told = await self._git.run(
            "ls-files", "-z", *args, cwd=self._checkout.folder, env=env, timeout=SLOW
        )
        return [name for name in told.stdout.split(b"\0") if name]

    async def _put(self, env: Mapping[str, str], names: set[str], known: frozenset[str]) -> None:
        """Add the bytes of these files to the index; remove those that are gone."""
        top, copy = self._checkout.folder, self._scratch / "files"
        copy.mkdir()
        small = sorted(names - self._leave_large(names))
        left = await asyncio.to_thread(copy_out, top, small, copy)
        self.problems += "".join(
            f"error: {top / name}: {why}\n" for name, why in left.problems.items()
        )
        taken = [name for name in small if name not in left.gone and name not in left.problems]
        bodies = self._scratch / "bodies"
        bodies.mkdir()
        modes = await asyncio.to_thread(_lay_bare, copy, taken, bodies)
        paths = "".join(f"{bodies / str(number)}\n" for number in range(len(taken)))
        hashed = await self._git.run(
            "hash-object", "-w", "--no-filters", "--stdin-paths",
            cwd=top, env=env, input=paths.encode(), timeout=SLOW,
        )  # fmt: skip
        lines = [_line(_GONE, name) for name in left.gone & known]
        for name, mode, sha in zip(taken, modes, hashed.stdout.splitlines(), strict=True):
            lines.append(_line(mode + b" " + sha, name))
        asked = ("update-index", "--add", "--replace", "-z", "--index-info")
        await self._git.run(*asked, cwd=top, env=env, input=b"".join(lines), timeout=SLOW)


def _entry(listed: bytes) -> tuple[str, tuple[bytes, str]]:
    told, _, name = listed.partition(b"\t")
    mode, sha, _ = told.split(b" ")
    return os.fsdecode(name), (mode, sha.decode())


def _differing(folder: Path, files: Mapping[str, tuple[bytes, str]]) -> set[str]:
    return {name for name, entry in files.items() if not is_blob(folder / name, *entry)}


def _lay_bare(copy: Path, names: Iterable[str], bodies: Path) -> list[bytes]:
    """Put what a commit would hold of each file into a file of its own; return their modes."""
    modes = []
    for number, name in enumerate(names):
        path, body = copy / name, bodies / str(number)
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            body.write_bytes(os.fsencode(path.readlink()))
            modes.append(b"120000")
        else:
            path.rename(body)
            modes.append(b"100755" if mode & stat.S_IXUSR else b"100644")
    return modes


def _line(entry: bytes, name: str) -> bytes:
    return entry + b"\t" + os.fsencode(name) + b"\0"
