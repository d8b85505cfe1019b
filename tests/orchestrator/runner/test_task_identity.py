"""An id that is used again for another task: what was done never passes for what was not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.orchestrator.loopkit import ASK, DONE, SETTINGS

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World

PARSER = 'id = "T1"\ntitle = "Write the parser"'
OTHER = 'id = "T1"\ntitle = "Delete the tests"\nverify = ["false"]'
NEXT = 'id = "T2"\ndependencies = ["T1"]'


def _plan(world: World, name: str, script: object, *tasks: str) -> str:
    command = world.script("agent", script).split()
    tables = "\n".join(f"[[tasks]]\n{task}" for task in tasks)
    return world.plan(f"[agents.default]\ncommand = {command}\n{tables}", f"{name}.toml")


def _one(world: World) -> str:
    """Complete T1 of plan one."""
    plan = _plan(world, "one", [DONE], PARSER)
    world.json("up", plan)
    return plan


def _is_refused(world: World, plan: str, *words: str) -> None:
    told = world.call("up", plan, code=2).stderr
    for word in ("T1", "'Write the parser'", "another id", *words):
        assert word in told
    assert world.row("agent-T2") == {}, "nothing was started"


def test_a_task_of_another_plan_is_not_taken_for_done_because_its_id_is(world: World) -> None:
    one = _one(world)
    two = _plan(world, "two", [DONE], OTHER, NEXT)
    _is_refused(world, two, "of plan 'one'", "loopwright reject agent-T1")
    world.call("accept", "agent-T1")
    _is_refused(world, two, "of plan 'one'", "was completed and accepted")
    assert world.json("up", one)["exit_code"] == 0


def test_the_same_words_in_another_plan_are_another_task(world: World) -> None:
    _one(world)
    _is_refused(world, _plan(world, "two", [DONE], PARSER, NEXT), "of plan 'one'")


def test_a_task_in_other_words_is_not_taken_for_done_in_its_own_plan(world: World) -> None:
    one = _one(world)
    _is_refused(world, _plan(world, "one", [DONE], OTHER, NEXT), "is completed")
    _is_refused(world, _plan(world, "one", [DONE], f'{PARSER}\ndescription = "Fast"', NEXT))
    _plan(world, "one", [DONE], PARSER, NEXT)
    assert world.json("up", one)["exit_code"] == 0, "the same task as before may be there"
    assert world.row("agent-T2")["work_kind"] == "Completed"


def test_what_is_known_of_a_task_outlives_its_record(world: World) -> None:
    one = _one(world)
    world.call("accept", "agent-T1")
    world.settings(f"{SETTINGS}retention_hours = 0\n")
    world.call("up", one)
    assert world.row("agent-T1") == {}
    assert "Nothing to do" in world.call("up", one).stderr
    _is_refused(world, _plan(world, "two", [DONE], OTHER, NEXT), "of plan 'one'")
    _is_refused(world, _plan(world, "one", [DONE], OTHER, NEXT))
    told = world.call("run", "--task-id", "T1", "Something else", "--command", "true", code=2)
    assert "'Write the parser'" in told.stderr
    told = world.call("run", "--task-id", "T1", "--command", "true")
    assert "task T1 was completed before, nothing is run" in told.stderr


def test_the_id_of_a_task_that_a_person_rejected_is_free_for_another(world: World) -> None:
    _one(world)
    birth = world.json("show", "agent-T1")["lifecycle"]
    world.call("reject", "agent-T1")
    two = _plan(world, "two", [DONE], 'id = "T1"\ntitle = "Delete the tests"')
    assert world.json("up", two)["results"][0]["result_type"] == "task_complete"
    shown = world.json("show", "T1")
    assert shown["lifecycle"]["task"] == "Delete the tests"
    (earlier,) = shown["earlier"]
    assert earlier.startswith("agent-T1@")
    old = world.json("show", earlier)
    assert (old["lifecycle"]["record_state"], old["lifecycle"]["task"]) == (
        "rejected",
        "Write the parser",
    )
    assert old["lifecycle"]["created_at"] == birth["created_at"]
    assert [row["attempt"] for row in old["attempts"]] == [1]
    assert old["files"].keys() == shown["files"].keys()
    assert earlier in world.call("show", "T1").stdout
    for command in ("events", "logs"):
        assert world.json(command, earlier)
    listed = [row["agent_id"] for row in world.json("ps")["lifecycles"]]
    everything = [row["agent_id"] for row in world.json("ps", "--all")["lifecycles"]]
    assert (listed, everything) == (["agent-T1"], ["agent-T1", earlier])
    assert (
        "is an earlier lifecycle of agent-T1" in world.call("guide", earlier, "x", code=None).stderr
    )


def test_a_plan_leaves_what_a_person_rejected_alone_and_run_begins_it_again(world: World) -> None:
    plan = _one(world)
    world.call("reject", "agent-T1")
    assert world.json("up", plan, code=None)["results"][0]["result_type"] == "error"
    assert world.json("show", "T1")["earlier"] == []
    told = world.call("run", "--task-id", "T1")
    assert "was rejected by a person and begins again" in told.stderr
    shown = world.json("show", "T1")
    assert shown["lifecycle"]["record_state"] == "completed"
    assert len(shown["earlier"]) == 1


def test_run_refuses_other_words_and_says_when_it_runs_nothing(world: World) -> None:
    agent = world.script("agent", [world.stamp("begin"), DONE])
    world.call("run", "Do x", "--command", agent)
    told = world.call("run", "--task-id", "T001", "Do y", "--command", agent, code=2).stderr
    assert "'Do x'" in told
    told = world.call("run", "Do x", "--verify", "false", "--command", "true").stderr
    assert "T001 was completed before, nothing is run, --command, --verify changes" in told
    assert "loopwright guide agent-T001" in told
    assert len(world.stamps()) == 1


def test_an_unfinished_task_goes_on_in_the_words_that_its_plan_has_now(world: World) -> None:
    world.settings(f"{SETTINGS}blocked_timeout = 0.2\n")
    script = {"attempts": {"1": [ASK], "default": [DONE]}}
    world.json("up", _plan(world, "one", script, PARSER), code=3)
    told = world.call("up", _plan(world, "two", script, OTHER), code=2).stderr
    assert "is not finished" in told
    world.call("answer", "agent-T1", "green")
    edited = _plan(world, "one", script, 'id = "T1"\ntitle = "Write a fast parser"')
    assert world.json("up", edited)["exit_code"] == 0
    assert world.json("show", "agent-T1")["lifecycle"]["task"] == "Write a fast parser"
