"""`review` walks through what waits, and merges only what it showed."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.orchestrator.cli.schema_check import faults
from tests.orchestrator.loopkit import ASK, BIN, DONE
from tests.orchestrator.ptykit import Terminal

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World


def _writes(name: str, text: str = "x") -> list[dict[str, Any]]:
    return [{"run": ["sh", "-c", f"echo {text} >> {name}"]}, {"commit": "work"}]


@pytest.fixture
def waiting(world: World) -> World:
    """Return a repository with a question, and two works, of which one is flagged."""
    world.settings((world.repo / "loopwright.toml").read_text() + 'verify = ["true"]\n')
    scripts: dict[str, object] = {
        "Q1": [ASK],
        "F1": [*_writes("test_f.py"), DONE],
        "W1": [*_writes("w.txt"), DONE],
    }
    world.call("up", "--no-stay", world.plan_of(scripts), code=None)
    return world


def test_a_person_decides_one_after_the_other_at_80_columns(waiting: World) -> None:
    with Terminal(waiting.repo, "review") as person:
        person.shows("1 of 3")
        person.press("k", "> ")
        person.shows("2 of 3")
        person.press("k", "> ")
        person.shows("3 of 3")
        person.press("q", "> ")
        said = person.ends(3)
    assert "Still waiting:" in said


@pytest.mark.parametrize("columns", [80, 120])
def test_the_evidence_stands_above_the_diff_and_fits(waiting: World, columns: int) -> None:
    with Terminal(waiting.repo, "review", "F1", columns=columns, NO_COLOR="1") as person:
        person.shows("[q] quit")
        shown = person.text
        person.press("q")
        person.ends(3)
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= columns
    parts = ("waits for your review", '"all done" (its own words, unchecked)', "passed: `true`",
             "test_f.py: it is a test", "merges into main", "+x")  # fmt: skip
    assert sorted(parts, key=shown.index) == list(parts)


def test_keys_accept_answer_and_send_back(waiting: World) -> None:
    with Terminal(waiting.repo, "review", "F1") as person:
        person.press("a")
        assert "accepted, merged into main" in person.ends(0)
    assert waiting.row("agent-F1")["work_kind"] == "Accepted"
    with Terminal(waiting.repo, "review", "Q1") as person:
        person.press("n")
        person.press("Blue\n", "Your answer: ")
        person.ends(0)
    assert waiting.row("agent-Q1")["work_kind"] == "BackingOff"
    with Terminal(waiting.repo, "review", "W1") as person:
        person.press("s")
        person.press("Say more\n", ") ")
        said = person.ends(0)
    assert "No runner is alive. Until one is, 2 tasks stand still: " in said
    assert "Next: loopwright up   (continues all of them)" in said
    assert waiting.row("agent-W1")["work_kind"] == "BackingOff"


def test_without_a_terminal_lines_are_read(waiting: World) -> None:
    done = subprocess.run(
        [BIN / "loopwright", "review", "W1"],
        cwd=waiting.repo, input="r\nnot wanted\n", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "agent-W1: rejected" in done.stdout
    assert "\x1b" not in done.stdout


def test_what_was_not_shown_is_not_merged(waiting: World) -> None:
    seen = waiting.git("rev-parse", "agent/agent-W1")
    before = waiting.git("rev-parse", "main")
    with Terminal(waiting.repo, "review", "W1") as person:
        person.shows("[q] quit")
        waiting.script("W1", [*_writes("w2.txt", "later"), DONE])
        waiting.call("guide", "W1", "more")
        waiting.call("up", "--no-stay", code=None)
        moved = waiting.git("rev-parse", "agent/agent-W1")
        assert moved != seen
        person.press("a")
        person.shows(f"its work is at {moved[:12]} now, and {seen[:12]} was looked at")
        person.shows("+later")
        assert waiting.git("rev-parse", "main") == before
        person.press("a")
        person.ends(0)
    assert "w2.txt" in waiting.git("ls-tree", "--name-only", "main")


def test_comments_written_in_the_editor_go_to_the_agent_with_file_and_line(
    waiting: World,
) -> None:
    editor = waiting.folder / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/^+x$/&\\n>> Why x?/' \"$1\"\n")
    editor.chmod(0o755)
    with Terminal(waiting.repo, "review", "W1", EDITOR=str(editor)) as person:
        person.press("e")
        person.shows("1 comment is kept")
        person.press("s")
        person.press("Please\n", ") ")
        person.ends(0)
    told = waiting.json("export", "W1")
    events = [each["event"] for each in told["lifecycles"][0]["journal"]]
    (guided,) = [each for each in events if each["kind"] == "Guided"]
    assert guided["text"] == "Please\n\nw.txt, line 1: Why x?"


def test_the_queue_is_printed_for_programs_and_agents_may_not_decide(
    waiting: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = waiting.json("review")["items"]
    assert {each["task_id"]: each["needs"] for each in listed} == {
        "Q1": "answer", "F1": "review", "W1": "review",
    }  # fmt: skip
    assert {each["attempt"] for each in listed} == {1}, "the last that was made, as in `ps`"
    only = waiting.json("review", "W1")["items"]
    assert [each["task_id"] for each in only] == ["W1"]
    monkeypatch.setattr("orchestrator.control.people_only.inside_of", lambda _: "agent-W1")
    refused = waiting.call("review", code=None)
    assert refused.code != 0
    assert "only a person may review" in refused.stderr


def test_accept_on_the_command_line_takes_what_was_seen(waiting: World) -> None:
    head = waiting.git("rev-parse", "agent/agent-W1")
    wrong = waiting.call("accept", "W1", "--expect-head", "0123456789", code=2)
    assert f"its work is at {head[:12]} now" in wrong.stderr
    assert waiting.row("agent-W1")["work_kind"] == "Completed"
    waiting.call("accept", "F1", "W1", "--expect-head", head, code=2)
    waiting.call("accept", "W1", "--expect-head", head[:10])
    assert waiting.row("agent-W1")["work_kind"] == "Accepted"


def test_what_is_printed_for_programs_is_described(waiting: World) -> None:
    for name in ("review", "diff"):
        told = waiting.json("review") if name == "review" else waiting.json("diff", "W1")
        described = json.loads(waiting.call("schema", name).stdout)
        assert not faults(described, told)


def test_a_held_summary_is_shown_edited_and_approved(world: World) -> None:
    world.settings((world.repo / "loopwright.toml").read_text() + "review_summaries = true\n")
    world.call("up", "--no-stay", world.plan_of({"H1": [{"exit": 3}]}), code=None)
    editor = world.folder / "editor"
    editor.write_text("#!/bin/sh\necho 'Mind the gap.' > \"$1\"\n")
    editor.chmod(0o755)
    with Terminal(world.repo, "review", "H1", EDITOR=str(editor)) as person:
        person.shows("[a] approve")
        assert "will be told:" in person.text
        person.press("e")
        person.shows("will be told your text")
        person.shows("Mind the gap.")
        person.press("a")
        person.ends(0)
    assert world.row("agent-H1")["work_kind"] != "AwaitingHuman"


def test_what_comes_along_is_named_and_shown_before_it_is_accepted(world: World) -> None:
    scripts: dict[str, object] = {
        "D1": [*_writes("d.txt"), DONE],
        "E1": [*_writes("e.txt"), DONE],
    }
    needs = {"E1": {"dependencies": ["D1"]}}
    world.call("up", "--no-stay", world.plan_of(scripts, needs), code=None)
    with Terminal(world.repo, "review", "E1") as person:
        person.press("w")
        person.shows("comes the work of agent-D1")
        assert "d.txt" in person.text
        person.press("n")
        person.press("q")
        person.ends(3)
    assert "d.txt" not in world.git("ls-tree", "--name-only", "main")
    with Terminal(world.repo, "review", "E1") as person:
        person.press("w")
        person.shows("Accept all of it?")
        person.press("y")
        person.ends(0)
    assert {"d.txt", "e.txt"} <= set(world.git("ls-tree", "--name-only", "main").split())
