"""What each word of an agent leads to, and what it costs to end without one."""

from __future__ import annotations

import pytest

from lifecycle.machine import events as on
from lifecycle.machine.states import AwaitingHuman
from lifecycle.result import LoopResultType
from tests.lifecycle.world import AGENT, DONE, HANG, World, commit, says, until


async def test_a_breakpoint_ends_an_agent_that_lingers(world: World) -> None:
    result = await world.run([*commit("x.txt"), DONE, HANG])
    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert world.marked() == []
    [row] = await world.attempts()
    assert (row.outcome, row.signal) == ("task_complete", 15)


async def test_a_crash_is_told_with_its_signal_and_its_last_words(world: World) -> None:
    await world.run({1: [{"err": "Segfault in calc.c"}, {"crash": "SIGSEGV"}], 2: [DONE]})
    first, _ = await world.attempts()
    assert (first.outcome, first.signal) == ("crash", 11)
    assert "Segfault in calc.c" in world.prompt(2)


async def test_an_old_breakpoint_is_cleared_before_the_next_attempt(world: World) -> None:
    result = await world.run(
        {1: [says("blocked", blocked_on=["x"]), HANG], 2: [{"exit": 0}]},
        blocked_timeout=0.1,
        max_retries=0,
    )
    assert result.result_type is LoopResultType.BLOCKED
    async with world.running({1: [], 2: [{"exit": 0}]}, blocked_timeout=60.0) as running:
        await running.at("Blocked")
        await running.ask(on.Unblocked)
        again = await running.result()
    assert again.result_type is LoopResultType.MAX_RETRIES
    assert await world.outcomes() == ["blocked", "no_breakpoint"]


async def test_a_question_waits_for_a_person_and_its_answer_is_in_the_next_prompt(
    world: World,
) -> None:
    script = {1: [says("question", question="Tabs or spaces?")], 2: [*commit("x.txt"), DONE]}
    async with world.running(script) as running:
        await running.at("AwaitingHuman")
        work = await world.work()
        assert isinstance(work, AwaitingHuman)
        assert work.text == "Tabs or spaces?"
        assert world.marked() == []
        await running.ask(on.Answered, text="Spaces, four of them.")
        result = await running.result()
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 0)
    assert "Spaces, four of them." in world.prompt(2)
    assert "Tabs or spaces?" in world.prompt(2)


async def test_an_agent_that_deletes_its_worktree_gets_a_new_one_with_its_commits(
    world: World,
) -> None:
    gone = str(world.workspace)
    result = await world.run(
        {1: [*commit("x.txt"), {"run": {"argv": ["rm", "-rf", gone]}}, {"exit": 1}],
         2: [{"run": {"argv": ["test", "-f", "x.txt"]}}, DONE]}
    )  # fmt: skip
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 1)
    assert (await world.record()).changed_files == ["x.txt"]


@pytest.mark.parametrize(
    "harm",
    ["rm .git", "rm .git; git init -q .", "rm .git; ln -s ../../../.git .git",
     "echo gitdir: $PWD/../../../.git > .git"],
)  # fmt: skip
async def test_an_agent_that_breaks_its_git_pointer_never_leads_the_next_to_the_users_checkout(
    world: World, harm: str
) -> None:
    before = world.git("rev-parse", "main")
    result = await world.run(
        {1: [*commit("x.txt"), {"write": {"path": "draft.txt", "text": "d"}},
             {"run": {"argv": ["sh", "-c", harm]}}, {"exit": 1}],
         2: [*commit("y.txt"), DONE]}
    )  # fmt: skip
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 1)
    assert (await world.record()).changed_files == ["draft.txt", "x.txt", "y.txt"]
    assert world.git("rev-parse", "main") == before
    assert world.git("symbolic-ref", "HEAD") == "refs/heads/main"


async def test_an_agent_without_its_git_pointer_does_not_find_the_users_checkout(
    world: World,
) -> None:
    before = world.git("rev-parse", "main")
    await world.run({1: [{"delete": ".git"}, *commit("x.txt"), DONE], 2: [DONE]}, max_retries=0)
    assert world.git("rev-parse", "main") == before
    assert world.git("status", "--porcelain") == ""


async def test_uncommitted_work_of_a_failed_attempt_is_saved_and_told(world: World) -> None:
    await world.run({1: [{"write": {"path": "draft.txt", "text": "half"}}, {"exit": 1}],
                     2: [{"commit": "rest"}, DONE]})  # fmt: skip
    assert world.saved(1) == {"draft.txt": "half"}
    assert f"refs/loopwright/saved/{AGENT}/1" in world.prompt(2)
    assert "draft.txt" in world.prompt(2)


async def test_settings_are_read_again_for_each_attempt(world: World) -> None:
    async with world.running([*commit("x.txt"), {"exit": 1}], max_retries=100) as running:
        await running.at("Working", times=2)
        world.settings["max_retries"] = 1
        result = await running.result()
    assert result.result_type is LoopResultType.MAX_RETRIES
    assert result.spawn_count < 10


async def test_each_attempt_waits_for_its_summary_to_be_approved(world: World) -> None:
    async with world.running({1: [{"exit": 1}], 2: [DONE]}, review_summaries=True) as running:
        await running.at("AwaitingHuman")
        assert world.marked() == []
        await running.ask(on.SummaryApproved)
        await running.at("AwaitingHuman", times=2)
        world.paths.edited(AGENT, 2).write_text("Please do exactly this.\n")
        await running.ask(on.SummaryApproved)
        result = await running.result()
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 2)
    assert "Please do exactly this." in world.prompt(2)


async def test_nothing_else_than_the_agents_own_end_is_waited_for(world: World) -> None:
    """A child that keeps the log open does not keep the loop waiting; it is ended."""
    result = await world.run([{"child": 600}, *commit("x.txt"), DONE])
    assert result.result_type is LoopResultType.TASK_COMPLETE
    await until(lambda: world.marked() == [])
