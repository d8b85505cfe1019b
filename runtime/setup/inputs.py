"""The inputs of the set-up: files of a commit, by their git ids.

Pure. Chooses among the names in a commit's tree. It must not run git, nor read files in a folder,
which an agent may have changed.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from runtime.setup.globs import matches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

LIST_TREE = ("ls-tree", "-r", "-z", "--full-tree", "--end-of-options")


class PackageFiles(NamedTuple):
    """The files from which one family of package tools installs."""

    locks: tuple[str, ...]
    manifests: tuple[str, ...]


KINDS = (
    PackageFiles(
        ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml"),
        ("pyproject.toml", "setup.cfg", "setup.py", "requirements*.txt", "Pipfile"),
    ),
    PackageFiles(
        (
            *("package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock"),
            *("bun.lock", "bun.lockb"),
        ),
        ("package.json", "pnpm-workspace.yaml"),
    ),
    PackageFiles(("Cargo.lock",), ("Cargo.toml",)),
    PackageFiles(("go.sum",), ("go.mod", "go.work")),
    PackageFiles(("Gemfile.lock",), ("Gemfile", "*.gemspec")),
    PackageFiles(("composer.lock",), ("composer.json",)),
)
ALWAYS = ("pyproject.toml", "setup.cfg", "setup.py", "package.json")
"""They name the commands that a package installs, which lock files do not contain."""
TOOLS = (".python-version", ".nvmrc", ".node-version", ".tool-versions", "rust-toolchain*")
"""These choose the version of a language."""
_MAKERS = {
    "make": ("Makefile", "makefile", "GNUmakefile"),
    "just": ("justfile", "Justfile", ".justfile"),
}
_INSTALLED = frozenset({"node_modules", ".venv", "venv", "vendor"})
"""Folders with files of third-party packages, committed or not."""
_WORDS = re.compile(r"[\w./@+-]+")


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of one commit."""

    commit: str
    files: Mapping[str, bytes]
    """By path: mode, type and id of its content."""


def parse_tree(commit: str, listed: bytes) -> Tree:
    """Parse the output of LIST_TREE."""
    entries = (entry.partition(b"\t") for entry in listed.split(b"\0") if entry)
    return Tree(commit, {os.fsdecode(path): told for told, _, path in entries})


def inputs_of(tree: Tree, commands: Sequence[str], patterns: Sequence[str]) -> tuple[str, ...]:
    """Return the files that the set-up depends on, sorted.

    Files that the commands name always count: a script they run, a list they read.
    """
    if patterns:
        found = {path for path in tree.files if any(matches(path, each) for each in patterns)}
    else:
        found = _usual(tree.files)
    return tuple(sorted(found | _named(tree.files, commands)))


def digest(tree: Tree, inputs: Iterable[str], commands: Sequence[str], more: str = "") -> str:
    """Return a cache key of the set-up."""
    told = hashlib.sha256()
    for command in commands:
        told.update(command.encode(errors="surrogateescape") + b"\0")
    for path in inputs:
        told.update(b"\0" + tree.files[path] + b"\t" + os.fsencode(path))
    told.update(b"\0\0" + more.encode(errors="surrogateescape"))
    return told.hexdigest()


def differing(tree: Tree, other: Tree, inputs: Collection[str]) -> tuple[str, ...]:
    """Return those of the inputs that differ between two commits."""
    return tuple(path for path in sorted(inputs) if tree.files.get(path) != other.files.get(path))


def _usual(files: Iterable[str]) -> set[str]:
    """Choose lock files, and manifests without a lock file in their folder or above."""
    candidates = [path for path in files if not _INSTALLED.intersection(path.split("/"))]
    found = {path for path in candidates if _is_one_of(path, (*ALWAYS, *TOOLS))}
    for kind in KINDS:
        locks = {path for path in candidates if _is_one_of(path, kind.locks)}
        covered = {path.rpartition("/")[0] for path in locks}
        found |= locks
        found |= {
            path
            for path in candidates
            if _is_one_of(path, kind.manifests) and covered.isdisjoint(_folders(path))
        }
    return found


def _is_one_of(path: str, names: Iterable[str]) -> bool:
    return any(matches(path, name) for name in names)


def _folders(path: str) -> set[str]:
    """Return the folders that a file lies in, the top one as an empty text."""
    names = path.split("/")[:-1]
    return {"/".join(names[:end]) for end in range(len(names) + 1)}


def words_of(commands: Iterable[str]) -> set[str]:
    """Return the words of commands that may be paths, and the default files of build tools."""
    words = {word for command in commands for word in _WORDS.findall(command)}
    return words | {name for word in words for name in _MAKERS.get(word, ())}


def _named(files: Mapping[str, bytes], commands: Iterable[str]) -> set[str]:
    return {path for word in words_of(commands) if (path := word.removeprefix("./")) in files}
