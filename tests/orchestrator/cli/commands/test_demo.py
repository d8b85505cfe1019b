"""`loopwright demo`: the story it tells and the repository it leaves."""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from typing import TYPE_CHECKING

from orchestrator.cli.main import main
from tests.orchestrator.loopkit import BIN

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_demo_tells_its_three_attempts_and_what_to_try_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = tmp_path / "calc"
    began = time.monotonic()
    done = subprocess.run(
        [BIN / "loopwright", "demo", "--keep", repo],
        check=False, capture_output=True, text=True, timeout=60, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 40
    story = (
        "attempt 1 started",
        "attempt 1 says blocked",
        "CI says build_success",
        "attempt 2 started",
        "attempt 2 says pr_created",
        "pull request 1 is open",
        "pull request 1 was merged into main",
        "attempt 3 started",
        "attempt 3 says task_complete",
        "verified: the command is green",
    )
    places = [done.stderr.index(part) for part in story]
    assert places == sorted(places)
    assert re.search(r"agent-T001 +T001 +done +3 +0", done.stdout)
    for path in re.findall(rf"{re.escape(str(repo))}/\.loopwright\S+", done.stdout):
        assert (tmp_path / path).exists()
    clean = subprocess.run(
        ["git", "status", "--porcelain"], cwd=repo, check=True, capture_output=True, text=True
    )
    assert clean.stdout == ""
    assert f"rm -rf {repo} {repo}-agents" in done.stdout
    assert (tmp_path / "calc-agents" / "agent-T001").is_dir()
    commands = [line.split()[1:] for line in done.stdout.splitlines() if "--repo" in line]
    offered = [shlex.split(" ".join(words)) for words in commands]
    assert [words[0] for words in offered] == ["show", "events", "summary", "logs", "accept", "run"]
    capsys.readouterr()
    for words in offered[:-1]:
        assert main(words) == 0, capsys.readouterr().err
    assert not (tmp_path / "calc-agents" / "agent-T001").exists()


def test_the_demo_never_writes_into_a_folder_that_is_in_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").touch()
    assert main(["demo", "--keep", str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["mine.txt"]
