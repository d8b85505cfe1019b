"""What people said, and what became of a block, is told until an attempt went on from it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.orchestrator.loopkit import ASK, BLOCK, DONE, until

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World

CRASH = [{"exit": {"code": 1}}]


def told(world: World, attempt: int) -> str:
    """Return the summary that an attempt began with."""
    return (world.repo / f".loopwright/summaries/agent-T001/{attempt}.md").read_text()


def one_task(world: World, script: object, verify: str = "") -> str:
    return world.plan_of({"T001": script}, {"T001": {"verify": [verify]}} if verify else None)


@pytest.mark.parametrize(
    ("stops", "command", "found"),
    [
        (
            ASK,
            ("answer", "T001", "it is blue"),
            ("Attempt 1 asked", "Blue or green?", "it is blue"),
        ),
        (BLOCK, ("unblock", "T001", "the key is 3"), ("`a key`", "unblocked it: the key is 3")),
    ],
    ids=["question", "block"],
)
def test_a_runner_that_is_killed_takes_nobody_s_words_along(
    world: World, stops: object, command: tuple[str, ...], found: tuple[str, ...]
) -> None:
    go = world.folder / "go"
    plan = one_task(world, {"attempts": {"1": [stops], "default": [{"wait_file": str(go)}, DONE]}})
    world.json("up", plan, code=3)
    assert "start it with: loopwright up" in world.call(*command).stdout
    with world.live("up", plan) as up:
        up.says("attempt 2 started")
        up.signal(signal.SIGKILL)
        up.process.wait()
    with world.live("up", plan) as up:
        up.says("attempt 2 started")
        go.touch()
        up.ends(0)
    summary = told(world, 2)
    assert "Interruptions: 1" in summary
    assert [text for text in found if text not in summary] == []


def test_what_people_said_outlasts_attempts_that_crash_or_are_red(world: World) -> None:
    script = {
        "attempts": {
            "1": [ASK],
            "2": CRASH,
            "3": CRASH,
            "4": [DONE],
            "5": [{"write": {"path": "ok", "text": "x"}}, {"commit": "Add ok"}, DONE],
            "6": CRASH,
            "default": [DONE],
        }
    }
    world.settings((world.repo / "loopwright.toml").read_text() + "stuck_limit = 0\n")
    plan = one_task(world, script, verify="test -f ok")
    world.json("up", plan, code=3)
    world.call("answer", "T001", "it is blue")
    world.call("guide", "T001", "use no library")
    world.json("up", plan)
    for attempt in (2, 3, 4, 5):
        summary = told(world, attempt)
        assert "it is blue" in summary, attempt
        assert "Attempt 1 asked" in summary, attempt
        assert "use no library" in summary, attempt
        assert summary.count("use no library") == 1
    assert "sent back" in world.call("guide", "T001", "say why").stdout
    world.json("up", plan)
    for attempt in (6, 7):
        assert "say why" in told(world, attempt)
        assert "it is blue" not in told(world, attempt), "an attempt went on from it"


def test_a_block_that_is_over_is_not_taken_for_how_a_later_attempt_ended(world: World) -> None:
    script = {"attempts": {"1": [BLOCK], "2": CRASH, "default": [DONE]}}
    plan = one_task(world, script)
    world.json("up", plan, code=3)
    world.call("unblock", "T001", "the key is 3")
    world.json("up", plan)
    until(lambda: world.row()["work_kind"] == "Completed", "it is done")
    summary = told(world, 3)
    assert "the key is 3" in summary
    assert "stopped because it was blocked" not in summary
    assert "The process of attempt 2 failed" in summary
