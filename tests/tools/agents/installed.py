"""The coding-agent programs that tests drive, at pinned versions, installed once into a cache.

`package.json` beside this module says which; a changed one gets a folder of its own. Safe when
several processes come at once, and quick when everything is there. Without a lock file: the
programs for other platforms are optional packages, which a lock made on one platform drops. The
packages pin theirs, so that all that is run has one version; only what would build them may move.

    python -m tests.tools.agents.installed      # installs (about 30 s, 1.2 GB), prints the folder
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from tests.tools.npm_tools import NpmError, cached, node, npm

HERE = Path(__file__).parent
PACKAGES = HERE / "package.json"
NAMES = ("claude", "codex", "gemini", "opencode")
LINKED = ("@anthropic-ai/claude-code", "opencode-ai")
"""Packages whose scripts must run, as they put the native program where npm's link points."""
FLAGS = ("--no-audit", "--no-fund", "--no-progress", "--no-package-lock")
FOLDER = f"agents-{hashlib.sha256(PACKAGES.read_bytes()).hexdigest()[:16]}"
"""Of the cache."""


def installed() -> Path:
    """Return the folder with `node_modules`, after installing it if it is not there."""
    return cached(FOLDER, _install)


def program(name: str) -> Path:
    """Return the program as npm links it: what a user's shell finds."""
    if name not in NAMES:
        raise NpmError(f"{name!r} is not installed here; there are {', '.join(NAMES)}")
    return installed() / "node_modules" / ".bin" / name


def search_path() -> str:
    """Return a PATH that finds all of them, the Node they need, and the system's shell."""
    found = (installed() / "node_modules" / ".bin", node().parent)
    return os.pathsep.join([*map(str, found), *os.defpath.split(os.pathsep)])


def _install(folder: Path) -> None:
    (folder / PACKAGES.name).write_bytes(PACKAGES.read_bytes())
    npm(folder, "install", "--ignore-scripts", *FLAGS)
    npm(folder, "rebuild", "--ignore-scripts=false", "--offline", *LINKED)


if __name__ == "__main__":
    sys.stdout.write(f"{installed()}\n")
