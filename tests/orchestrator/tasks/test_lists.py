"""What each form of task list means: ids, order, dependencies, what must hold, what is done."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lifecycle.errors import PlanError
from lifecycle.plan import NAME_PATTERN, Task
from orchestrator.tasks.found import file_and_key, reference
from orchestrator.tasks.ids import task_id_of
from orchestrator.tasks.planned import PlannedTasks, plan_of
from orchestrator.tasks.sources import form_of, inside, is_plan, read_file

if TYPE_CHECKING:
    from pathlib import Path

STORIES = {
    "project": "Shop",
    "branchName": "ralph/cart",
    "description": "A cart",
    "userStories": [
        {
            "id": "US-002",
            "title": "Show the cart",
            "description": "As a buyer I see what I chose.",
            "acceptanceCriteria": ["prices are shown", "the type check passes"],
            "priority": 2,
            "passes": False,
            "notes": "",
        },
        {"id": "US-001", "title": "Store the cart", "priority": 1, "passes": False},
        {"id": "US-000", "title": "Begin", "priority": 0, "passes": True},
    ],
}
SPEC = """\
# Tasks: Albums

## Phase 1: Setup

- [X] T001 Create the project
- [ ] T002 [P] Configure the linter

## Phase 2: Foundations

- [ ] T003 Write the schema
- [ ] T004 [P] Write the migrations in src/db/run.py
- [ ] T005 [P] Add logging

## Phase 3: User Story 1 (Priority: P1)

- [ ] T006 [P] [US1] Album in src/models/album.py
- [ ] T007 [US1] Service in src/services/album.py (depends on T004, T006)
"""
PLAIN = """\
# Shop

## Tasks
- [ ] Create the cart page
  - shows prices

  It needs the store.
  - [ ] the empty cart says so
- [x] Set up the project
* [ ] **Write tests**
1. [ ] UTF-8 support after 3 tries
- [ ] Write tests

```
- [ ] an example
```
<!-- - [ ] a comment -->
"""
PRD = """\
# PRD: Priorities

## Goals
- fast

## User Stories

### US-001: Add the column
**Description:** As a developer I need it.

**Acceptance Criteria:**
- [ ] the column is there
- [x] the type check passes

### US-002: Show it
**Depends on:** US-001

- [ ] a badge

### US-003: Old
- [x] was done

