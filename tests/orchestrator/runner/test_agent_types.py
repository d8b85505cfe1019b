"""Types of agents in a plan: what follows when one is done or fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.orchestrator.loopkit import ASK, DONE, until

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World

FAILS = [{"exit": 1}]
SHUTS_DOWN: dict[str, object] = {"on_error": "shutdown"}
WORKS = [{"write": "a"}, {"commit": "A"}, DONE]


def plan(world: World, lead: dict[str, object], first: object, **others: object) -> str:
    """Write a plan of task A, which is of the type `lead`, and of others without a type."""
    scripts = {"A": first, **others}
    tasks: dict[str, dict[str, object]] = {name: {"max_retries": 0} for name in scripts}
    tasks["A"]["type"] = "lead"
    return world.plan_of(scripts, tasks, types={"lead": lead})


def waits_then(world: World, *then: object) -> list[object]:
    """Do something once the file `go` is there."""
    return [{"wait_file": str(world.folder / "go")}, *then]


def test_one_that_may_not_fail_shuts_everything_down_with_its_work_saved(world: World) -> None:
    hangs = [{"write": "b"}, {"hang": True}]
    both = plan(world, SHUTS_DOWN, waits_then(world, {"exit": 1}), B=hangs)
    with world.live("up", both, "--no-server") as up:
        until((world.workspace("agent-B") / "b").exists, "it is at work")
        (world.folder / "go").touch()
        up.ends(5)
        assert "agent-A: failed: everything is shut down, as its type says" in up.err
    assert world.row("agent-A")["work_kind"] == "Rejected"
    assert world.row("agent-B")["work_kind"] == "BackingOff"
    assert "b" in world.git("ls-tree", "--name-only", "refs/loopwright/saved/agent-B/1").split()


def test_one_whose_end_is_all_that_counts_shuts_everything_down_when_it_is_done(
    world: World,
) -> None:
    lead: dict[str, object] = {"on_done": "shutdown"}
    with world.live("up", plan(world, lead, waits_then(world, *WORKS), B=[ASK])) as up:
        world.comes_to("AwaitingHuman", "agent-B")
        (world.folder / "go").touch()
        up.ends(3)
        assert "agent-A: is done: everything is shut down, as its type says" in up.err
    assert world.row("agent-A")["work_kind"] == "Completed"


def test_a_task_that_failed_goes_back_into_the_queue_and_a_fresh_agent_takes_it(
    world: World,
) -> None:
    once = {"attempts": {"1": FAILS, "default": WORKS}}
    world.call("up", plan(world, {"on_error": "requeue"}, once), "--no-server")
    row = world.row("agent-A")
    assert (row["work_kind"], row["spawn_count"]) == ("Completed", 2)
    resumed = [
        (each["actor"], each["outcome"])
        for each in world.json("audit", "list")
        if each["action"] == "resume"
    ]
    assert resumed == [("the policy of lead", "done")]


def test_a_task_goes_back_into_the_queue_no_more_often_than_its_type_allows(world: World) -> None:
    lead: dict[str, object] = {"on_error": "requeue", "requeues": 2}
    world.call("up", plan(world, lead, FAILS), "--no-server", code=5)
    row = world.row("agent-A")
    assert (row["work_kind"], row["spawn_count"]) == ("Rejected", 3)


def test_what_a_person_rejects_is_not_a_failure(world: World) -> None:
    with world.live("up", plan(world, SHUTS_DOWN, [ASK], B=[ASK])) as up:
        world.comes_to("AwaitingHuman", "agent-A")
        world.comes_to("AwaitingHuman", "agent-B")
        world.call("reject", "agent-A")
        world.call("answer", "agent-B", "blue")
        assert up.process.poll() is None
        world.call("reject", "agent-B")
        up.ends(6)
        assert "shut down" not in up.err


def test_the_type_of_a_recorded_lifecycle_counts_also_without_its_plan(world: World) -> None:
    script = {"attempts": {"1": [ASK], "default": FAILS}}
    world.call("up", plan(world, SHUTS_DOWN, script, B=[ASK]), "--no-server", "--no-stay", code=3)
    world.call("answer", "agent-A", "blue")
    said = world.call("up", "--no-server", "--stay", code=5).stderr
    assert "agent-A: failed: everything is shut down, as its type says" in said
