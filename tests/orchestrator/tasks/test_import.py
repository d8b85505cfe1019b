"""`tasks import` writes a plan, and `up` takes a list as it is."""

from __future__ import annotations

import json
import sys
import tomllib
from typing import TYPE_CHECKING, Any

from orchestrator.wording.json_schemas import schema
from tests.orchestrator.cli.schema_check import faults
from tests.orchestrator.loopkit import DONE, SETTINGS
from tests.orchestrator.tasks.test_lists import PRD, STORIES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.orchestrator.loopkit import World


APPEND = {"run": ["sh", "-c", "echo $LOOPWRIGHT_TASK_ID >> done"]}


def plan_at(path: Path) -> list[dict[str, Any]]:
    tasks: list[dict[str, Any]] = tomllib.loads(path.read_text())["tasks"]
    return tasks


def test_an_import_writes_a_plan_that_can_be_run(world: World) -> None:
    (world.repo / "prd.json").write_text(json.dumps(STORIES, indent=2))
    plan = world.repo / "loopwright.plan.toml"
    dry = world.call("tasks", "import", "prd.json", "--dry-run")
    assert dry.stdout.splitlines()[1].split() == ["US-001", "18", "Store", "the", "cart"]
    assert "prd.json, 2 tasks to do, 1 done and left out" in dry.stderr
    assert "Nothing was written: this was a dry run." in dry.stderr
    assert not plan.exists()
    read = world.json("tasks", "import", "prd.json")
    assert faults(schema("tasks"), read) == []
    assert (read["branch"], read["left_out"]) == ("ralph/cart", {"done": 1})
    assert plan_at(plan) == read["tasks"]
    assert plan_at(plan)[1] == {
        "id": "US-002",
        "title": "Show the cart",
        "description": "As a buyer I see what I chose.",
        "dependencies": ["US-001"],
        "acceptance": ["prices are shown", "the type check passes"],
        "source": "prd.json#US-002",
    }
    assert "branch ralph/cart" in plan.read_text()
    # It stays as a person edited it, and is not written over.
    refused = world.call("tasks", "import", "prd.json", code=2)
    assert "add to it with --append" in refused.stderr


def test_an_import_again_adds_only_what_is_new(world: World) -> None:
    plan, prd = world.repo / "loopwright.plan.toml", world.repo / "PRD.md"
    plan.write_bytes(b'# mine\r\n[[tasks]]\nid = "US-001"\ntitle = "Another one"\n# end')
    prd.write_text(PRD)
    world.call("tasks", "import", "PRD.md", "--append")
    text = plan.read_text()
    assert plan.read_bytes().startswith(b"# mine\r\n[[tasks]]\n")
    assert text.startswith('# mine\n[[tasks]]\nid = "US-001"\ntitle = "Another one"\n# end\n')
    ids = {each["id"]: each.get("dependencies", []) for each in plan_at(plan)}
    assert ids == {"US-001": [], "US-001-2": [], "US-002": ["US-001-2"]}
    again = world.call("tasks", "import", "PRD.md", "--append")
    assert "2 of them in" in again.stderr
    assert "there is nothing to add" in again.stderr
    assert plan.read_text() == text
    prd.write_text(
        PRD + "\n### US-004: More (depends on US-002)\n**Depends on:** US-002\n- [ ] x\n"
    )
    world.call("tasks", "import", "PRD.md", "--append")
    assert plan_at(plan)[-1]["dependencies"] == ["US-002"]
    assert plan.read_text().startswith(text)


def test_any_text_survives_the_way_into_a_plan(world: World) -> None:
    hostile = 'a "quoted" \\ back\tslash \x07 \x7f """ end\nsecond line \\'
    data = {"tasks": [{"id": "T1", "description": hostile, "verify": ['grep "x" y\\z']}]}
    source = world.folder / "print.py"
    source.write_text(f"import json; print(json.dumps({data!r}))")
    for name in ("out.toml", "out.json"):
        out = world.folder / name
        command = f"command:{sys.executable} {source}"
        world.call("tasks", "import", command, "--output", str(out))
        read = plan_at(out) if name.endswith("toml") else json.loads(out.read_text())["tasks"]
        assert read[0]["description"] == hostile
        assert read[0]["verify"] == ['grep "x" y\\z']
        again = world.json("tasks", "import", command, "--output", str(out), "--append")
        assert (again["known"], again["tasks"]) == (["T1"], [])


def test_a_command_that_prints_no_plan_is_named(world: World) -> None:
    (world.repo / "broken").mkdir()
    (world.repo / "broken" / "prd.json").write_text('{"userStories":\n')
    for command, told in {
        "command:/no/such": "cannot be run",
        "command:false": "ended with code 1",
        "command:echo hello": "printed no JSON",
        "command:echo 3": "a plan is an object",
        'command:echo \'{"tasks": [{"id": "a b"}]}\'': "is not a usable id",
        "command:": "cannot be run",
        "nobody:x": "nothing reads nobody:",
        "github:label=x": "does not exist",
        "github:all": "write github:label=NAME",
        "missing.md": "there is no file missing.md",
        "plan.toml": "is a plan already",
        "broken/prd.json": "broken/prd.json:2: Expecting",
    }.items():
        refused = world.call("tasks", "import", command, code=2)
        assert told in refused.stderr, command
        assert "Traceback" not in refused.stderr


def test_a_list_is_run_as_it_is(world: World) -> None:
    script = world.script("agent", [APPEND, {"commit": "x"}, DONE])
    world.settings(f"{SETTINGS}command = {json.dumps(script.split())}\n")
    (world.repo / "PRD.md").write_text(PRD)
    done = world.call("up", "PRD.md", "--in-order", "--no-server")
    assert "PRD.md: checklist, 2 tasks to do, 1 done and left out" in done.stderr
    assert world.row("agent-US-001")["work_kind"] == "Completed"
    task = world.row("agent-US-002")["facts"]["task"]
    assert (task["source"], task["dependencies"]) == ("PRD.md#US-002", ["US-001"])
    assert "Nothing to do" not in world.call("up", "PRD.md", "--no-server").stderr
    refused = world.call("up", "plan.toml", "--base", "main", code=2)
    assert "are for a list of tasks" in refused.stderr
    (world.repo / "fix_plan.md").write_text("- [ ] another thing\n")
    refused = world.call("up", "fix_plan.md", "--base", "nowhere", code=2)
    assert "there is no branch or commit 'nowhere'" in refused.stderr
