"""The canary: changed files broken on purpose; gates that look at them turn red.

Owns which files are broken, and how. It must not run anything.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

CANARIES = "canaries"
"""Documents: the canary result of each lifecycle, with its gates and files."""
BROKEN = b"}) canary: this file is broken on purpose\n"
"""What no program can load, in nearly any language."""
_LOADED = frozenset({
    ".py", ".pyi", ".pyx", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".vue",
    ".svelte", ".go", ".rs", ".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".java", ".kt", ".kts",
    ".scala", ".swift", ".m", ".rb", ".ex", ".exs", ".erl", ".hs", ".ml", ".lua", ".pl", ".pm",
    ".r", ".jl", ".dart", ".zig", ".nim", ".sh", ".bash", ".zsh", ".fish", ".ps1", ".sql", ".json",
    ".yaml", ".yml", ".toml", ".ini", ".cfg", ".xml",
})  # fmt: skip
_PHP = b"<?php }) // canary: this file is broken on purpose\n"
_TEXT = frozenset({
    ".md", ".rst", ".txt", ".adoc", ".org", ".pdf", ".svg", ".png", ".jpg", ".jpeg", ".gif",
    ".webp", ".ico", ".po", ".pot",
})  # fmt: skip
_TEXT_NAMES = ("README", "LICENSE", "LICENCE", "CHANGELOG", "NOTICE", "AUTHORS", "CONTRIBUTING")
_SET_UP = frozenset({
    "requirements.txt", "setup.py", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml",
    "pnpm-workspace.yaml", "yarn.lock", "uv.lock", "poetry.lock", "Cargo.lock", "go.mod", "go.sum",
    "go.work", "go.work.sum", "bun.lock", "bun.lockb",
})  # fmt: skip
"""What is read when things are set up, and not when gates run."""


def breakable(files: Iterable[str], flagged: Iterable[str]) -> tuple[str, ...]:
    """Return those of the changed files that gates should look at; none for texts alone.

    Tests are left out: when they are broken, gates turn red whatever they test. Where nothing but
    tests changed, they are what gates should look at.
    """
    work = [file for file in files if not _is_text(file)]
    tested = [file for file in work if file not in set(flagged)]
    # Of what gates go by (a .gitignore, say), only what they load can be broken.
    return tuple(tested or [file for file in work if _ending(file) in _LOADED])


def key_of(commands: tuple[str, ...], files: tuple[str, ...]) -> str:
    """Tell one question to a canary from another."""
    return hashlib.sha256(json.dumps([commands, sorted(files)]).encode()).hexdigest()


def break_files(folder: Path, files: Iterable[str]) -> tuple[str, ...]:
    """Break what is there of the files in this folder; return which these are."""
    broken = []
    for name in files:
        path = folder / name
        if path.is_symlink() or not path.is_file():
            continue
        path.write_bytes(_broken(path))
        broken.append(name)
    return tuple(broken)


def _broken(path: Path) -> bytes:
    if path.suffix == ".php":
        return _PHP
    if path.suffix in _LOADED or path.read_bytes()[:2] == b"#!":
        return BROKEN
    return b""


def _ending(file: str) -> str:
    return f".{file.rsplit('.', 1)[-1]}"


def _is_text(file: str) -> bool:
    name = file.rsplit("/", 1)[-1]
    if name.startswith((".", "Dockerfile", "Containerfile")):  # what no gate loads
        return True
    stem, dot, ending = name.rpartition(".")
    if name in _SET_UP or (name.startswith("requirements") and ending == "txt"):
        return True
    return f"{dot}{ending.lower()}" in _TEXT or (stem or ending) in _TEXT_NAMES
