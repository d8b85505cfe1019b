"""What `doctor` finds, and the guard at the start of every loop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.paths import Paths
from lifecycle.store.lock import RunnerLock
from orchestrator.doctor import machine, repository
from orchestrator.runner import shadowing
from orchestrator.wording.json_schemas import schema
from tests.orchestrator.cli.schema_check import faults

if TYPE_CHECKING:
    from tests.orchestrator.filled import Cli

ROOT = Path(shadowing.ROOT)


def found(cli: Cli) -> dict[str, dict[str, Any]]:
    """Run the doctor; the findings by what they are about, the worst of each."""
    value = json.loads(cli("doctor", "--quick", "--json"))
    assert faults(schema("doctor"), value) == []
    levels = ("ok", "warn", "bad")
    by_name: dict[str, dict[str, Any]] = {}
    for check in sorted(value["checks"], key=lambda each: levels.index(each["level"])):
        by_name[check["what"]] = check
    return by_name


def test_a_sound_repository_has_nothing_bad(filled: Cli) -> None:
    checks_found = found(filled)
    assert filled.code == 0
    assert not [each for each in checks_found.values() if each["level"] == "bad"]
    assert checks_found["records"]["found"].startswith("5 in ")
    assert checks_found["runner"]["level"] == "warn"
    assert "`loopwright up`" in checks_found["runner"]["mend"]


def test_every_finding_that_is_not_ok_says_how_to_mend_it(filled: Cli) -> None:
    for each in found(filled).values():
        assert bool(each["mend"]) is (each["level"] != "ok")


def test_the_text_has_one_line_per_finding(empty: Cli) -> None:
    *lines, last = empty("doctor").splitlines()
    assert last.startswith("Next (agents): install one (")
    assert all(line.startswith(("ok    ", "warn  ", "bad   ")) for line in lines)
    assert f"{len(lines)} checks: 0 bad" in empty.err


def test_a_live_runner_is_named(filled: Cli) -> None:
    with RunnerLock(Paths.of(filled.repo).root):
        assert found(filled)["runner"]["found"].startswith(f"pid {os.getpid()} since")


def test_a_repository_without_a_commit_is_bad(empty: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "fresh"
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    empty.repo = folder
    check = found(empty)["repository"]
    assert empty.code == 2
    assert check["level"] == "bad"
    assert "no commit yet" in check["found"] + check["mend"]


def test_bad_settings_and_a_missing_program_are_bad(empty: Cli) -> None:
    file = empty.repo / "loopwright.toml"
    file.write_text("bogus = 1\n")
    assert "line 1" in found(empty)["settings"]["found"]
    assert empty.code == 2
    file.write_text('command = ["no-such-program-here"]\n')
    assert "no-such-program-here" in found(empty)["command"]["found"]
    assert empty.code == 2
    assert f"command from {file}, line 1" in found(empty)["settings"]["found"]


def test_settings_are_listed_with_their_sources(
    empty: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPWRIGHT_MAX_RETRIES", "7")
    rows = json.loads(empty("doctor", "--json"))["settings"]
    row = next(row for row in rows if row["name"] == "max_retries")
    assert row == {"name": "max_retries", "value": 7, "source": "LOOPWRIGHT_MAX_RETRIES"}


def test_a_state_folder_open_to_others_is_told(empty: Cli) -> None:
    root = Paths.of(empty.repo).root
    root.mkdir()
    root.chmod(0o755)
    check = found(empty)["permissions"]
    assert check["level"] == "warn"
    assert check["mend"] == f"chmod 700 {root}"


def test_missing_excludes_are_told_until_init_ran(empty: Cli) -> None:
    assert found(empty)["excludes"]["mend"] == "loopwright init"
    empty("init")
    assert found(empty)["excludes"]["level"] == "ok"


def test_a_git_that_is_missing_or_old_is_bad(
    empty: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    assert next(machine._git(empty.repo)).found == "not found on PATH"
    git = programs / "git"
    git.write_text("#!/bin/sh\necho git version 2.25.1\n")
    git.chmod(0o755)
    check = next(machine._git(empty.repo))
    assert (check.level, check.mend) == ("bad", "install git 2.38 or newer")


def test_a_git_without_an_identity_is_told(
    empty: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "gitconfig"
    config.write_text("[user]\n\tuseConfigOnly = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    assert found(empty)["git identity"]["level"] == "warn"


def test_agent_programs_on_path_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine._agents().level == "warn"
    assert machine._agents(named=True).level == "ok"
    (tmp_path / "codex").write_text("#!/bin/sh\n")
    (tmp_path / "codex").chmod(0o755)
    assert machine._agents() == machine.Diagnosis("ok", "agents", f"codex at {tmp_path / 'codex'}")


@pytest.mark.parametrize(("now", "level"), [(0.0, "bad"), (1.8e9, "ok"), (9e9, "bad")])
def test_a_clock_that_was_never_set_is_bad(now: float, level: str) -> None:
    assert machine._clock(now).level == level


def test_a_clock_behind_the_records_is_told(filled: Cli) -> None:
    paths = Paths.of(filled.repo)
    clock = [each for each in repository._records(paths, 1_000_000_000.0) if each.what == "clock"]
    assert clock[0].level == "warn"


def test_the_file_system_of_a_path_is_known_on_linux() -> None:
    assert machine.file_system_at(Path("/proc/self")) == "proc"


def test_a_mount_point_with_blanks_and_umlauts_is_read() -> None:
    assert machine._unescaped("/mnt/my\\040größe") == "/mnt/my größe"


# --- the guard --------------------------------------------------------------------------------


def test_our_own_packages_pass_the_guard() -> None:
    shadowing.check_own_packages()


@pytest.mark.parametrize("name", ["ci", "runtime", "templates"])
def test_a_package_of_the_same_name_before_ours_is_named_and_refused(
    empty: Cli, tmp_path: Path, name: str
) -> None:
    del empty
    foreign = tmp_path / "elsewhere"
    (foreign / name).mkdir(parents=True)
    (foreign / name / "__init__.py").write_text("")
    code = (
        "import orchestrator.runner.shadowing as guard\n"
        "try:\n    guard.check_own_packages()\n"
        "except guard.ShadowedPackageError as problem:\n    print(problem)\n"
    )
    path = os.pathsep.join([str(foreign), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(foreign / name / "__init__.py") in done.stdout
    assert "take the folder out of PYTHONPATH" in done.stdout


def test_what_surprises_agents_in_a_repository_is_told(empty: Cli) -> None:
    subprocess.run(["git", "switch", "--quiet", "--detach"], cwd=empty.repo, check=True)
    (empty.repo / ".gitmodules").touch()
    checks_found = found(empty)
    assert "HEAD is detached" in checks_found["repository"]["found"]
    assert "git submodule update" in checks_found["submodules"]["mend"]


def test_a_state_folder_that_is_none_is_bad(empty: Cli) -> None:
    Paths.of(empty.repo).root.touch()
    assert found(empty)["permissions"]["level"] == "bad"
