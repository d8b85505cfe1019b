"""`loopwright up`: many loops in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.orchestrator.loopkit import ASK, DONE

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World


def _plan(command: str, *tasks: str) -> str:
    words = ", ".join(f'"{word}"' for word in command.split())
    return f"[agents.default]\ncommand = [{words}]\n" + "\n".join(
        f"[[tasks]]\n{task}" for task in tasks
    )


def test_no_more_agents_live_at_once_than_max_live(world: World) -> None:
    steps = [world.stamp("begin"), {"sleep": 0.2}, world.stamp("end"), DONE]
    plan = _plan(world.script("agent", steps), *(f'id = "T{n}"' for n in range(6)))
    found = world.json("up", world.plan(plan), "--max-live", "2")
    assert {each["result_type"] for each in found["results"]} == {"task_complete"}
    live = most = 0
    for _, what, _ in world.stamps():
        live += 1 if what == "begin" else -1
        most = max(most, live)
    assert most == 2
    assert len(world.stamps()) == 12


def test_dependencies_come_first_and_a_failure_blocks_only_its_dependents(world: World) -> None:
    good = world.script("good", [world.stamp("begin"), {"commit": "x"}, world.stamp("end"), DONE])
    bad = world.script("bad", [world.stamp("begin"), {"exit": 1}])
    world.settings("retry_interval = 0.05\nmax_retries = 2\nstop_grace = 0.3\n")
    plan = (
        _plan(
            good,
            'id = "LAST"\ndependencies = ["FIRST", "SECOND"]',
            'id = "FIRST"',
            'id = "SECOND"\ndependencies = ["FIRST"]',
            'id = "BAD"\nagent = "bad"',
            'id = "ONBAD"\ndependencies = ["BAD"]',
            'id = "ONONBAD"\ndependencies = ["ONBAD"]',
        )
        + "\n[agents.bad]\ncommand = ["
        + ", ".join(f'"{word}"' for word in bad.split())
        + "]\n"
    )
    found = world.json("up", world.plan(plan), code=5)
    results = {each["task_id"]: each for each in found["results"]}
    order = [who for who, what, _ in world.stamps() if what == "begin" and who != "BAD"]
    assert order == ["FIRST", "SECOND", "LAST"]
    assert results["BAD"]["result_type"] == "max_retries"
    assert results["ONBAD"]["result_type"] == results["ONONBAD"]["result_type"] == "blocked"
    assert "dependency BAD did not complete: max_retries" in results["ONBAD"]["error"]
    assert results["ONBAD"]["spawn_count"] == 0


def test_a_plan_that_cannot_be_run_is_refused_before_anything_starts(world: World) -> None:
    plan = _plan("true", 'id = "A"\ndependencies = ["B"]', 'id = "B"\ndependencies = ["A"]')
    done = world.call("up", world.plan(plan), code=2)
    assert "A -> B -> A" in done.stderr
    assert not (world.repo / ".loopwright").exists()


def test_up_goes_on_with_all_that_is_unfinished_and_leaves_alone_what_is_held(
    world: World,
) -> None:
    world.settings("blocked_timeout = 0.2\nstop_grace = 0.3\n")
    agent = world.script("agent", {"attempts": {"1": [ASK], "default": [DONE]}})
    world.json("up", world.plan(_plan(agent, 'id = "A"', 'id = "B"', 'id = "C"')), code=3)
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
    agent = world.script("agent", {"attempts": {"1": [ASK], "default": [DONE]}})
    with world.live("up", world.plan(_plan(agent, 'id = "A"', 'id = "B"')), "--json") as up:
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
    agent = world.script("agent", [DONE])
    (world.repo / "loopwright.plan.toml").write_text(_plan(agent, 'id = "A"\ntitle = "One"'))
    assert "agent-A" in world.call("up").stdout
    (world.repo / "loopwright.plan.toml").unlink()
    assert "Nothing to do" in world.call("up").stderr


def test_accepted_tasks_are_not_run_again_after_their_records_are_gone(world: World) -> None:
    agent = world.script("agent", [world.stamp("begin"), DONE])
    plan = world.plan(_plan(agent, 'id = "A"', 'id = "B"\ndependencies = ["A"]'))
    world.json("up", plan)
    world.call("accept", "agent-A")
    world.settings("retention_hours = 0\n")
    world.call("up", plan)
    assert world.row("agent-A") == {}
    world.json("up", plan)
    assert len(world.stamps()) == 2


def test_tasks_that_wait_for_each_other_are_for_a_person_at_once(world: World) -> None:
    def waits(name: str, other: str) -> str:
        word = {"breakpoint": {"type": "blocked", "blocked_on": [other]}}
        script = world.script(name, {"attempts": {"1": [word], "default": [DONE]}})
        words = ", ".join(f'"{part}"' for part in script.split())
        return f"[agents.{name}]\ncommand = [{words}]\n[[tasks]]\nid = '{name}'\nagent = '{name}'\n"

    plan = world.plan(waits("P", "Q") + waits("Q", "R") + waits("R", "P"))
    found = world.json("up", plan, code=3)
    errors = {each["task_id"]: each["error"] for each in found["results"]}
    assert "it waits in a circle: Q -> R -> P -> Q" in errors["Q"]
    assert all("in a circle" in error for error in errors.values())
    told = world.call("show", "agent-P", "--why").stdout
    assert "P -> Q -> R -> P" in told
    assert "loopwright unblock agent-P" in told
    world.call("unblock", "agent-R")
    assert world.json("up", plan)["exit_code"] == 0, "one that goes on takes the others along"
