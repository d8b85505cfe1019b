"""The house stays as docs/why/architecture.md draws it: small rooms and files, one name each."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("lifecycle", "runtime", "ci", "communication", "templates", "orchestrator")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)
MOST_MODULES = 22
MOST_LINES = 450
ONE_FILE_PER_COMMAND = ROOT / "orchestrator" / "cli" / "commands"


def test_no_room_holds_more_modules_than_can_be_looked_over() -> None:
    rooms = defaultdict(list)
    for path in (*FILES, *TESTS):
        if path.name != "__init__.py" and path.parent != ONE_FILE_PER_COMMAND:
            rooms[path.parent].append(path.name)
    crowded = {
        str(room.relative_to(ROOT)): len(names)
        for room, names in rooms.items()
        if len(names) > MOST_MODULES
    }
    assert crowded == {}, f"give some of their modules a room of their own (at most {MOST_MODULES})"


def test_no_file_is_longer_than_can_be_read_at_once() -> None:
    lines = {path: path.read_bytes().count(b"\n") for path in (*FILES, *TESTS)}
    long = {str(path.relative_to(ROOT)): n for path, n in lines.items() if n > MOST_LINES}
    assert long == {}, f"split them by subject (at most {MOST_LINES} lines)"


def test_no_two_public_classes_have_one_name() -> None:
    places = defaultdict(list)
    for path in FILES:
        for name in CLASS.findall(path.read_text("utf-8")):
            places[name].append(str(path.relative_to(ROOT)))
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert twice == {}, "name each by what is special about it"


def test_the_page_shows_the_example_and_the_rooms_as_they_are() -> None:
    page = ROOT / "docs" / "why" / "architecture.md"
    made = runpy.run_path(str(ROOT / "docs" / "house_drawing.py"))
    assert made["written"](page.read_text("utf-8")) == page.read_text("utf-8"), "run `make docs`"


def test_the_loop_on_one_screen_runs_two_attempts_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = ROOT / "examples" / "tiny_loop.py"
    assert len(example.read_text("utf-8").splitlines()) < 80
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = subprocess.run(
        (sys.executable, "-P", str(example)),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            "Admitted: Preparing",
            "WorkspaceReady: Spawning",
            "AgentSpawned: Working",
            "AgentExited: Capturing",
            "SnapshotTaken: BackingOff",
            "Admitted: Spawning",
            "AgentSpawned: Working",
            "AgentExited: Capturing",
            "SnapshotTaken: Completed",
        ],
    ), done.stderr
