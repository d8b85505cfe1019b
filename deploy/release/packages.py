"""Builds sdist and wheel, checks them, and uses what each installs in empty environments.

python -m deploy.release.packages [--python 3.12]... [--only-build]

An environment holds the package and its dependencies from the package index, nothing else: no
extra, no development tool, no checkout. `deploy.release.trial` says what has to work there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from deploy.release.trial import EXTRAS, Installed, TrialError, base_install, with_extras  # noqa: E402  # found only now

DIST = ROOT / "dist"
PYTHONS = ("3.11", "3.12", "3.13")
INSTALLING_S = 600


def main() -> int:
    """Build and check; 0 when everything works on every Python that is here."""
    options = _options()
    try:
        built = build()
    except TrialError as problem:
        print(problem, file=sys.stderr)
        return 1
    if options.only_build:
        return 0
    found = {each: find_python(each) for each in options.python or PYTHONS}
    pythons = [(version, python) for version, python in found.items() if python is not None]
    rows = [
        f"Python {version}: not on this machine" for version, python in found.items() if not python
    ]
    with tempfile.TemporaryDirectory(prefix="loopwright-dist-") as folder:
        for version, python in pythons:
            rows += [_tried(version, python, file, Path(folder)) for file in built]
        for version, python in pythons[-1:]:
            rows.append(_tried(version, python, built[-1], Path(folder), extras=True))
    print("\n".join(rows))
    lacks = len(pythons) < len(found) if options.python else not pythons
    return 1 if lacks or any("FAILED" in row for row in rows) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m deploy.release.packages", description=__doc__)
    parser.add_argument(
        "--python", action="append", metavar="X.Y", help="this, and it must be here"
    )
    parser.add_argument("--only-build", action="store_true", help="install nothing")
    return parser.parse_args()


def build() -> tuple[Path, ...]:
    """Build into dist/, then check form and content; return sdist and wheel."""
    for earlier in DIST.glob("loopwright-*"):
        earlier.unlink()
    _do(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(DIST))
    [sdist], [wheel] = DIST.glob("loopwright-*.tar.gz"), DIST.glob("loopwright-*.whl")
    tools = Path(sys.executable).parent
    _do(str(tools / "twine"), "check", "--strict", str(sdist), str(wheel))
    _do(str(tools / "check-wheel-contents"), str(wheel))
    return sdist, wheel


def find_python(version: str) -> Path | None:
    """Return an interpreter of this version, where the machine has one that runs."""
    managed = Path.home() / ".pyenv" / "versions"
    candidates = [
        shutil.which(f"python{version}"),
        *map(str, managed.glob(f"{version}.*/bin/python")),
    ]
    for candidate in filter(None, candidates):
        asked = (candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
        said = subprocess.run(asked, capture_output=True, text=True, check=False)
        if said.stdout.strip() == version:
            return Path(candidate)
    return None


def _tried(version: str, python: Path, file: Path, folder: Path, *, extras: bool = False) -> str:
    """Install a file and use it; say in a line what came of it."""
    kind = "wheel" if file.suffix == ".whl" else "sdist"
    what = f"[{','.join(EXTRAS)}]" if extras else ""
    name = f"Python {version}, {kind}{what}"
    print(f"{name} ...", file=sys.stderr, flush=True)
    try:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            installed = install(python, f"{file}{what}", Path(place))
            done = with_extras(installed) if extras else base_install(installed)
    except TrialError as problem:
        return f"{name}: FAILED: {problem}"
    return f"{name}: {', '.join(done)}"


def install(python: Path, what: str, folder: Path) -> Installed:
    """Install a file into an environment of its own, as an installer does."""
    environment = folder / "environment"
    inner = environment / "bin" / "python"
    if uv := shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}"):
        _do(uv, "venv", "--quiet", "--python", str(python), str(environment))
        _do(uv, "pip", "install", "--quiet", "--python", str(inner), what)
    else:
        _do(str(python), "-m", "venv", str(environment))
        _do(str(inner), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", what)
    return Installed(environment, folder)


def _do(*command: str) -> None:
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=INSTALLING_S, check=False
        )
    except subprocess.TimeoutExpired as slow:
        raise TrialError(str(slow)) from None
    if done.returncode:
        raise TrialError(
            f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )


if __name__ == "__main__":
    raise SystemExit(main())
