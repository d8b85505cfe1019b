"""Packages of Node that would come from another checkout than the folder in question."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from runtime.gitview import read_small
from runtime.right_code.findings import NODE, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runtime.right_code.trees import Trees

_DEEPEST = 4
"""Folders below the top in which packages of a workspace are looked for."""
_PASSED_BY = frozenset({"node_modules", "dist", "build", "out", "coverage", "target"})


def concerns(folder: Path) -> bool:
    """Tell whether the folder has a project of Node."""
    return (folder / "package.json").is_file()


def findings(folder: Path, trees: Trees) -> Iterator[Finding]:
    """Find links among the installed packages, and packages above, that lead elsewhere."""
    for modules in _all_modules(folder):
        yield from _links(modules, folder, trees)
    for above in folder.parents:
        modules = above / "node_modules"
        if not modules.is_dir():
            continue
        if trees.leads(modules, apart=folder):
            yield Finding(f"packages that the folder lacks would come from {above}", modules, NODE)
        else:
            yield from _links(modules, folder, trees)


def _links(modules: Path, folder: Path, trees: Trees) -> Iterator[Finding]:
    for link, name in _entries(modules):
        if trees.leads(os.path.realpath(link), apart=folder):
            yield Finding(f"{name} would be the code in {os.path.realpath(link)}", link, NODE)


def _entries(modules: Path) -> Iterator[tuple[Path, str]]:
    """Return the links among the packages, those in a scope (`@x/core`) too."""
    for entry in _scanned(modules):
        if entry.is_symlink():
            yield modules / entry.name, entry.name
        elif entry.name.startswith("@"):
            for inner in _scanned(entry.path):
                if inner.is_symlink():
                    yield modules / entry.name / inner.name, f"{entry.name}/{inner.name}"


def folders(top: Path) -> Iterator[Path]:
    """Return the folders in which packages of a workspace may lie."""
    waiting = [(top, 0)]
    while waiting:
        place, depth = waiting.pop()
        yield place
        for entry in _scanned(place) if depth < _DEEPEST else ():
            passed = entry.name.startswith(".") or entry.name in _PASSED_BY
            if not passed and entry.is_dir(follow_symlinks=False):
                waiting.append((place / entry.name, depth + 1))


def _all_modules(folder: Path) -> Iterator[Path]:
    """Return the `node_modules` of the folder, and of the packages of a workspace in it."""
    yield folder / "node_modules"
    # pnpm keeps the packages that no package of the folder names itself in here.
    yield folder / "node_modules" / ".pnpm" / "node_modules"
    if not _is_workspace(folder):
        return
    for place in folders(folder):
        if place != folder and _is_folder(place / "node_modules"):
            yield place / "node_modules"


def _is_workspace(folder: Path) -> bool:
    if (folder / "pnpm-workspace.yaml").is_file():
        return True
    try:
        said = json.loads(read_small(folder / "package.json") or b"{}")
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and bool(said.get("workspaces"))


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _scanned(folder: Path | str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
