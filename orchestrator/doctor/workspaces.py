"""What `doctor` finds out about the folder of workspaces, and leftovers beside it.

Changes nothing.
"""

from __future__ import annotations

import os
import shutil
from shlex import quote
from typing import TYPE_CHECKING

from orchestrator.doctor.machine import (
    BAD,
    LITTLE_DISK,
    NO_DISK,
    OK,
    WARN,
    Diagnosis,
    file_system_at,
)
from runtime.errors import RuntimeFault
from runtime.git.ownership import STATE_FOLDER
from runtime.workspaces.judging_checkouts import noted_roots
from runtime.workspaces.worktrees_dir import SET_ASIDE, leftovers, unusable, worktrees_dir

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_WHAT = "workspaces"
_NAMED = 3
"""Leftovers of which each has a line of its own."""
_IN_MEMORY = ("tmpfs", "ramfs")
_OF_CONTAINERS = ("overlay", "fuse-overlayfs", "aufs")
_SET = "set worktrees_dir, or XDG_STATE_HOME, to a folder on a disk that is kept"


def places(repo: Path, setting: str, environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Check where agents work, by the setting `worktrees_dir`."""
    repo = repo.resolve()
    try:
        root = worktrees_dir(repo, setting, environ)
        refused = unusable(root, repo)
        left = [] if refused else list(leftovers(environ, repo=repo))
    except RuntimeFault as problem:
        root, refused, left = repo, str(problem), []
    if refused:
        what, _, mend = refused.rpartition(": ")
        yield Diagnosis(BAD, _WHAT, what, mend)
        return
    yield _room(root, repo)
    yield from _lasting(root, file_system_at(root), file_system_at(repo))
    if root.is_dir() and root.stat().st_mode & 0o077:
        mode = root.stat().st_mode & 0o777
        yield Diagnosis(WARN, _WHAT, f"{root} has mode {mode:04o}", f"chmod 700 {quote(str(root))}")
    if root.is_relative_to(repo):
        yield Diagnosis(
            WARN,
            _WHAT,
            f"{root} is in the repository: programs that look upwards (node, pytest, cargo, "
            "linters) find your own files from a workspace",
            "unset worktrees_dir",
        )
    yield from _earlier(repo)
    yield from _judged_elsewhere(root, repo)
    yield from _left(root, left)


def _room(root: Path, repo: Path) -> Diagnosis:
    there = next(each for each in (root, *root.parents) if each.exists())
    free = shutil.disk_usage(there).free
    found = f"in {root}, {free / (1 << 30):.1f} GiB free"
    if there.stat().st_dev != repo.stat().st_dev:
        kind = file_system_at(there)
        found += f", another file system than the repository's{f' ({kind})' if kind else ''}"
    if free < NO_DISK:
        return Diagnosis(BAD, _WHAT, found, "make room: each agent works in a checkout of its own")
    if free < LITTLE_DISK:
        return Diagnosis(WARN, _WHAT, found, "make room: each agent works in a checkout of its own")
    return Diagnosis(OK, _WHAT, found)


def _lasting(root: Path, kind: str, usual: str) -> Iterator[Diagnosis]:
    """Warn of a file system that is lost more easily than the repository's."""
    if kind in _IN_MEMORY and usual not in _IN_MEMORY:
        yield Diagnosis(WARN, _WHAT, f"{root} is in memory ({kind}), and gone at a restart", _SET)
    elif kind in _OF_CONTAINERS and usual not in _OF_CONTAINERS:
        yield Diagnosis(
            WARN,
            _WHAT,
            f"{root} is on the container's own file system ({kind}), and gone with the container",
            f"mount a volume there; or {_SET}",
        )


def _earlier(repo: Path) -> Iterator[Diagnosis]:
    earlier = repo / STATE_FOLDER / "worktrees"
    names = [each for each in os.listdir(earlier) if each[0] != "."] if earlier.is_dir() else []  # noqa: PTH208  # names only
    if names:
        found = f"{len(names)} of an earlier version stay in {earlier} until they are over"
        yield Diagnosis(OK, _WHAT, found)


def _judged_elsewhere(root: Path, repo: Path) -> Iterator[Diagnosis]:
    for folder in noted_roots(repo):
        if folder.parent != root:
            yield Diagnosis(
                WARN,
                "leftovers",
                f"{folder} holds judging checkouts from before worktrees_dir or XDG_STATE_HOME was "
                "changed; each is removed when its lifecycle ends",
                f"if no loop runs, you may remove them now: rm -rf {quote(str(folder))}",
            )


def _left(root: Path, left: list[tuple[Path, Path]]) -> Iterator[Diagnosis]:
    for folder, owner in left[:_NAMED]:
        yield Diagnosis(
            WARN,
            "leftovers",
            f"{folder} holds workspaces of {owner}, which is gone or was moved",
            "look first: agents of a repository that was moved still work there. If it is gone and "
            f"you miss no work that is in it: rm -rf {quote(str(folder))}",
        )
    if more := [folder for folder, _ in left[_NAMED:]]:
        yield Diagnosis(
            WARN,
            "leftovers",
            f"{len(more)} more folders in {more[0].parent} hold workspaces of repositories that "
            f"are gone or were moved: {', '.join(each.name for each in more[:_NAMED])}, ...",
            "look at them in the same way",
        )
    if (aside := root / SET_ASIDE).is_dir():
        yield Diagnosis(
            WARN,
            "leftovers",
            f"{aside} holds workspaces of a repository that was here before",
            f"see whether you miss work that is in it, then: rm -rf {quote(str(aside))}",
        )
