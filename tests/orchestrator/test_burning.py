"""Agents that get nowhere, by command line: attempts, end, exit code and what a person reads.

Each with a terminal, where a person is waited for, and without one, where the call ends at once.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.orchestrator.loopkit import ASK, BIN, BLOCK, PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.orchestrator.loopkit import World

SHORT = "retry_interval = 0.05\nretry_interval_cap = 0.1\nstop_grace = 0.3\nport = 0\n"
DONE = {"breakpoint": {"type": "task_complete", "summary": "it works now"}}
MORE: dict[str, Any] = {"append": {"path": "x.txt", "text": "more\n"}}
FAILS = [{"exit": 3}]
COMMITS_RED = [MORE, {"commit": "one more try"}, DONE]
DIFFERS = {str(n): [{"say": f"try {n}"}, {"exit": n}] for n in range(1, 9)}


@pytest.fixture(autouse=True)
def _short(world: World) -> None:
    world.settings(SHORT)


def piped(world: World, *args: str, code: int) -> subprocess.CompletedProcess[str]:
    """Run a command without a terminal; it must end by itself."""
    done = subprocess.run(
        [BIN / "loopwright", *args], cwd=world.repo, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, check=False, timeout=PATIENCE * 3,
    )  # fmt: skip
    assert done.returncode == code, done
    return done


def result(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
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


@pytest.mark.parametrize("retries", [0, 2, 5])
def test_who_names_the_retries_gets_exactly_those_of_an_agent_that_fails_alike(
    world: World, retries: int
) -> None:
    agent = world.script("agent", FAILS)
    run = ("run", "x", "--command", agent, "--max-retries", str(retries), "--json")
    told = result(piped(world, *run, code=5))
    assert told["result_type"] == "max_retries"
    assert (told["spawn_count"], told["retry_count"]) == (retries + 1, retries)
    assert f"{retries} of {retries} retries used" in told["error"]


def test_a_task_of_a_plan_that_names_them_gets_exactly_those_and_show_tells_so(
    world: World,
) -> None:
    words = json.dumps(world.script("agent", FAILS).split())
    plan = f'[agents.default]\ncommand = {words}\n[[tasks]]\nid = "A"\nmax_retries = 4\n'
    (told,) = result(piped(world, "up", world.plan(plan), "--json", code=5))["results"]
    assert (told["spawn_count"], told["retry_count"]) == (5, 4)
    assert "4 of 4 retries used" in world.call("show", "agent-A", "--why").stdout


def test_a_limit_of_the_same_that_is_set_too_holds_named_retries_up(world: World) -> None:
    world.settings(f"{SHORT}stuck_limit = 2\n")
    run = ("run", "x", "--command", world.script("agent", FAILS), "--max-retries", "5", "--json")
    told = result(piped(world, *run, code=3))
    assert (told["result_type"], told["spawn_count"]) == ("blocked", 2)


def test_retries_of_a_settings_file_lift_no_breaker(world: World) -> None:
    world.settings(f"{SHORT}max_retries = 50\n")
    run = ("run", "x", "--command", world.script("agent", FAILS), "--json")
    told = result(piped(world, *run, code=3))
    assert (told["result_type"], told["spawn_count"]) == ("blocked", 3)


# --- without a terminal it ends with 3, and says what to type ---------------------------------


@pytest.mark.parametrize(
    ("steps", "verify", "attempts", "says"),
    [
        (FAILS, (), 3, ("3 attempts in a row changed nothing", "loopwright guide agent-T001 TEXT")),
        ({"attempts": DIFFERS}, (), 3, ("changed nothing", "loopwright resume agent-T001")),
        (
            COMMITS_RED,
            ("echo seen at $(date +%s%N); exit 1",),
            5,
            ("failed alike 5 times", "guide"),
        ),
        ([ASK], (), 1, ("Blue or green?", "loopwright answer agent-T001 TEXT")),
        ([BLOCK], (), 1, ("a key: no key", "loopwright unblock agent-T001")),
    ],
    ids=["fails alike", "fails differently", "commits and stays red", "asks", "blocks"],
)
def test_without_a_terminal_a_run_that_only_a_person_can_move_on_ends_with_3(
    world: World, steps: Any, verify: tuple[str, ...], attempts: int, says: tuple[str, str]
) -> None:
    gates = [word for command in verify for word in ("--verify", command)]
    run = ("run", "x", "--command", world.script("agent", steps), *gates, "--json")
    told = result(piped(world, *run, code=3))
    assert (told["result_type"], told["spawn_count"]) == ("blocked", attempts)
    assert told["blocked_on"][0].startswith("person: ")
    for words in says:
        assert words in told["error"]
    again = result(piped(world, "run", "--task-id", "T001", "--json", code=3))
    assert again["spawn_count"] == attempts, "nobody has said anything since"


def test_what_is_waited_for_goes_on_in_the_next_run_once_a_person_has_spoken(world: World) -> None:
    agent = world.script("agent", {"attempts": {"1": [ASK], "default": [DONE]}})
    piped(world, "run", "x", "--command", agent, code=3)
    world.call("answer", "agent-T001", "blue")
    told = result(piped(world, "run", "--task-id", "T001", "--json", code=0))
    assert (told["result_type"], told["spawn_count"]) == ("task_complete", 2)


def test_up_ends_only_when_all_that_is_left_waits_for_people(world: World) -> None:
    asks = json.dumps(world.script("asks", [ASK]).split())
    slow = json.dumps(world.script("slow", [world.stamp("begin"), {"sleep": 1}, DONE]).split())
    blocks = json.dumps(
        world.script("blocks", [{"breakpoint": {"type": "blocked", "blocked_on": ["A"]}}]).split()
    )
    plan = (
        f"[agents.asks]\ncommand = {asks}\n[agents.slow]\ncommand = {slow}\n"
        f"[agents.blocks]\ncommand = {blocks}\n"
        '[[tasks]]\nid = "A"\nagent = "asks"\n[[tasks]]\nid = "B"\nagent = "slow"\n'
        '[[tasks]]\nid = "C"\nagent = "blocks"\n'
        '[[tasks]]\nid = "D"\nagent = "slow"\ndependencies = ["A"]\n'
    )
    told = result(piped(world, "up", world.plan(plan), "--json", code=3))
    kinds = {each["task_id"]: each["result_type"] for each in told["results"]}
    assert kinds == {"A": "blocked", "B": "task_complete", "C": "blocked", "D": "blocked"}
    assert [who for who, what, _ in world.stamps() if what == "begin"] == ["B"]


def test_who_is_answered_while_others_still_work_goes_on_in_the_same_up(world: World) -> None:
    asks = json.dumps(world.script("asks", {"attempts": {"1": [ASK], "default": [DONE]}}).split())
    slow = json.dumps(world.script("slow", [{"wait_file": str(world.folder / "go")}, DONE]).split())
    plan = (
        f"[agents.asks]\ncommand = {asks}\n[agents.slow]\ncommand = {slow}\n"
        '[[tasks]]\nid = "A"\nagent = "asks"\n[[tasks]]\nid = "B"\nagent = "slow"\n'
        '[[tasks]]\nid = "C"\nagent = "asks"\ndependencies = ["A"]\n'
    )
    with world.live("up", world.plan(plan), "--no-stay", "--json") as up:
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


@pytest.mark.parametrize("steps", [FAILS, [ASK], [BLOCK]], ids=["fails", "asks", "blocks"])
def test_on_a_terminal_a_person_is_waited_for(world: World, steps: Any) -> None:
    agent = world.script("agent", steps)
    with on_a_terminal(world, "run", "x", "--command", agent) as run:
        world.comes_to("Blocked" if steps == [BLOCK] else "AwaitingHuman")
        until_settled(run)
        world.call("reject", "agent-T001")
        assert run.wait(PATIENCE) == 6


def until_settled(run: subprocess.Popen[bytes]) -> None:
    """See that it goes on to wait, for as long as a call without a terminal takes to end."""
    end = time.monotonic() + 1.0
    until(lambda: run.poll() is not None or time.monotonic() > end, "a second is over")
    assert run.poll() is None


def test_no_stay_ends_it_on_a_terminal_too_and_stay_keeps_it_without_one(world: World) -> None:
    agent = world.script("agent", [ASK])
    with on_a_terminal(world, "run", "x", "--command", agent, "--no-stay") as run:
        assert run.wait(PATIENCE) == 3
    with world.live("run", "y", "--command", agent, "--stay") as live:
        world.comes_to("AwaitingHuman", "agent-T002")
        until_settled(live.process)


def test_a_setting_that_says_so_keeps_it_without_a_terminal(world: World) -> None:
    world.settings(f"{SHORT}stay_for_people = true\nblocked_timeout = 0.3\n")
    told = result(
        piped(world, "run", "x", "--command", world.script("a", [BLOCK]), "--json", code=3)
    )
    assert "blocked_timeout" in told["error"]


# --- red before any work ----------------------------------------------------------------------


def test_what_is_red_before_any_work_is_told_first_at_the_start_in_show_and_in_the_summary(
    world: World,
) -> None:
    agent = world.script("agent", COMMITS_RED)
    world.settings(f"{SHORT}same_gate_limit = 2\n")
    done = piped(world, "run", "x", "--command", agent, "--verify", "exit 7", code=3)
    red = done.stderr.index("agent-T001: red before any work: `exit 7` ended with code 7")
    assert red < done.stderr.index("agent-T001: works on branch")
    shown = world.call("show", "agent-T001").stdout.splitlines()
    assert shown[0] == "Red before any work: `exit 7`"
    assert "failed alike 2 times" in "\n".join(shown)
    assert "ended with code 7, as before any work" in done.stdout
    summaries = world.repo / ".loopwright" / "summaries" / "agent-T001"
    for attempt in (1, 2):
        text = (summaries / f"{attempt}.md").read_text()
        assert text.index("Red before any work") < text.index("What to do now")
