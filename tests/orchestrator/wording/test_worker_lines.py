"""What a worker's terminal shows: one line for each thing, and nothing hostile in it."""

from __future__ import annotations

import pytest

from orchestrator.wording import worker_lines as told

HOSTILE = "red \x1b[31m\u202etxt\nsecond line"


def test_a_worker_that_begins_says_its_room_and_what_it_lacks() -> None:
    lines = told.began("a", "/repo", slots=1, labels=["gpu"], lacks=["codex is not installed"])
    assert lines == [
        "worker a waits for work of /repo: 1 slot, labelled gpu",
        "missing here: codex is not installed",
    ]


def test_what_is_taken_ended_and_handed_on_is_named_with_its_commit() -> None:
    assert (
        told.took("agent-T1", "Calculator", 2, used=1, slots=4)
        == "agent-T1: took attempt 2 (Calculator); 1 of 4 slots in use"
    )
    assert told.handed_on("agent-T1", "drained", branch="agent/agent-T1", commit="b" * 40) == (
        f"agent-T1: handed on, drained; its work is pushed: agent/agent-T1 at {'b' * 12}"
    )
    assert told.draining(["agent-T1"]).endswith("hands on agent-T1")
    assert told.drained(2) == "drained: nothing is left here, 2 handed on"
    assert told.lost(59.0, []).startswith("no answer for 59 s")


@pytest.mark.parametrize(
    "line",
    [
        told.took("agent-T1", HOSTILE, 1, used=1, slots=1),
        told.handed_on("agent-T1", HOSTILE, branch="agent/agent-T1", commit="c" * 40),
        told.not_uploaded("agent-T1", 1, "/tmp/1.log", HOSTILE),
        *told.began("a", HOSTILE, slots=2, labels=[HOSTILE], lacks=[HOSTILE]),
    ],
)
def test_text_of_others_stays_on_its_line_and_moves_nothing(line: str) -> None:
    assert line.isprintable()
    assert "\\x1b" in line
