"""Agents that get nowhere, by command line: attempts, end, exit code and what a person reads.

Each with a terminal, where a person is waited for, and without one, where the call ends at once.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.orchestrator.loopkit import ASK, BIN, BLOCK, PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.orchestrator.loopkit import World

SHORT = "retry_interval = 0.05\nretry_interval_cap = 0.1\nstop_grace = 0.3\nport = 0\n"
DONE = {"breakpoint": {"type": "task_complete", "summary": "it works now"}}
MORE: dict[str, Any] = {"append": {"path": "x.txt", "text": "more\n"}}
FAILS = [{"exit": 3}]
COMMITS_RED = [MORE, {"commit": "one more try"}, DONE]


@pytest.fixture(autouse=True)
def _short(world: World) -> None:
    world.settings(SHORT)


def piped(world: World, *args: str) -> dict[str, Any]:
    """Run a command without a terminal, which must end by itself with 3; return what it says."""
    done = subprocess.run(
        [BIN / "loopwright", *args, "--json"], cwd=world.repo, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, check=False, timeout=PATIENCE * 3,
    )  # fmt: skip
    assert done.returncode == 3, done
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@contextmanager
def on_a_terminal(world: World, *args: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command whose standard input is a terminal; it is ended with the block."""
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            [BIN / "loopwright", *args], cwd=world.repo, env=os.environ, stdin=theirs,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                process.terminate()
                process.wait(PATIENCE)
    finally:
        os.close(ours)
        os.close(theirs)


# --- exactly so many --------------------------------------------------------------------------


@pytest.mark.parametrize("retries", [0, 5])
def test_who_names_the_retries_gets_exactly_those_of_an_agent_that_fails_alike(
    world: World, retries: int
) -> None:
    agent = world.script("agent", FAILS)
    run = ("run", "x", "--command", agent, "--max-retries", str(retries))
    told = world.json(*run, code=5)
    assert told["result_type"] == "max_retries"
    assert (told["spawn_count"], told["retry_count"]) == (retries + 1, retries)
    assert f"{retries} of {retries} retries used" in told["error"]


def test_a_task_of_a_plan_that_names_them_gets_exactly_those_and_show_tells_so(
    world: World,
) -> None:
    plan = world.plan_of({"A": FAILS}, {"A": {"max_retries": 4}})
    (told,) = world.json("up", plan, code=5)["results"]
    assert (told["spawn_count"], told["retry_count"]) == (5, 4)
    assert "4 of 4 retries used" in world.call("show", "agent-A", "--why").stdout


def test_a_limit_of_the_same_that_is_set_too_holds_named_retries_up(world: World) -> None:
    world.settings(f"{SHORT}stuck_limit = 2\n")
    agent = world.script("agent", FAILS)
    told = world.json("run", "x", "--command", agent, "--max-retries", "5", code=3)
    assert (told["result_type"], told["spawn_count"]) == ("blocked", 2)


def test_retries_of_a_settings_file_lift_no_breaker(world: World) -> None:
    world.settings(f"{SHORT}max_retries = 50\n")
    told = world.json("run", "x", "--command", world.script("agent", FAILS), code=3)
    assert (told["result_type"], told["spawn_count"]) == ("blocked", 3)


# --- without a terminal it ends with 3, and says what to type ---------------------------------


@pytest.mark.parametrize(
    ("steps", "attempts", "says"),
    [
        (FAILS, 3, ("3 attempts in a row changed nothing", "loopwright guide agent-T001 TEXT")),
        ([BLOCK], 1, ("a key: no key", "loopwright unblock agent-T001")),
    ],
    ids=["fails", "blocks"],
)
def test_without_a_terminal_a_run_that_only_a_person_can_move_on_ends_with_3(
    world: World, steps: Any, attempts: int, says: tuple[str, str]
) -> None:
    told = piped(world, "run", "x", "--command", world.script("agent", steps))
    assert (told["result_type"], told["spawn_count"]) == ("blocked", attempts)
    assert told["blocked_on"][0].startswith("person: ")
    for words in says:
        assert words in told["error"]
    again = world.json("run", "--task-id", "T001", code=3)
    assert again["spawn_count"] == attempts, "nobody has said anything since"


