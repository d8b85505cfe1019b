"""The coding-agent programs that tests drive, at pinned versions, installed once into a cache.

`package.json` beside this module says which; a changed one gets a folder of its own. Safe when
several processes come at once, and quick when everything is there. Without a lock file: the
programs for other platforms are optional packages, which a lock made on one platform drops. The
packages pin theirs, so that all that is run has one version; only what would build them may move.

    python -m tests.tools.agents.installed      # installs (about 30 s, 1.2 GB), prints the folder
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.tools import npm_tools
from tests.tools.npm_tools import NpmError, node

HERE = Path(__file__).parent
PACKAGES = HERE / "package.json"
NAMES = ("claude", "codex", "gemini", "opencode")
LINKED = ("@anthropic-ai/claude-code", "opencode-ai")
"""Packages whose scripts must run, as they put the native program where npm's link points."""
FLAGS = ("--no-audit", "--no-fund", "--no-progress", "--no-package-lock")
PATIENCE = 300
"""Seconds that npm may take."""
CACHE = npm_tools._cache()
"""Found when this is imported, as tests get a home of their own."""


def installed() -> Path:
    """Return the folder with `node_modules`, after installing it if it is not there."""
    folder = CACHE / f"agents-{hashlib.sha256(PACKAGES.read_bytes()).hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "agents.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _install(folder)
    return folder


def program(name: str) -> Path:
    """Return the program as npm links it: what a user's shell finds."""
    if name not in NAMES:
        raise NpmError(f"{name!r} is not installed here; there are {', '.join(NAMES)}")
    return installed() / "node_modules" / ".bin" / name


def search_path() -> str:
    """Return a PATH that finds all of them, the Node they need, and the system's shell."""
    return os.pathsep.join([str(installed() / "node_modules" / ".bin"), *_beside_them()])


def _beside_them() -> list[str]:
    return [str(node().parent), *os.defpath.split(os.pathsep)]


def _install(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="installing-") as scratch:
        made = Path(scratch) / "agents"
        made.mkdir()
        (made / PACKAGES.name).write_bytes(PACKAGES.read_bytes())
        _npm(made, "install", "--ignore-scripts", *FLAGS)
        _npm(made, "rebuild", "--ignore-scripts=false", "--offline", *LINKED)
        # All at once: whoever sees the folder sees it whole.
        made.rename(folder)


def _npm(where: Path, *words: str) -> None:
    npm = node().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    try:
        done = subprocess.run(
            [node(), npm, *words],
            cwd=where,
            env={**os.environ, "PATH": os.pathsep.join(_beside_them())},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NpmError(f"`npm {words[0]}` in {where} took more than {PATIENCE} s") from None
    if done.returncode:
        raise NpmError(
            f"`npm {words[0]}` for {PACKAGES} failed with {done.returncode}; is the npm registry "
            f"reachable? It said:\n{(done.stdout + done.stderr)[-2000:]}"
        )


if __name__ == "__main__":
    sys.stdout.write(f"{installed()}\n")
