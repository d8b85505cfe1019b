"""A tick changes what says that a task is done, at its place, and not one byte beside it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from orchestrator.tasks.ticks import tick, tick_in

if TYPE_CHECKING:
    from pathlib import Path

WHEN = "2026-11-20T10:00:00.000Z"
PRD_JSON = (
    '\ufeff{ "userStories" : [\r\n\t{"id":"US-1","title":"\\u00fcber","passes" :false , "n": 1e2},'
    "\r\n"
    '  {"id": "US-2", "title": "b", "passes": true},{"id": 3, "title": "c", "status": "open" },\r\n'
    '  {"id": "US-4",\r\n   "title": "d"\r\n  }]}'
)


def after(folder: Path, name: str, text: str, key: str) -> tuple[str, int]:
    """Return the text once a task is ticked, and its line; ticked again nothing changes."""
    path = folder / name
    path.write_bytes(text.encode())
    path.chmod(0o640)
    line = tick_in(path, key, WHEN)
    once = path.read_bytes()
    assert tick_in(path, key, "2027-01-01T00:00:00.000Z") == line
    assert path.read_bytes() == once
    assert path.stat().st_mode & 0o777 == 0o640
    return once.decode(), line


@pytest.mark.parametrize(
    ("key", "old", "new", "line"),
    [
        ("US-1", '"passes" :false', '"passes" :true', 2),
        ("US-2", "", "", 3),
        ("3", '"status": "open"', '"status": "done"', 3),
        ("US-4", '"title": "d"', '"title": "d", "passes": true', 4),
        ("US-9", "", "", 0),
    ],
)
def test_a_story_passes(tmp_path: Path, key: str, old: str, new: str, line: int) -> None:
    ticked = after(tmp_path, "prd.json", PRD_JSON, key)
    assert ticked == (PRD_JSON.replace(old, new), line)


def test_the_word_for_done_is_that_of_the_list(tmp_path: Path) -> None:
    stories = [{"id": "a", "status": "completed"}, {"id": "b", "status": "x"}]
    text = json.dumps([{**each, "title": "t"} for each in stories])
    assert after(tmp_path, "prd.json", text, "b")[0] == text.replace('"x"', '"completed"')


CHECKLIST = (
    "# Plan\r\n\r\n- [ ] T001 first\r\n* [ ] 2. Group\r\n  - [x] 2.1 one\r\n  - [ ] 2.2 two  \r\n"
    "\t\r\n- [ ] same\r\n- [ ] same\r\n1) [ ] with\r\n   - [ ] a part\r\n   - [X] done\r\n"
    "> - [ ] quoted\r\n### US-7: Story\r\n- [ ] x\r\n- [ ] y"
)


@pytest.mark.parametrize(
    ("key", "changes", "line"),
    [
        ("T001", {"- [ ] T001": "- [x] T001"}, 3),
        ("2.2", {"[ ] 2.2": "[x] 2.2", "* [ ] 2. G": "* [x] 2. G"}, 6),  # the last of its group
        ("same (2)", {"- [ ] same\r\n1)": "- [x] same\r\n1)"}, 9),
        ("with", {"1) [ ] with": "1) [x] with", "- [ ] a part": "- [x] a part"}, 10),
        ("quoted", {"> - [ ] q": "> - [x] q"}, 13),
        ("US-7", {"- [ ] x": "- [x] x", "- [ ] y": "- [x] y"}, 14),
        ("gone", {}, 0),
    ],
)
def test_boxes_are_ticked(tmp_path: Path, key: str, changes: dict[str, str], line: int) -> None:
    wanted = CHECKLIST
    for old, new in changes.items():
        assert wanted.count(old) == 1
        wanted = wanted.replace(old, new)
    assert after(tmp_path, "PRD.md", CHECKLIST, key) == (wanted, line)


def test_a_task_is_found_again_where_it_was_moved_to(tmp_path: Path) -> None:
    moved = (
        "intro\n\n"
        + CHECKLIST.replace("- [ ] T001 first\r\n", "")
        + "\r\n\r\n## Later\n- [ ] T001 **reworded**\n"
    )
    wanted = moved.replace("[ ] T001", "[x] T001")
    assert after(tmp_path, "PRD.md", moved, "T001")[0] == wanted


def test_a_task_of_taskmaster_is_done_with_its_subtasks(tmp_path: Path) -> None:
    text = (
        '{"master": {"tasks": [{"id": 1, "title": "a", "status": "pending", "subtasks": [\n'
        '  {"id": 1, "title": "s", "status": "in-progress"},\n'
        '  {"id": 2, "title": "t", "status": "cancelled"}], "details": "x"}]}}'
    )
    wanted = text.replace('"pending"', '"done"').replace('"in-progress"', '"done"')
    assert after(tmp_path, "tasks.json", text, "1") == (wanted, 1)


def test_an_issue_of_beads_is_closed_as_bd_writes_it(tmp_path: Path) -> None:
    issues = [
        {"id": "bd-1", "title": "a", "status": "open", "updated_at": "2025-01-01T00:00:00Z"},
        {"id": "bd-2", "title": "b", "status": "open"},
    ]
    text = "\n".join(json.dumps(each) for each in issues) + "\n"
    ticked, line = after(tmp_path, "issues.jsonl", text, "bd-1")
    first, second, end = ticked.split("\n")
    closed = {"status": "closed", "updated_at": WHEN, "closed_at": WHEN}
    assert json.loads(first) == {**issues[0], **closed}
    assert ([second, end], line) == (text.split("\n")[1:], 1)


def test_what_is_not_ticked_is_said(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    (repo / ".loopwright").mkdir(parents=True)
    outside = tmp_path / "PRD.md"
    outside.write_text("- [ ] a\n")
    (repo / "link.md").symlink_to(outside)
    (repo / "PRD.md").write_text("- [ ] b\n")
    (repo / "prd.json").write_text("{")
    for source, told in {
        "../PRD.md#a": "is outside of the repository",
        f"{outside}#a": "is outside of the repository",
        "link.md#a": "is outside of the repository",
        "PRD.md#a": "a is not ticked: it is not in PRD.md any more",
        "gone.md#a": "there is no file gone.md any more",
        "prd.json#a": "prd.json:1: Expecting property name",
    }.items():
        assert told in tick(repo, source, WHEN), source
    assert outside.read_text() == "- [ ] a\n"
