"""Verify commands judge what the agent says it has done."""

from __future__ import annotations

import pytest

from lifecycle.machine.states import Completed
from lifecycle.result import LoopResultType
from tests.lifecycle.world import AGENT, DONE, Step, World, commit


async def test_red_gates_wake_a_fresh_attempt_with_the_failing_output(world: World) -> None:
    gate = "test -f y.txt || { echo 'y.txt is missing, says the gate'; exit 3; }"
    result = await world.run(
        {1: [*commit("x.txt"), DONE], 2: [*commit("y.txt"), DONE]}, task=world.task(verify=[gate])
    )
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 1)
    assert await world.outcomes() == ["gate_failed", "task_complete"]
    assert "y.txt is missing, says the gate" in world.prompt(2)
    assert gate in world.prompt(2)


async def test_a_gate_that_takes_too_long_is_red(world: World) -> None:
    result = await world.run(
        [*commit("x.txt"), DONE], task=world.task(verify=["sleep 600"]), gate_timeout=0.3,
        max_retries=0, baseline=False,
    )  # fmt: skip
    assert result.result_type is LoopResultType.MAX_RETRIES
    assert "ran out of time" in str(result.error)
    assert world.marked() == []


async def test_uncommitted_files_refuse_completion_by_name(world: World) -> None:
    result = await world.run(
        {1: [{"write": {"path": "forgotten.txt", "text": "x"}}, DONE], 2: [{"commit": "it"}, DONE]},
        task=world.task(verify=["test -f forgotten.txt"]),
    )
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 1)
    first, second = await world.attempts()
    assert "forgotten.txt" in first.error
    assert "not committed" in world.prompt(2)
    assert second.outcome == "task_complete"


@pytest.mark.parametrize("verify", [["test -f app/main.py"], []])
async def test_a_repository_whose_files_are_in_no_commit_refuses_completion_and_says_what_to_do(
    world: World, verify: list[str]
) -> None:
    nest = (
        "git init -q app && cd app && echo 1 > main.py && git add . && git commit -qm a && cd .. "
        "&& git add -A && git commit -qm app"
    )
    mend = "rm -rf app/.git && git rm -q --cached app && git add app && git commit -qm files"
    result = await world.run(
        {1: [{"run": ["sh", "-c", nest]}, DONE], 2: [{"run": ["sh", "-c", mend]}, DONE]},
        task=world.task(verify=verify),
    )
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 1)
    assert await world.outcomes() == ["gate_failed", "task_complete"]
    assert "app (it is a git repository of its own" in world.prompt(2)
    assert "remove app/.git" in world.prompt(2)
    assert world.git("show", f"agent/{AGENT}:app/main.py") == "1"


async def test_what_failed_before_the_first_attempt_is_told_as_such(world: World) -> None:
    await world.run(
        {1: [{"exit": 1}], 2: [*commit("x.txt"), DONE]},
        task=world.task(verify=["echo old news; test -f x.txt", "true"]),
    )
    assert "old news" in world.prompt(1)
    assert "before" in world.prompt(1)
    facts = (await world.record()).facts
    assert facts["baseline"] == {"echo old news; test -f x.txt": False, "true": True}


async def test_the_baseline_runs_outside_of_the_workspace(world: World) -> None:
    task = world.task(verify=["test ! -f litter; touch litter"])
    result = await world.run([*commit("x.txt"), DONE], task=task)
    assert result.result_type is LoopResultType.TASK_COMPLETE


async def test_no_baseline_is_taken_when_it_is_switched_off(world: World) -> None:
    await world.run([*commit("x.txt"), DONE], task=world.task(verify=["true"]), baseline=False)
    assert (await world.record()).facts["baseline"] == {}


async def test_a_change_of_the_verified_tests_is_flagged_in_the_record(world: World) -> None:
    result = await world.run(
        [*commit("x.txt"), *commit("test_a.py", "assert 1"), *commit("check.sh", "exit 0"), DONE],
        task=world.task(verify=["sh ./check.sh"]), baseline=False,
    )  # fmt: skip
    assert result.result_type is LoopResultType.TASK_COMPLETE
    record = await world.record()
    assert record.facts["flagged"] == ["check.sh", "test_a.py"]
    assert isinstance(record.work, Completed)
    assert record.work.flagged == ("check.sh", "test_a.py")


async def test_what_came_with_a_merge_of_the_base_is_not_flagged_as_the_work(world: World) -> None:
    others = (
        f"cd {world.repo} && echo 'assert 2' > test_theirs.py && git add test_theirs.py && "
        "git commit -qm theirs"
    )
    result = await world.run(
        [
            *commit("test_own.py", "assert 1"),
            {"run": ["sh", "-c", others]},
            {"run": ["git", "merge", "-q", "--no-edit", "main"]},
            DONE,
        ],
        task=world.task(verify=["test -f test_theirs.py"]), baseline=False,
    )  # fmt: skip
    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert (await world.record()).facts["flagged"] == ["test_own.py"]


async def test_a_gate_that_commits_moves_no_branch_of_ours(world: World) -> None:
    sneaky = "git -c user.name=x -c user.email=x@x commit -q --allow-empty -m sneaky"
    result = await world.run([*commit("x.txt"), DONE], task=world.task(verify=[sneaky]))
    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert "sneaky" not in world.git("log", "--all", "--format=%s")


async def test_gates_leave_no_process_behind(world: World) -> None:
    result = await world.run([*commit("x.txt"), DONE], task=world.task(verify=["sleep 600 & true"]))
    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert world.marked() == []


async def test_ignored_files_make_no_gate_green(world: World) -> None:
    script: list[Step] = [
        {"write": {"path": ".gitignore", "text": "built\n"}},
        {"write": {"path": "built", "text": "x"}},
        {"commit": "ignore what is built"},
        DONE,
    ]
    result = await world.run(script, task=world.task(verify=["test -f built"]), max_retries=0)
    assert result.result_type is LoopResultType.MAX_RETRIES
    assert "`test -f built` ended with code 1" in str(result.error)


async def test_a_gate_that_leads_git_to_the_users_checkout_leads_no_later_agent_there(
    world: World,
) -> None:
    before = world.git("rev-parse", "main")
    astray = f"echo 'gitdir: {world.repo}/.git' > .git; false"
    steps: list[Step] = [{"append": {"path": "x.txt", "text": "x"}}, {"commit": "more"}, DONE]

    await world.run(steps, task=world.task(verify=[astray]), max_retries=2, baseline=False)

    assert world.git("rev-parse", "main") == before
    assert world.git("rev-list", "--count", f"main..agent/{AGENT}") == "3"
