"""Programs of users pass strict type checkers without an ignore, with no plugin and no settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
PROGRAMS = sorted(path.name for path in HERE.glob("uses_*.py"))
SECONDS = 280


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Return a folder of a user's own, outside of this repository, with the programs."""
    for name in PROGRAMS:
        (tmp_path / name).write_text((HERE / name).read_text("utf-8"), "utf-8")
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    return tmp_path


def _checked(folder: Path, *command: str) -> str:
    """Run a type checker as it is installed, without the network, and return what it finds."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.timeout(SECONDS + 10)
def test_they_pass_mypy_strict(programs: Path) -> None:
    alone = ("--config-file=", f"--cache-dir={programs / 'cache'}")
    assert _checked(programs, sys.executable, "-m", "mypy", "--strict", *alone, *PROGRAMS) == ""


@pytest.mark.timeout(SECONDS + 10)
def test_they_pass_pyright_strict(programs: Path) -> None:
    found = _checked(
        programs, str(BIN / "basedpyright"), f"--pythonpath={sys.executable}", *PROGRAMS
    )
    assert found == ""


def test_they_ignore_nothing() -> None:
    for name in PROGRAMS:
        text = (HERE / name).read_text("utf-8")
        assert "ignore" not in text, name
        assert "cast(" not in text, name
