"""`loopwright up` with agents that are blocked on tasks of their plan, with local CI beside."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from ci.local.ledger import BUILDS
from lifecycle.errors import StoreError
from lifecycle.store.plain_queries import read_documents
from tests.orchestrator.loopkit import DONE, SETTINGS, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.orchestrator.loopkit import World

LOCAL_CI = SETTINGS + 'test_command = "true"\n'


def blocked(*names: str, reason: str = "its schema is missing") -> dict[str, object]:
    """Return the step that signals a block."""
    return {"breakpoint": {"type": "blocked", "blocked_on": list(names), "reason": reason}}


def after(task: str, *others: str) -> dict[str, dict[str, object]]:
    """Make a task of a plan depend on others."""
    return {task: {"dependencies": list(others)}}


def once(*names: str) -> dict[str, object]:
    """Be blocked on these in the first attempt, and done in the next."""
    return {"attempts": {"1": [blocked(*names)], "default": [DONE]}}


def prompt(world: World, agent_id: str, attempt: int) -> str:
    """Return what the agent of that attempt was told."""
    return (world.repo / f".loopwright/summaries/{agent_id}/{attempt}.prompt.md").read_text()


def committed(name: str) -> list[dict[str, object]]:
    return [{"write": {"path": name, "text": "x\n"}}, {"commit": f"Add {name}"}]


def go(world: World) -> Path:
    return world.folder / "go"


def test_a_block_on_a_running_task_outlasts_the_build_of_its_own_commit(world: World) -> None:
    world.settings(LOCAL_CI)
    slow = [{"wait_file": str(go(world))}, *committed("schema.txt"), DONE]
    waits = {
        "attempts": {
            "1": [*committed("own.txt"), blocked("T000")],
            "default": [{"run": ["test", "-f", "schema.txt"]}, DONE],
        }
    }
    with world.live("up", world.plan_of({"T000": slow, "T001": waits}), "--json") as up:
        world.comes_to("Blocked")
        until(lambda: built(world) == 1, "its own commit was built")
        assert world.row()["work_kind"] == "Blocked"
        assert "T000 completes (said by the agent)" in world.call("show", "T001", "--why").stdout
        go(world).touch()
        up.ends(0)
    assert world.row()["spawn_count"] == 2
    told = prompt(world, "agent-T001", 2)
    assert "task T000 completed and its work is merged into your branch" in told
    assert "its schema is missing" in told
    summary = (world.repo / ".loopwright/summaries/agent-T001/2.md").read_text()
    assert "T000" in summary
    assert "cleared" not in summary
    assert "CI is green" not in told
    shown = world.call("show", "T001").stdout
    assert "T000 (said by the agent)" in shown
    record = world.json("show", "T001")["lifecycle"]
    assert record["changed_files"] == ["own.txt"], "what it waited for is not its own work"


@pytest.mark.parametrize("settings", [SETTINGS, LOCAL_CI], ids=["no CI", "local CI"])
def test_one_attempt_follows_each_thing_that_really_happened(world: World, settings: str) -> None:
    world.settings(f"{settings}max_live_agents = 12\n")
    has_ci = settings is LOCAL_CI
    waits = {
        "RUNNING": (committed("a.txt"), ["SLOW"]),
        "NAMED": ([], ["agent-SLOW"]),
        "QUEUED": (committed("b.txt"), ["NEXT"]),
        "READY": ([], ["FAST"]),
        "ABSENT": (committed("c.txt"), ["T999"]),
        "WORDS": (committed("d.txt"), ["a key"]),
        "MIXED": (committed("e.txt"), ["SLOW", "a key"]),
        "CI": (committed("f.txt"), ["the CI run"]),
    }
    scripts: dict[str, object] = {
        name: {"attempts": {"1": [*before, blocked(*names)], "default": [DONE]}}
        for name, (before, names) in waits.items()
    }
    slow = [{"wait_file": str(go(world))}, *committed("slow.txt"), DONE]
    scripts |= {"FAST": [*committed("fast.txt"), DONE], "SLOW": slow}
    scripts["NEXT"] = [*committed("next.txt"), DONE]
    plan = world.plan_of(scripts, after("NEXT", "SLOW"))

    def agent(name: str) -> str:
        return f"agent-{name}"

    with world.live("up", plan, "--json") as up:
        for name in waits:
            if name not in {"READY", "CI"}:
                world.comes_to("Blocked", agent(name))
        world.comes_to("Completed", agent("READY"))
        world.comes_to("Completed" if has_ci else "Blocked", agent("CI"))
        if has_ci:
            until(lambda: built(world) >= 5, "each commit was built")
        still = set(waits) - {"READY"} - ({"CI"} if has_ci else set())
        assert {name: world.row(agent(name))["work_kind"] for name in still} == dict.fromkeys(
            still, "Blocked"
        )
        go(world).touch()
        for name in ("RUNNING", "NAMED", "QUEUED"):
            world.comes_to("Completed", agent(name))
        still -= {"RUNNING", "NAMED", "QUEUED"}
        assert {world.row(agent(name))["work_kind"] for name in still} == {"Blocked"}
        for name in still:
            world.call("unblock", agent(name), "here it is")
        up.ends(0)
    assert {name: world.row(agent(name))["spawn_count"] for name in waits} == dict.fromkeys(
        waits, 2
    )
    merged = "and its work is merged into your branch"
    joined = {**dict.fromkeys(("RUNNING", "NAMED", "MIXED"), "SLOW"), "QUEUED": "NEXT"}
    for name, task in {**joined, "READY": "FAST"}.items():
        assert f"task {task} completed {merged}" in prompt(world, agent(name), 2)
        assert f"Add {task.lower()}.txt" in world.git("log", "--format=%s", f"agent/{agent(name)}")
    for name in still:
        assert "unblocked it: here it is" in prompt(world, agent(name), 2)
    if has_ci:
        assert "CI is green (build_success)" in prompt(world, agent("CI"), 2)


def test_who_is_blocked_again_on_work_that_it_has_is_for_a_person(world: World) -> None:
    world.settings(LOCAL_CI)
    always = [*committed("own.txt"), blocked("T000")]
    plan = world.plan_of({"T000": [*committed("x.txt"), DONE], "T001": always})
    found = world.json("up", plan, code=3)
    result = {each["task_id"]: each for each in found["results"]}["T001"]
    assert (result["result_type"], result["spawn_count"]) == ("blocked", 2)
    assert result["blocked_on"] == ["T000"]
    assert "blocked on T000, which is complete and part of its branch" in result["error"]
    told = world.call("show", "T001", "--why").stdout
    assert "complete and part of its branch" in told
    assert "loopwright unblock agent-T001" in told
    world.call("accept", "T000")
    world.json("up", plan, code=3)
    assert world.row()["spawn_count"] == 2, "to start a runner again is no answer"
    assert "loopwright unblock agent-T001" in world.call("show", "T001", "--why").stdout
    world.call("unblock", "T001", "look into x.txt")
    world.json("up", plan, code=3)
    assert world.row()["spawn_count"] == 3


def test_a_dependency_of_the_plan_that_is_named_once_more_is_for_a_person(world: World) -> None:
    scripts = {"T000": [*committed("x.txt"), DONE], "T001": [blocked("T000")]}
    plan = world.plan_of(scripts, after("T001", "T000"))
    found = world.json("up", plan, code=3)
    result = {each["task_id"]: each for each in found["results"]}["T001"]
    assert (result["spawn_count"], result["result_type"]) == (1, "blocked")
    assert "complete and part of its branch" in result["error"]


def test_a_block_on_a_task_that_fails_is_for_a_person_at_once_and_a_completion_counts(
    world: World,
) -> None:
    world.settings(f"{SETTINGS}max_retries = 1\n")
    fails = {"attempts": {"1": [{"exit": 1}], "2": [{"exit": 1}], "default": [DONE]}}
    plan = world.plan_of({"T000": fails, "T001": once("T000")})
    found = world.json("up", plan, code=None)
    result = {each["task_id"]: each for each in found["results"]}["T001"]
    assert (result["spawn_count"], result["result_type"]) == (1, "blocked")
    told = "blocked on T000, which did not complete: 1 of 1 retries used"
    assert told in result["error"]
    world.settings(f"{SETTINGS}max_retries = 5\n")
    assert world.json("up", plan)["exit_code"] == 0
    assert world.row()["spawn_count"] == 2
    assert "task T000 completed" in prompt(world, "agent-T001", 2)


def test_those_who_wait_for_one_another_are_for_a_person_at_once_and_all_are_named(
    world: World,
) -> None:
    circles = {"P": once("agent-Q"), "Q": once("R"), "R": once("agent-P")}
    scripts = {**circles, "FIRST": once("LATER"), "LATER": [DONE]}
    plan = world.plan_of(scripts, after("LATER", "FIRST"))
    found = world.json("up", plan, code=3)
    errors = {each["task_id"]: each["error"] for each in found["results"]}
    assert "it waits in a circle: P -> Q -> R -> P" in errors["P"]
    assert "it waits in a circle: Q -> R -> P -> Q" in errors["Q"]
    assert "in a circle: FIRST -> LATER -> FIRST" in errors["FIRST"]
    assert "FIRST" in errors["LATER"]
    assert {each["spawn_count"] for each in found["results"]} == {0, 1}
    told = world.call("show", "agent-P", "--why").stdout
    assert "P -> Q -> R -> P" in told
    assert "loopwright unblock agent-P" in told
    for agent_id in ("agent-R", "agent-FIRST"):
        world.call("unblock", agent_id)
    assert world.json("up", plan)["exit_code"] == 0, "one that goes on takes the others along"


def test_a_circle_that_a_person_opened_is_not_told_of_any_more(world: World) -> None:
    plan = world.plan_of({"P": once("Q", "a key"), "Q": once("P")})
    world.json("up", plan, code=3)
    world.call("unblock", "Q", "go without it")
    found = world.call("up", plan, code=3)
    assert "blocked on Q, a key: its schema is missing" in found.stdout
    assert "circle" not in found.stdout
    assert "Next: loopwright review" in found.stdout
    why = world.call("show", "P", "--why").stdout
    assert "its schema is missing" in why
    assert "circle" not in why


def test_who_names_its_own_task_is_told_that_nothing_could_ever_unblock_it(world: World) -> None:
    plan = world.plan_of({"T001": once("T001"), "T002": once("agent-T002")})
    assert world.json("up", plan)["exit_code"] == 0
    for agent_id in ("agent-T001", "agent-T002"):
        assert "is this very task" in prompt(world, agent_id, 2)
        assert world.row(agent_id)["spawn_count"] == 2


def test_work_that_was_waited_for_is_accepted_first(world: World) -> None:
    waits = {"attempts": {"1": [blocked("T000")], "default": [*committed("own.txt"), DONE]}}
    plan = world.plan_of({"T001": waits, "T000": [*committed("x.txt"), DONE]})
    world.json("up", plan)
    refused = world.call("accept", "T001", code=None)
    assert refused.code != 0
    assert "holds work of agent-T000" in refused.stdout + refused.stderr
    done = world.call("accept", "T001", "T000")
    assert done.stdout.index("agent-T000") < done.stdout.index("agent-T001")
    assert (world.repo / "own.txt").exists()
    assert (world.repo / "x.txt").exists()


@pytest.mark.parametrize("on_conflict", ["agent", "ask"])
def test_work_that_does_not_go_together_goes_the_way_of_conflicts(
    world: World, on_conflict: str
) -> None:
    world.settings(f'{SETTINGS}on_conflict = "{on_conflict}"\n')
    finish = [
        {"run": ["sh", "-c", "grep -q '<<<<<<<' a.txt && git rev-parse -q --verify MERGE_HEAD"]},
        {"write": {"path": "a.txt", "text": "both\n"}},
        {"commit": "Take both"},
        DONE,
    ]
    own = [{"write": {"path": "a.txt", "text": "own\n"}}, {"commit": "Own a.txt"}]
    waits = {"attempts": {"1": [*own, blocked("T000")], "default": finish}}
    slow = [{"wait_file": str(go(world))}, *committed("a.txt"), DONE]
    plan = world.plan_of({"T000": slow, "T001": waits})
    with world.live("up", plan, "--json") as up:
        world.comes_to("Blocked")
        go(world).touch()
        up.ends(0 if on_conflict == "agent" else 3)
    if on_conflict == "ask":
        assert "does not go together" in world.call("show", "T001", "--why").stdout
        world.call("unblock", "T001", "let an agent do it")
        world.json("up", plan)
    assert world.row()["work_kind"] == "Completed"
    assert world.row()["spawn_count"] == 2
    assert "These files hold markers" in prompt(world, "agent-T001", 2)
    assert "is merged into your branch" not in prompt(world, "agent-T001", 2)


def built(world: World) -> int:
    """Count the commits on which local CI came to a verdict."""
    with suppress(StoreError):
        database = world.repo / ".loopwright" / "state.db"
        builds = read_documents(database, BUILDS).values()
        return sum(build["finished_at"] is not None for build in builds)
    return 0
