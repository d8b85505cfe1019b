"""Node packages that would come from another checkout than the given folder."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from runtime.code_origin.findings import NODE, ForeignCode
from runtime.git.safe_view import read_small

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runtime.code_origin.working_trees import Trees

_DEEPEST = 4
"""Depth to which packages of a workspace are searched for."""
_PASSED_BY = frozenset({"node_modules", "dist", "build", "out", "coverage", "target"})


def concerns(folder: Path) -> bool:
    """Tell whether the folder has a Node project."""
    return (folder / "package.json").is_file()


def findings(folder: Path, trees: Trees) -> Iterator[ForeignCode]:
    """Find installed packages, also in parent folders, that come from elsewhere."""
    for modules in _all_modules(folder):
        yield from _links(modules, folder, trees)
    for above in folder.parents:
        modules = above / "node_modules"
        if not modules.is_dir():
            continue
        if trees.leads(modules, apart=folder):
            yield ForeignCode(
                f"packages that the folder lacks would come from {above}", modules, NODE
            )
        else:
            yield from _links(modules, folder, trees)


def _links(modules: Path, folder: Path, trees: Trees) -> Iterator[ForeignCode]:
    for link, name in _entries(modules):
        if trees.leads(os.path.realpath(link), apart=folder):
            yield ForeignCode(f"{name} would be the code in {os.path.realpath(link)}", link, NODE)


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
    """Return the folders in which packages of a workspace may be."""
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
    # pnpm keeps indirect dependencies here.
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