def test_up_ends_only_when_all_that_is_left_waits_for_people(world: World) -> None:
    slow = [world.stamp("begin"), {"sleep": 1}, DONE]
    blocks = [{"breakpoint": {"type": "blocked", "blocked_on": ["A"]}}]
    scripts = {"A": [ASK], "B": slow, "C": blocks, "D": slow}
    plan = world.plan_of(scripts, {"D": {"dependencies": ["A"]}})
    told = piped(world, "up", plan)
    kinds = {each["task_id"]: each["result_type"] for each in told["results"]}
    assert kinds == {"A": "blocked", "B": "task_complete", "C": "blocked", "D": "blocked"}
    assert [who for who, what, _ in world.stamps() if what == "begin"] == ["B"]


def test_who_is_answered_while_others_still_work_goes_on_in_the_same_up(world: World) -> None:
    asks = {"attempts": {"1": [ASK], "default": [DONE]}}
    slow = [{"wait_file": str(world.folder / "go")}, DONE]
    plan = world.plan_of({"A": asks, "B": slow, "C": asks}, {"C": {"dependencies": ["A"]}})
    with world.live("up", plan, "--no-stay", "--json") as up:
        world.comes_to("AwaitingHuman", "agent-A")
        world.comes_to("Working", "agent-B")
        world.call("answer", "agent-A", "blue")
        world.comes_to("Completed", "agent-A")
        world.comes_to("AwaitingHuman", "agent-C")
        (world.folder / "go").write_text("go")
        told = json.loads(up.ends(3))
    kinds = {each["task_id"]: each["result_type"] for each in told["results"]}
    assert kinds == {"A": "task_complete", "B": "task_complete", "C": "blocked"}


# --- where somebody may sit before it, it stays -----------------------------------------------


@pytest.mark.parametrize("steps", [[ASK], [BLOCK]], ids=["asks", "blocks"])
def test_on_a_terminal_a_person_is_waited_for(world: World, steps: Any) -> None:
    agent = world.script("agent", steps)
    with on_a_terminal(world, "run", "x", "--command", agent) as run:
        world.comes_to("Blocked" if steps == [BLOCK] else "AwaitingHuman")
        # It looks for requests only now and then: one that would end by itself had by then.
        world.call("guide", "agent-T001", "take your time")
        assert run.poll() is None
        world.call("reject", "agent-T001")
        assert run.wait(PATIENCE) == 6


def test_no_stay_ends_it_on_a_terminal_too(world: World) -> None:
    agent = world.script("agent", [ASK])
    with on_a_terminal(world, "run", "x", "--command", agent, "--no-stay") as run:
        assert run.wait(PATIENCE) == 3


def test_a_setting_that_says_so_keeps_it_without_a_terminal(world: World) -> None:
    world.settings(f"{SHORT}stay_for_people = true\nblocked_timeout = 0.3\n")
    told = piped(world, "run", "x", "--command", world.script("a", [BLOCK]))
    assert "blocked_timeout" in told["error"]


# --- red before any work ----------------------------------------------------------------------


def test_what_is_red_before_any_work_is_told_first_at_the_start_in_show_and_in_the_summary(
    world: World,
) -> None:
    agent = world.script("agent", COMMITS_RED)
    world.settings(f"{SHORT}same_gate_limit = 2\n")
    done = world.call("run", "x", "--command", agent, "--verify", "exit 7", code=3)
    red = done.stderr.index("agent-T001: red before any work: `exit 7` ended with code 7")
    assert red < done.stderr.index("agent-T001: works on branch")
    shown = world.call("show", "agent-T001").stdout.splitlines()
    assert shown[0] == "Red before any work: `exit 7`"
    assert "failed in the same way 2 times" in "\n".join(shown)
    assert "ended with code 7, as before any work" in done.stdout
    summaries = world.repo / ".loopwright" / "summaries" / "agent-T001"
    for attempt in (1, 2):
        text = (summaries / f"{attempt}.md").read_text()
        assert text.index("Red before any work") < text.index("What to do now")
