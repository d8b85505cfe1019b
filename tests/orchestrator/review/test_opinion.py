"""A second opinion as people meet it: asked for by a setting, shown by each command, overruled."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.machine.states import Completed
from lifecycle.record import AgentLifecycle
from orchestrator.review.opinion import opinion_form, opinion_lines
from tests.lifecycle.attempt.reviewing import APPROVES, REJECTS, reviewer
from tests.orchestrator.loopkit import DONE

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World

HEAD = "c0ffee00" * 5
SAID: dict[str, Any] = {
    "by": "codex", "head": HEAD, "attempt": 2, "at": 3.0, "approves": True, "summary": "Fine.",
    "findings": [
        {"severity": "minor", "text": "short names", "file": "a.py", "line": 3, "place": ""},
        {"severity": "critical", "text": "look", "file": "b.py", "line": 0, "place": "missing"},
    ],
}  # fmt: skip


@pytest.mark.parametrize(("head", "about"), [(HEAD, ""), ("0ther", ", an earlier commit")])
def test_what_was_said_names_its_commit_and_what_points_nowhere(head: str, about: str) -> None:
    work = Completed(summary="done", head=head)
    record = AgentLifecycle(agent_id="a", task="x", work=work, facts={"opinion": SAID})
    told = opinion_form(record)
    assert told is not None
    assert told["current"] is not bool(about)
    assert list(opinion_lines(told)) == [
        f"codex approved c0ffee00c0ff{about}, with 2 findings: Fine.",
        "minor, a.py:3: short names",
        "critical, b.py (does not exist): look",
    ]


def test_nothing_is_told_where_nobody_was_asked() -> None:
    assert opinion_form(AgentLifecycle(agent_id="a", task="x")) is None


@pytest.fixture
def script() -> list[dict[str, Any]]:
    return [{"run": ["sh", "-c", "echo x >> x.txt"]}, {"commit": "work"}, DONE]


def test_work_is_done_once_the_reviewer_of_the_settings_approves(
    world: World, script: list[dict[str, Any]]
) -> None:
    toml = (world.repo / "loopwright.toml").read_text()
    world.settings(f"{toml}review_by = {json.dumps(reviewer(world.folder, APPROVES))}\n")
    world.call("run", "x", "--task-id", "T1", "--no-stay", "--command", world.script("a", script))
    shown = world.json("show", "T1")
    assert shown["lifecycle"]["state"] == "done"
    assert (shown["opinion"]["approves"], shown["opinion"]["current"]) == (True, True)
    assert " approved " in world.call("show", "T1").stdout
    (waits,) = world.json("review")["items"]
    assert waits["task_id"] == "T1"
    (line,) = [
        each
        for each in world.json("costs", "--by", "program")["lines"]
        if each["name"].startswith("review: ")
    ]
    assert line["seconds"] > 0


def test_a_person_who_is_not_of_its_opinion_overrules_it(
    world: World, script: list[dict[str, Any]]
) -> None:
    toml = (world.repo / "loopwright.toml").read_text()
    by = json.dumps(reviewer(world.folder, REJECTS))
    world.settings(f"{toml}review_by = {by}\nreview_rounds = 0\n")
    ended = world.call(
        "run", "x", "--task-id", "T1", "--no-stay", "--command", world.script("a", script), code=3
    )
    assert "loopwright unblock" in ended.stdout
    assert "the reviewer python -S reviewer.py has 1 finding" in ended.stdout
    told = world.call("show", "T1").stdout
    assert "major, x.txt:1: it is not what was asked for" in told
    world.call("unblock", "T1", "it is")
    world.call("run", "--task-id", "T1", "--no-stay")
    shown = world.json("show", "T1")
    assert shown["lifecycle"]["state"] == "done"
    assert "without the reviewer's approval" in json.dumps(shown["lifecycle"]["work"]["notes"])
    world.call("accept", "T1")
    assert (world.repo / "x.txt").exists()
