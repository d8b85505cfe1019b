"""`loopwright up`: many loops in one process."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

from tests.orchestrator.loopkit import ASK, BLOCK, DONE

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World

ASKS = {"attempts": {"1": [ASK], "default": [DONE]}}


def test_no_more_agents_live_at_once_than_max_live(world: World) -> None:
    there = world.folder / "there"
    there.mkdir()
    two = f"until [ $(ls {there} | wc -l) -ge 2 ]; do sleep 0.02; done"
    meet = ["timeout", "60", "sh", "-c", f"touch {there}/$LOOPWRIGHT_TASK_ID; {two}"]
    steps = [world.stamp("begin"), {"run": meet}]
    steps += [world.stamp("end"), DONE]
    plan = world.plan_of({f"T{number}": steps for number in range(6)})
    found = world.json("up", plan, "--max-live", "2")
    assert {each["result_type"] for each in found["results"]} == {"task_complete"}
    live = most = 0
    for _, what, _ in world.stamps():
        live += 1 if what == "begin" else -1
        most = max(most, live)
    assert most == 2
    assert len(world.stamps()) == 12


def test_dependencies_come_first_and_a_failure_blocks_only_its_dependents(world: World) -> None:
    good = [world.stamp("begin"), {"commit": "x"}, world.stamp("end"), DONE]
    bad = [world.stamp("begin"), {"exit": 1}]
    world.settings("retry_interval = 0.05\nmax_retries = 2\nstop_grace = 0.3\n")
    needs = {
        "LAST": ["FIRST", "SECOND"], "SECOND": ["FIRST"], "ONBAD": ["BAD"], "ONONBAD": ["ONBAD"],
    }  # fmt: skip
    names = ("LAST", "FIRST", "SECOND", "BAD", "ONBAD", "ONONBAD")
    scripts = {name: bad if name == "BAD" else good for name in names}
    tasks = {name: {"dependencies": before} for name, before in needs.items()}
    found = world.json("up", world.plan_of(scripts, tasks), code=5)
    results = {each["task_id"]: each for each in found["results"]}
    order = [who for who, what, _ in world.stamps() if what == "begin" and who != "BAD"]
    assert order == ["FIRST", "SECOND", "LAST"]
    assert results["BAD"]["result_type"] == "max_retries"
    assert results["ONBAD"]["result_type"] == results["ONONBAD"]["result_type"] == "blocked"
    assert "dependency BAD did not complete: 2 of 2 retries used" in results["ONBAD"]["error"]
    assert results["ONBAD"]["spawn_count"] == 0


def test_what_is_typed_holds_for_tasks_to_which_the_plan_gives_nothing_else(world: World) -> None:
    steps = {"attempts": {"default": [{"commit": "x"}, DONE]}}
    plan = world.plan_of({"OWN": steps, "NONE": steps}, {"OWN": {"verify": ["true"]}})
    typed = ("--verify", "false", "--max-attempts", "2", "--setup", "touch set-up")
    found = world.json("up", plan, *typed, "--no-server", code=5)
    ended = {each["task_id"]: each for each in found["results"]}
    assert ended["OWN"]["result_type"] == "task_complete"
    assert (ended["NONE"]["result_type"], ended["NONE"]["spawn_count"]) == ("max_retries", 2)
    said = world.call("up", plan, "--model", "m1", code=2).stderr
    assert 'write the model there: adapter = "NAME:m1"' in said or "--agent NAME:m1" in said


def test_the_last_words_count_what_waits_and_name_where_it_is_decided(world: World) -> None:
    scripts = {"A": [DONE], "B": [DONE], "C": ASKS, "D": [{"exit": 1}], "E": [BLOCK]}
    plan = world.plan_of(scripts, {"D": {"max_retries": 0}})
    said = world.call("up", plan, "--no-server", code=5).stdout
    assert said.splitlines()[-2:] == [
        "2 done, 2 needs you, 1 given up: wait for your decision.",
        "Next: loopwright review   (in the browser: loopwright serve, and its link)",
    ]
    # The table above spells each as it is counted here.
    assert re.findall(r"^agent-(\w) +\w +(done|needs you|given up) ", said, re.MULTILINE) == [
        ("A", "done"), ("B", "done"), ("C", "needs you"), ("D", "given up"), ("E", "needs you"),
    ]  # fmt: skip


def test_up_ends_when_all_waits_for_decisions_also_where_it_waits_for_people(world: World) -> None:
    plan = world.plan_of({"A": [DONE], "B": [DONE]})
    said = world.call("up", plan, "--stay", "--port", "0").stdout
    assert "2 done: wait for your decision." in said


def test_a_plan_that_cannot_be_run_is_refused_before_anything_starts(world: World) -> None:
    tasks = {"A": {"dependencies": ["B"]}, "B": {"dependencies": ["A"]}}
    done = world.call("up", world.plan_of({"A": [DONE], "B": [DONE]}, tasks), code=2)
    assert "A -> B -> A" in done.stderr
    assert not (world.repo / ".loopwright").exists()


def test_up_goes_on_with_all_that_is_unfinished_and_leaves_alone_what_is_held(
    world: World,
) -> None:
    world.settings("blocked_timeout = 0.2\nstop_grace = 0.3\n")
    world.json("up", world.plan_of(dict.fromkeys("ABC", ASKS)), code=3)
    world.call("answer", "agent-A", "green")
    world.call("answer", "agent-B", "green")
    world.call("pause", "agent-B")
    found = world.json("up", code=3)
    results = {each["task_id"]: each["result_type"] for each in found["results"]}
    assert results == {"A": "task_complete", "C": "blocked"}
    assert found["held"] == ["agent-B"]
    assert world.row("agent-B")["spawn_count"] == 1
    world.call("resume", "agent-B")
    world.call("answer", "agent-C", "blue")
    assert world.json("up")["held"] == []
    assert world.row("agent-B")["work_kind"] == "Completed"


def test_a_held_lifecycle_that_is_resumed_while_up_runs_runs_again(world: World) -> None:
    with world.live("up", world.plan_of(dict.fromkeys("AB", ASKS)), "--json") as up:
        world.comes_to("AwaitingHuman", "agent-A")
        world.comes_to("AwaitingHuman", "agent-B")
        world.call("stop", "agent-A")
        world.comes_to("Suspended", "agent-A")
        assert "is still stopped" in world.call("answer", "agent-A", "green").stdout
        world.call("resume", "agent-A")
        world.comes_to("Completed", "agent-A")
        world.call("answer", "agent-B", "green")
        up.ends(0)


def test_without_a_plan_it_takes_the_one_at_the_top_of_the_repository(world: World) -> None:
    top = world.repo / "loopwright.plan.json"
    shutil.copy(world.plan_of({"A": [DONE]}), top)
    assert "agent-A" in world.call("up").stdout
    top.unlink()
    assert "Nothing to do" in world.call("up").stderr
