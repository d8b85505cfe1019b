"""What people install: the wheel holds all it needs and nothing else, and its loops run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.begun import begun
from tests.orchestrator.loopkit import DONE

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("lifecycle", "runtime", "ci", "communication", "templates", "orchestrator")
WHERE = "import json, {0}; print(json.dumps([m.__file__ for m in ({0},)]))"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from the sources that git knows and unpack it, as an installer does."""
    folder = tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(
        ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"),
        cwd=ROOT, capture_output=True, check=True,
    )  # fmt: skip
    for name in listed.stdout.decode().split("\0"):
        source = ROOT / name
        if name and source.is_file():
            target = folder / "source" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    build = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist"))
    subprocess.run(build, cwd=folder / "source", capture_output=True, check=True)
    [wheel] = (folder / "dist").iterdir()
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


def run(site: Path, *args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(site), "TMPDIR": str(cwd)}
    return subprocess.run(
        (sys.executable, "-P", *args),
        cwd=cwd, env=env, capture_output=True, text=True, timeout=55, check=False,
    )  # fmt: skip


def test_the_wheel_holds_the_six_packages_with_their_data_and_no_tests(installed: Path) -> None:
    top = {path.name for path in installed.iterdir() if path.suffix != ".dist-info"}
    assert top == set(PACKAGES)
    for package in PACKAGES:
        assert (installed / package / "py.typed").is_file()
    for pattern in ("*.j2", "*.sql"):
        ours = {
            path.relative_to(ROOT) for each in PACKAGES for path in (ROOT / each).rglob(pattern)
        }
        assert ours
        assert all((installed / path).is_file() for path in ours)


def test_a_loop_of_the_installed_wheel_comes_to_its_end(installed: Path, tmp_path: Path) -> None:
    where = run(installed, "-c", WHERE.format(", ".join(PACKAGES)), cwd=tmp_path)
    assert all(Path(file).is_relative_to(installed) for file in json.loads(where.stdout))
    repo, script = begun(tmp_path / "repo", {"a.txt": "a\n"}), tmp_path / "script.json"
    script.write_text(json.dumps([DONE]))
    agent = f"{sys.executable} -P -m runtime.agents.scripted {script}"
    command = ("-m", "orchestrator.cli.main", "run", "Work", "--command", agent)
    shown = run(installed, *command, cwd=repo)
    assert shown.returncode == 0, shown.stderr
    assert "attempt 1 says task_complete" in shown.stderr
