"""`doctor` and `init` find what would lead the commands that judge to the user's own checkout."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

from tests.tools.machine import gives

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.orchestrator.filled import Cli


def program(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / name
    made.write_text("#!/bin/sh\nexit 0\n")
    made.chmod(0o755)
    return made


def editable(cli: Cli, prefix: Path) -> None:
    program(prefix / "bin", "python3")
    site = prefix / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (prefix / "pyvenv.cfg").touch()
    (site / "calc.pth").write_text(f"{cli.repo}/src\n")


def on_path(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def told(cli: Cli) -> dict[str, str]:
    """Return what `doctor` says, by what it is about; the worst of each."""
    checks = json.loads(cli("doctor", "--quick", "--json"))["checks"]
    checks.sort(key=lambda each: ("ok", "warn", "bad").index(each["level"]))
    return {each["what"]: f"{each['level']}: {each['found']}; {each['mend']}" for each in checks}


def test_an_editable_install_of_the_checkout_is_bad_with_the_remedy(
    empty: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = empty.repo / "loopwright.toml"
    settings.write_text('verify = ["python3 -m pytest -q"]\n')
    editable(empty, tmp_path / "env")
    on_path(monkeypatch, tmp_path / "env" / "bin")
    line = told(empty)["right code"]
    assert empty.code == 2
    assert f"calc would be the code in {empty.repo}/src" in line
    assert "setup = [" in line
    settings.write_text('verify = ["python3 -m pytest -q"]\nsetup = ["make env"]\n')
    assert told(empty)["right code"].startswith("ok")


def test_init_says_so_where_it_has_no_set_up_to_propose(
    empty: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty.repo / "Makefile").write_text("test:\n\tpython3 -m pytest\n")
    (empty.repo / "pytest.ini").write_text("[pytest]\n")
    subprocess.run(["git", "add", "-A"], cwd=empty.repo, check=True)
    editable(empty, tmp_path / "env")
    program(tmp_path / "env" / "bin", "pytest")
    on_path(monkeypatch, tmp_path / "env" / "bin")
    assert f"calc would be the code in {empty.repo}/src" in empty("init")


def test_a_program_of_the_checkouts_own_environment_is_not_inherited_and_named(
    empty: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty.repo / "loopwright.toml").write_text('verify = ["judge-it -q"]\n')
    own = program(empty.repo / ".venv" / "bin", "judge-it")
    on_path(monkeypatch, own.parent)
    line = told(empty)["right code"]
    assert line.startswith("bad")
    assert f"judge-it is {own}, which is not inherited" in line


def test_without_a_command_that_judges_doctor_warns(empty: Cli) -> None:
    assert told(empty)["verify"].startswith("warn")


def test_a_program_that_the_sandbox_hides_is_named_with_what_shows_it(
    empty: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not gives(isolation="container"):
        return
    judge = program(tmp_path / "tools" / "bin", "judge-it")
    on_path(monkeypatch, judge.parent)
    settings = 'isolation = "container"\nverify = ["judge-it && sh -c true"]\n'
    (empty.repo / "loopwright.toml").write_text(settings)
    line = told(empty)["sandbox"]
    assert line.startswith("bad")
    assert f"judge-it ({judge}) is not in the sandbox" in line
    assert f'sandbox_readable = ["{judge}"]' in line
    shown = f'{settings}sandbox_readable = ["{judge}"]\n'
    (empty.repo / "loopwright.toml").write_text(shown)
    assert told(empty)["sandbox"].startswith("ok")
