"""The base moves only to files that were judged green; what is red goes back to an agent."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.orchestrator.loopkit import ASK, DONE, SETTINGS, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.orchestrator.loopkit import Live, World

CHECK = 'verify = ["sh check.sh"]\n'
"""Each name that a *.use file holds must stand in names."""


def sh(text: str) -> dict[str, Any]:
    return {"run": ["sh", "-c", text]}


RENAME = [sh("sed -i s/add/plus/ names"), {"commit": "rename add to plus"}]
USE = [sh("echo add > u.use"), {"commit": "use add"}]
MEND = [sh("echo plus > u.use"), {"commit": "use plus"}]


@pytest.fixture
def checked(world: World) -> World:
    (world.repo / "names").write_text("add\n")
    (world.repo / "check.sh").write_text(
        'for n in $(cat *.use 2>/dev/null); do grep -qx "$n" names || { echo "no $n"; exit 1; }; '
        "done\n"
    )
    world.settings(SETTINGS + CHECK)
    world.git("add", "-A")
    world.git("commit", "-qm", "Names and their check")
    return world


def up(world: World, scripts: dict[str, object]) -> None:
    world.call("up", world.plan_of(scripts))


@contextmanager
def merging_slowly(world: World, *others: str) -> Iterator[tuple[Live, Live, Path]]:
    """Give a runner, an accept of B whose verify command waits for a file, and that file."""
    gate = world.folder / "gate"
    held = f"test -e a -a ! -e {gate} && test -e b -o -e c -o -e d"
    slow = f'verify = ["while {held}; do sleep 0.05; done"]\n'
    world.settings(SETTINGS + "baseline = false\n" + slow)
    scripts: dict[str, object] = {"W": [ASK]}
    for name in ("A", "B", *others):
        scripts[name] = [sh(f"echo x > {name.lower()}"), {"commit": name}, DONE]
    with world.live("up", world.plan_of(scripts)) as runner:
        for name in ("A", "B", *others):
            world.comes_to("Completed", f"agent-{name}")
        world.comes_to("AwaitingHuman", "agent-W")
        world.call("accept", "agent-A")
        with world.live("accept", "agent-B") as accept:
            until(lambda: world.row("agent-B")["work"]["merging"], "it merges")
            yield runner, accept, gate


def test_two_green_tasks_do_not_make_the_base_red(checked: World) -> None:
    world = checked
    prompt = world.folder / "prompt"
    second = {"1": [*USE, DONE], "2": [{"read_prompt": str(prompt)}, *MEND, DONE]}
    up(world, {"R": [*RENAME, DONE], "U": {"attempts": second}})
    world.call("accept", "agent-R")
    before = world.git("rev-parse", "main")
    # It is answered when it is decided, however long it might have waited.
    done = world.call("accept", "agent-U", "--wait", "600", code=3)
    assert "agent/agent-U merged into main is red: `sh check.sh` ended with code 1" in done.stdout
    assert "does not work together with agent-R" in done.stdout
    assert world.git("rev-parse", "main") == before
    assert world.row("agent-U")["work_kind"] == "BackingOff"
    world.call("up")
    told = prompt.read_text()
    assert "no add" in told
    assert f"agent-R ({before[:7]})" in told
    assert "rename add to plus" in told
    assert world.row("agent-U")["work_kind"] == "Completed"
    assert world.git("rev-parse", "main") == before
    shown = world.call("show", "agent-U").stdout
    assert "u.use" in shown
    assert "resolves" in shown
    world.call("accept", "agent-U")
    assert world.git("show", "main:u.use") == "plus"


def test_a_red_merge_waits_for_a_person_who_may_merge_without_the_verify_commands(
    checked: World,
) -> None:
    checked.settings(SETTINGS + CHECK + 'on_conflict = "ask"\n')
    up(checked, {"R": [*RENAME, DONE], "U": [*USE, DONE]})
    checked.call("accept", "agent-R")
    assert "is red" in checked.call("accept", "agent-U", code=3).stdout
    row = checked.row("agent-U")
    assert row["work_kind"] == "Completed"
    assert "does not work together with agent-R" in row["error"]
    checked.call("accept", "agent-U", "--no-verify")
    assert checked.git("show", "main:u.use") == "add"


def test_only_files_that_were_not_judged_before_are_judged_at_the_merge(checked: World) -> None:
    runs = checked.folder / "runs"
    checked.settings(SETTINGS + f'baseline = false\nverify = ["echo x >> {runs}; sh check.sh"]\n')
    up(checked, {"A": [sh("echo a > a"), {"commit": "A"}, DONE],
                 "B": [sh("echo b > b"), {"commit": "B"}, DONE]})  # fmt: skip
    count = len(runs.read_text().split())
    checked.call("accept", "agent-A")
    assert len(runs.read_text().split()) == count
    checked.call("accept", "agent-B")
    assert len(runs.read_text().split()) == count + 1


def test_all_takes_what_is_green_in_order_and_names_what_it_leaves(checked: World) -> None:
    flagged = [sh("echo 1 > test_x.py"), {"commit": "T"}, DONE]
    scripts: dict[str, object] = {
        "A": [sh("echo a > a"), {"commit": "A"}, DONE], "F": flagged, "R": [*RENAME, DONE],
        "U": [*USE, DONE],
    }  # fmt: skip
    up(checked, scripts)
    found = checked.json("accept", "--all", code=3)["results"]
    by = {each["agent_id"]: each for each in found}
    assert "test_x.py" in by["agent-F"]["text"]
    merged = {name for name, each in by.items() if each["state"] == "accepted"}
    assert "agent-A" in merged
    assert len(merged & {"agent-R", "agent-U"}) == 1
    assert checked.row("agent-F")["work_kind"] == "Completed"
    checked.call("accept", "F", "agent-nobody", code=2)
    assert checked.call("accept", "F").stdout.startswith("agent-F: accepted, merged into main")


def test_other_work_goes_on_while_a_merge_is_verified(checked: World) -> None:
    with merging_slowly(checked, "C") as (_, accept, gate):
        assert "paused" in checked.call("pause", "agent-W").stdout
        assert "rejected" in checked.call("reject", "agent-C").stdout
        gate.touch()
        accept.ends(0)


def test_a_runner_that_shuts_down_does_not_wait_for_a_merge_that_is_verified(
    checked: World,
) -> None:
    with merging_slowly(checked) as (runner, _, gate):
        runner.signal(signal.SIGINT)
        runner.ends(130)
    assert checked.row("agent-B")["work"]["merging"]
    gate.touch()
    checked.call("accept", "agent-B")
    assert checked.git("show", "main:b") == "x"


def test_merges_that_wait_for_their_turn_are_left_to_the_next_runner(checked: World) -> None:
    with merging_slowly(checked, "C", "D") as (runner, _, gate):
        with checked.live("accept", "agent-C"), checked.live("accept", "agent-D"):
            rows = ("agent-C", "agent-D")
            until(lambda: all(checked.row(each)["work"]["merging"] for each in rows), "they wait")
            runner.signal(signal.SIGINT)
            runner.ends(130)
        assert all(checked.row(f"agent-{name}")["work"]["merging"] for name in "BCD")
        gate.touch()


OPENED = {"breakpoint": {"type": "pr_created", "summary": "look"}}


def test_a_pull_request_that_would_make_the_base_red_goes_back_to_its_agent(
    checked: World,
) -> None:
    world = checked
    world.settings(SETTINGS + 'auto_merge = true\ntest_command = "sh check.sh"\n')
    go, prompt = world.folder / "go", world.folder / "prompt"
    first = {"1": [*RENAME, OPENED], "default": [DONE]}
    second = {
        "1": [{"wait_file": str(go)}, *USE, OPENED],
        "2": [{"read_prompt": str(prompt)}, sh("git rev-parse -q --verify MERGE_HEAD"), *MEND,
              OPENED],
        "default": [DONE],
    }  # fmt: skip
    with world.live("up", world.plan_of({"R": {"attempts": first}, "U": {"attempts": second}})):
        world.comes_to("Completed", "agent-R")
        go.touch()
        world.comes_to("Completed", "agent-U")
    assert "no add" in prompt.read_text()
    assert "rename add to plus" in prompt.read_text()
    assert world.row("agent-U")["retry_count"] == 0
    for commit in world.git("rev-list", "--first-parent", "main").split()[:-1]:
        world.git("checkout", "--quiet", "--detach", commit)
        world.git("-c", "alias.check=!sh check.sh", "check")


def test_a_person_is_told_that_what_comes_of_a_pull_request_is_red(checked: World) -> None:
    world = checked
    world.settings(
        SETTINGS + 'pr_merge_timeout = 0.5\ntest_command = "sh check.sh"\n'
        'on_conflict = "ask"\nblocked_timeout = 0.5\n'
    )
    scripts: dict[str, object] = {"R": [*RENAME, OPENED], "U": [*USE, OPENED]}
    world.call("up", world.plan_of(scripts), code=None)
    listed = {pull["branch"]: str(pull["number"]) for pull in world.json("pr")["pull_requests"]}
    first, second = listed["agent/agent-R"], listed["agent/agent-U"]
    assert "is merged as" in world.call("pr", "merge", first).stdout
    refused = world.call("pr", "merge", second, code=3).stdout
    assert f"merged into main as it is now, pull request {second} is red" in refused
    assert "is merged as" in world.call("pr", "merge", second, "--no-verify").stdout
