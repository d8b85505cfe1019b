"""Which files of a workspace were ignored before an agent came: what it may not hide by itself.

Owns reading the ignore rules of a base commit and of the user. Rules that an agent wrote, committed
or not, are not asked. It decides nothing about the files.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from runtime.gitview import read_small

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from runtime.git import Git

_NAME = b".gitignore"


async def rules_of(
    git: Git, commit: str, *, cwd: Path, env: Mapping[str, str], others: Iterable[bytes]
) -> bytes:
    """Return the ignore rules of a commit as one file for its top folder, after those of others."""
    listed = await git.run("ls-tree", "-r", "-z", commit, cwd=cwd, env=env, check=False)
    blobs = {}
    for entry in listed.stdout.split(b"\0"):
        told, _, path = entry.partition(b"\t")
        if path == _NAME or path.endswith(b"/" + _NAME):
            blobs[path] = told.split(b" ")[2]
    lines = [line for text in others for line in text.splitlines()]
    # The deeper file wins over the one above, so it comes later.
    for path in sorted(blobs, key=lambda each: (each.count(b"/"), each)):
        shown = await git.run("cat-file", "blob", blobs[path].decode(), cwd=cwd, env=env)
        folder = path.removesuffix(_NAME)
        lines += [_from_top(folder, line) for line in shown.stdout.splitlines()]
    return b"\n".join([*lines, b""])


def _from_top(folder: bytes, line: bytes) -> bytes:
    """Word a rule of a folder for the top folder."""
    if not folder or not line.strip() or line.startswith(b"#"):
        return line
    negated = b"!" if line.startswith(b"!") else b""
    rule = line.removeprefix(b"!")
    anchored = b"/" in rule.rstrip().rstrip(b"/")
    within = rule.removeprefix(b"/") if anchored else b"**/" + rule
    return negated + b"/" + folder + within


def user_rules(named: str | None, environ: Mapping[str, str]) -> bytes:
    """Return the rules of the user for all repositories: in the named file, else the usual one."""
    home = environ.get("HOME", "")
    if named is None:
        folder = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")  # noqa: PTH118  # may be empty
        named = f"{folder}/git/ignore"
    if named.startswith("~/"):
        named = f"{home}/{named[2:]}"
    return read_small(named) or b""