## Non-Goals
- [x]
"""


def planned(folder: Path, name: str, text: str, **options: object) -> PlannedTasks:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    found = read_file(path)
    sources = [reference(path, folder, each.key) for each in found.tasks]
    in_order = bool(options.get("in_order"))
    return plan_of(found, name="p", where=name, sources=sources, in_order=in_order)


def waits(read: PlannedTasks) -> dict[str, tuple[str, ...]]:
    return {each.id: each.dependencies for each in read.plan.tasks}


def test_stories_of_a_prd_wait_for_those_of_a_smaller_priority_number(tmp_path: Path) -> None:
    read = planned(tmp_path, "prd.json", json.dumps(STORIES))
    assert waits(read) == {"US-001": (), "US-002": ("US-001",)}
    assert (read.form, read.branch, read.left_out) == ("prd.json", "ralph/cart", {"done": 1})
    story = read.plan.task("US-002")
    assert story.title == "Show the cart"
    assert story.description == "As a buyer I see what I chose."
    assert story.acceptance == ("prices are shown", "the type check passes")
    assert story.source == "prd.json#US-002"


def test_stories_that_name_what_they_depend_on_wait_for_nothing_else(tmp_path: Path) -> None:
    stories = [
        {"id": "A", "title": "a", "priority": 1, "passes": False},
        {"id": "B", "title": "b", "priority": 2, "passes": False},
        {"id": "C", "title": "c", "priority": 3, "passes": False, "dependsOn": ["A"]},
    ]
    read = planned(tmp_path, "prd.json", json.dumps({"userStories": stories}))
    assert waits(read) == {"A": (), "B": (), "C": ("A",)}
    read = planned(tmp_path, "prd.json", json.dumps({"userStories": stories}), in_order=True)
    assert waits(read) == {"A": (), "B": ("A",), "C": ("A", "B")}


@pytest.mark.parametrize(
    "around",
    [
        lambda each: {"prd": {"name": "x", "userStories": [each]}},
        lambda each: {"name": "x", "tasks": [each]},
        lambda each: [each],
    ],
)
def test_the_usual_wrappers_of_a_prd_are_read(tmp_path: Path, around: object) -> None:
    assert callable(around)
    story = {"id": "US-1", "title": "t", "acceptanceCriteria": ["x"], "status": "open"}
    read = planned(tmp_path, "stories.json", json.dumps(around(story)))
    assert [each.acceptance for each in read.plan.tasks] == [("x",)]


def test_features_without_ids_are_named_after_their_text(tmp_path: Path) -> None:
    features = [
        {"category": "ui", "description": "A user can log in", "steps": ["open"], "passes": False},
        {"category": "ui", "description": "A user can log out", "steps": ["go"], "passes": True},
    ]
    read = planned(tmp_path, "feature_list.json", json.dumps(features))
    assert [each.id for each in read.plan.tasks] == ["a-user-can-log-in"]
    assert read.plan.tasks[0].source == "feature_list.json#A user can log in"


def test_marks_of_spec_kit_say_which_tasks_run_side_by_side(tmp_path: Path) -> None:
    read = planned(tmp_path, "tasks.md", SPEC)
    assert waits(read) == {
        "T002": (),  # what it waits for is done
        "T003": ("T002",),
        "T004": ("T003",),
        "T005": ("T003",),
        "T006": ("T004", "T005"),
        "T007": ("T004", "T006"),  # as it says itself
    }
    assert read.plan.task("T006").title == "Album in src/models/album.py"
    assert read.plan.task("T006").tags == ("US1",)
    assert read.left_out == {"done": 1}


def test_a_plain_checklist_has_a_task_for_each_box_and_no_order(tmp_path: Path) -> None:
    read = planned(tmp_path, "PRD.md", PLAIN)
    assert waits(read) == {
        "create-the-cart-page": (),
        "write-tests": (),
        "utf-8-support-after-3-tries": (),
        "write-tests-2": (),
    }
    cart = read.plan.task("create-the-cart-page")
    assert cart.acceptance == ("the empty cart says so",)
    assert cart.description == "- shows prices\nIt needs the store."
    assert read.lines is not None
    assert read.lines["create-the-cart-page"] == 4
    assert read.plan.task("write-tests").title == "Write tests"
    in_order = planned(tmp_path, "PRD.md", PLAIN, in_order=True)
    assert waits(in_order)["write-tests-2"] == ("utf-8-support-after-3-tries",)


def test_a_ticked_box_is_done_whatever_stands_below_it(tmp_path: Path) -> None:
    text = "- [x] Set up\n  - [ ] a part\n- [ ] Ship\n  - [x] built\n"
    assert list(waits(planned(tmp_path, "PRD.md", text))) == ["ship"]


def test_a_heading_with_an_id_and_boxes_is_one_task(tmp_path: Path) -> None:
    read = planned(tmp_path, "prd-priorities.md", PRD)
    assert waits(read) == {"US-001": (), "US-002": ("US-001",)}
    story = read.plan.task("US-001")
    assert story.title == "Add the column"
    assert story.acceptance == ("the column is there", "the type check passes")
    assert "As a developer I need it." in story.description
    assert read.left_out == {"done": 1}


def test_boxes_below_a_box_are_tasks_where_they_have_ids(tmp_path: Path) -> None:
    text = "- [ ] 1. Set up\n  - [ ] 1.1 Make the folder\n  - [ ] 1.2 Add a test\n- [ ] 2. Ship\n"
    read = planned(tmp_path, "tasks.md", text)
    assert [(each.id, each.title) for each in read.plan.tasks] == [
        ("1.1", "Make the folder"),
        ("1.2", "Add a test"),
        ("2", "Ship"),
    ]


def test_tasks_of_taskmaster_keep_details_subtasks_and_what_tests_them(tmp_path: Path) -> None:
    tasks = [
        {"id": 1, "title": "Begin", "status": "done", "dependencies": [], "priority": "high"},
        {
            "id": 2,
            "title": "Core",
            "description": "The core.",
            "details": "Use SQLite.",
            "testStrategy": "Unit tests.",
            "status": "in-progress",
            "dependencies": [1],
            "priority": "low",
            "subtasks": [
                {"id": 1, "title": "Open", "status": "done", "dependencies": []},
                {"id": 2, "title": "Query", "description": "All", "status": "pending"},
            ],
        },
        {"id": 3, "title": "UI", "status": "pending", "dependencies": ["2.1"], "priority": "high"},
        {"id": 4, "title": "Later", "status": "deferred", "dependencies": []},
        {"id": 5, "title": "Then", "status": "pending", "dependencies": [4]},
        {"id": 6, "title": "After that", "status": "pending", "dependencies": [5, 1]},
    ]
    for data in ({"tasks": tasks}, {"master": {"tasks": tasks, "metadata": {}}}):
        read = planned(tmp_path, "tasks.json", json.dumps(data))
        # Priorities order what may begin; they are no dependencies.
        assert waits(read) == {"3": ("2",), "2": ()}
        core = read.plan.task("2")
        assert core.description == "The core.\n\nUse SQLite."
        assert core.acceptance == ("Query: All", "Unit tests.")
        assert read.left_out == {"done": 1, "deferred": 1, "waiting for deferred ones": 2}
    two = {"master": {"tasks": tasks[:1]}, "ui": {"tasks": tasks[2:3]}}
    assert [each.key for each in read_file(_json(tmp_path, two)).tasks] == ["1", "ui-3"]


def _json(folder: Path, data: object) -> Path:
    path = folder / "tasks.json"
    path.write_text(json.dumps(data))
    return path


def test_issues_of_beads_wait_for_what_blocks_them(tmp_path: Path) -> None:
    issues = [
        {"id": "bd-1", "title": "Epic", "issue_type": "epic", "status": "open", "priority": 1},
        {
            "id": "bd-a1b2",
            "title": "API",
            "description": "d",
            "acceptance_criteria": "- answers\n- [ ] fast",
            "status": "open",
            "priority": 2,
            "issue_type": "task",
            "labels": ["api"],
            "external_ref": "docs/prd.md",
            "dependencies": [
                {"issue_id": "bd-a1b2", "depends_on_id": "bd-c3d4.1", "type": "blocks"},
                {"issue_id": "bd-a1b2", "depends_on_id": "bd-1", "type": "parent-child"},
            ],
        },
        {"id": "bd-c3d4.1", "title": "DB", "status": "in_progress", "priority": 3},
        {"id": "bd-e5", "title": "Old", "status": "closed", "priority": 0},
    ]
    text = "\n".join(map(json.dumps, issues))
    read = planned(tmp_path, ".beads/issues.jsonl", text)
    assert waits(read) == {"bd-a1b2": ("bd-c3d4.1",), "bd-c3d4.1": ()}
    api = read.plan.task("bd-a1b2")
    assert api.acceptance == ("answers", "fast")
    assert api.description == "d\n\nSee docs/prd.md."
    assert api.source == ".beads/issues.jsonl#bd-a1b2"
    assert inside(tmp_path / ".beads") == tmp_path / ".beads" / "issues.jsonl"


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("prd.json", '{\n"userStories": [\n{"id": }', "prd.json:3: Expecting value"),
        ("prd.json", '{"userStories": [\n{"id": "US-1"}]}', "prd.json:2: a story without a title"),
        ("prd.json", '{"userStories": [\n"x"]}', "prd.json:2: a story is an object"),
        ("prd.json", '{"branchName": "x"}', "holds no tasks that can be read"),
        ("PRD.md", "# no box\n", "holds no tasks that can be read"),
        ("x.jsonl", '{"id": "a", "title": "t"}\n{', "x.jsonl:2: no JSON"),
        ("x.jsonl", '\n{"id": "a"}', "x.jsonl:2: an issue needs an id and a title"),
        ("x.jsonl", '{"id": "a", "title": "t", "labels": 7}', "x.jsonl:1: `labels` is no list"),
        ("PRD.md", "- [ ] T001 a (depends on T009)\n", "PRD.md:1: T001 waits for T009"),
        ("PRD.md", "- [ ] T001 a\n- [x] T001 b\n", "PRD.md:2: T001 stands for another task in"),
        ("PRD.md", "- [ ] A-1: a, after A-2\n- [ ] A-2: b, after A-1\n", "form a cycle"),
        (
            "prd.json",
            '{"userStories": [{"id": "A", "title": "t", "dependsOn": ["B"]}]}',
            "prd.json:1: A depends on B, which is not in the list",
        ),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(
    tmp_path: Path, name: str, text: str, told: str
) -> None:
    with pytest.raises(PlanError) as refused:
        planned(tmp_path, name, text)
    assert told in str(refused.value)


def test_bytes_that_are_no_text_are_named_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "PRD.md").write_bytes(b"- [ ] a\n- [ ] \xff\n")
    with pytest.raises(PlanError, match=r"PRD\.md:2: not UTF-8"):
        read_file(tmp_path / "PRD.md")


def test_the_ids_of_texts_stay_and_name_branches() -> None:
    long = "Write the whole documentation of every command and of each of its options"
    texts = ("Add a page", "Ünïcode größer", "作成する", "a/b..c.lock", long, long + "!", "x" * 300)
    made = [task_id_of(each, is_id=False) for each in texts]
    assert made[0] == "add-a-page"
    assert len(set(made)) == len(made)
    for each in made:
        assert NAME_PATTERN.fullmatch(f"agent-{each}"), each
        assert Task(id=each).id == each
    assert task_id_of("US-001", is_id=True) == "US-001"
    assert task_id_of("A..B", is_id=True) == "a-b"


def test_a_reference_names_file_and_item(tmp_path: Path) -> None:
    said = reference(tmp_path / "a#b" / "PRD.md", tmp_path, "fix # 3")
    assert file_and_key(said) == ("a#b/PRD.md", "fix # 3")


def test_a_plan_of_ours_is_taken_for_no_other_list(tmp_path: Path) -> None:
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps({"tasks": [{"id": "T1", "title": "x", "dependencies": ["T2"]}]}))
    assert is_plan(str(path))
    assert form_of(path) is None
    assert is_plan("plan.toml")
    assert not is_plan("github:label=ready")
