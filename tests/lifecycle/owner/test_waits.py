"""What ends each wait, what the next attempt is told of it, and what waiting costs."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from ci.events import CIEvent, CIEventType
from lifecycle.machine import events as on
from lifecycle.machine.states import Blocked, PrPending
from lifecycle.result import LoopResultType
from tests.lifecycle.world import AGENT, DONE, PATIENCE, Step, World, commit, git, says, until

if TYPE_CHECKING:
    from ci.local.provider import LocalCIProvider
    from lifecycle.loop import AgentLifecycleLoop

BLOCKED = [*commit("x.txt"), says("blocked", blocked_on=["ci"], reason="CI must say yes")]
OPENED = [*commit("x.txt"), says("pr_created", summary="a pull request")]


# --- blocked ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("command", "told"), [("true", "build_success"), ("exit 3", "build_fail")])
async def test_ci_unblocks_green_or_red_and_the_reason_is_told(
    world: World, command: str, told: str
) -> None:
    result = await world.run({1: BLOCKED, 2: [DONE]}, ci=world.ci(command))
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 0)
    assert any(isinstance(entry.event, on.CiReported) for entry in await world.journal())
    assert told in world.prompt(2)


async def test_an_event_that_the_caller_brings_unblocks_too(world: World) -> None:
    async with world.running({1: BLOCKED, 2: [DONE]}) as running:
        await running.at("Blocked")
        event = CIEvent(
            type=CIEventType.BUILD_SUCCESS, event_id="e1", at=time.time(),  # noqa: TID251  # an outside clock
            branch=f"agent/{AGENT}", summary="all good elsewhere",
        )  # fmt: skip
        await running.loop.notify(event.model_copy(update={"branch": "agent/other"}))
        await asyncio.sleep(0)
        assert isinstance(await world.work(), Blocked)
        await running.loop.notify(event)
        result = await running.result()
    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert "all good elsewhere" in world.prompt(2)


async def test_the_build_of_its_own_commit_clears_no_words_that_do_not_name_ci(
    world: World,
) -> None:
    """CI is asked and heard, before and after a restart of the runner."""
    key = [*commit("x.txt"), *commit("y.txt"), says("blocked", blocked_on=["the key"])]
    script = {1: key, 2: [DONE]}
    ci = world.ci()
    async with world.running(script, ci=ci) as running:
        await running.at("Blocked")
        work = await world.work()
        assert isinstance(work, Blocked)
        await until(lambda: _is_built(ci, work.head))
        older = world.git("rev-parse", f"agent/{AGENT}~1")
    assert isinstance(await world.work(), Blocked)
    async with world.running(script, ci=world.ci()) as running:
        await until(lambda: _owned(running.loop))
        owner = running.loop.engine.owner(AGENT)
        assert owner is not None
        await until(lambda: owner.local.head.sha)
        for sha in (older, work.head):
            owner.hear(_build(sha))
        # Facts are taken in their order: what is handed in now is what ends the wait.
        await running.loop.notify(_build(work.head))
        result = await running.result()
    assert (result.spawn_count, result.retry_count) == (2, 0)
    assert "an event was handed in: build_success" in world.prompt(2)
    assert "CI is" not in world.prompt(2).split("## Blockers")[1].split("##")[0]


def _build(sha: str) -> CIEvent:
    now = time.time()  # noqa: TID251  # an outside clock
    kind = CIEventType.BUILD_SUCCESS
    return CIEvent(type=kind, event_id=f"b{sha}", at=now, branch=f"agent/{AGENT}", sha=sha)


def _owned(loop: AgentLifecycleLoop) -> bool:
    return loop._engine is not None and loop.engine.owner(AGENT) is not None


def _is_built(ci: LocalCIProvider, sha: str) -> bool:
    forge = ci._work
    return forge is not None and str(forge.checks.verdict(sha).status) == "green"


@pytest.mark.parametrize("dirty", [False, True])
async def test_work_that_it_waited_for_is_merged_unless_something_uncommitted_is_in_the_way(
    world: World, *, dirty: bool
) -> None:
    go = world.folder / "go"
    left = [{"write": {"path": "theirs.txt", "text": "a draft\n"}}] if dirty else []
    blocked = {1: [*commit("own.txt"), *left, says("blocked", blocked_on=["agent-T002"])],
               2: [DONE]}  # fmt: skip
    slow = [{"wait_file": str(go)}, *commit("theirs.txt", "theirs\n"), DONE]
    loop = world.loop()
    other = asyncio.create_task(
        loop.run_agent_loop(world.agent(slow, "agent-T002"), world.task("T002"))
    )
    await until(lambda: loop._engine is not None and loop.engine.owner("agent-T002"))
    first = asyncio.create_task(loop.run_agent_loop(world.agent(blocked), world.task()))
    await until(lambda: world.passed("Blocked"))
    go.touch()
    await other
    prompt = world.paths.prompt(AGENT, 2)
    await until(lambda: prompt.exists() and prompt.read_text())
    told = world.prompt(2)
    if dirty:
        assert "task T002 completed; its work is still to be merged into yours" in told
        assert "which the runner did not start" in told
        assert (world.workspace / "theirs.txt").read_text() == "a draft\n"
        await loop.shutdown()
    else:
        assert "task T002 completed and its work is merged into your branch" in told
        assert (world.workspace / "theirs.txt").read_text() == "theirs\n"
    await asyncio.wait_for(first, PATIENCE)
    if not dirty:
        assert (await world.record()).changed_files == ["own.txt"]
        assert [row.commits for row in await world.attempts()] == [1, 0]


async def test_a_block_on_a_task_outlasts_a_restart_of_the_runner(world: World) -> None:
    script = {1: [*commit("own.txt"), says("blocked", blocked_on=["T002"])], 2: [DONE]}
    hang = {"hang": True}
    async with world.running(script) as running:
        other = asyncio.create_task(
            running.loop.run_agent_loop(world.agent([hang], "agent-T002"), world.task("T002"))
        )
        await running.at("Blocked")
    await other
    loop = world.loop()
    done = world.agent([*commit("theirs.txt"), DONE], "agent-T002")
    second, first = await asyncio.wait_for(
        asyncio.gather(
            loop.run_agent_loop(done, world.task("T002")),
            loop.run_agent_loop(world.agent(script), world.task()),
        ),
        PATIENCE,
    )
    assert second.result_type is first.result_type is LoopResultType.TASK_COMPLETE
    assert first.spawn_count == 2
    assert "its work is merged into your branch" in world.prompt(2)


async def test_a_task_starts_when_its_dependencies_are_complete_and_on_top_of_them(
    world: World,
) -> None:
    loop = world.loop()
    after = world.task("T002", dependencies=["T001"])
    needs = [{"run": {"argv": ["test", "-f", "x.txt"]}}, *commit("y.txt"), DONE]
    second = asyncio.create_task(loop.run_agent_loop(world.agent(needs, "agent-T002"), after))
    await until(lambda: loop._engine is not None and loop.engine.owner("agent-T002"))
    first = await loop.run_agent_loop(world.agent([*commit("x.txt"), DONE]), world.task())
    result = await asyncio.wait_for(second, PATIENCE)
    assert first.result_type is result.result_type is LoopResultType.TASK_COMPLETE
    assert result.retry_count == 0


async def test_a_person_unblocks_and_what_he_says_is_told(world: World) -> None:
    async with world.running({1: [says("blocked", blocked_on=["keys"])], 2: [DONE]}) as running:
        await running.at("Blocked")
        assert world.marked() == []
        await running.ask(on.Unblocked, note="The keys are under the mat.")
        result = await running.result()
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 0)
    assert "The keys are under the mat." in world.prompt(2)


async def test_who_waits_holds_no_place(world: World) -> None:
    world.settings["max_live_agents"] = 1
    async with world.running([says("blocked", blocked_on=["keys"])]) as running:
        await running.at("Blocked")
        other = running.loop.run_agent_loop(world.agent([DONE], "agent-T002"), world.task("T002"))
        result = await asyncio.wait_for(other, PATIENCE)
    assert result.result_type is LoopResultType.TASK_COMPLETE


# --- pull requests ----------------------------------------------------------------------------


async def test_a_merge_wakes_the_agent_and_is_told(world: World) -> None:
    ci = world.ci()
    async with world.running({1: OPENED, 2: [DONE]}, ci=ci) as running:
        await running.at("PrPending")
        await until(lambda: _number(running.loop) is not None)
        await until(lambda: merged(ci))
        result = await running.result()
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 0)
    assert "merged" in world.prompt(2)
    assert world.git("show", "main:x.txt") == "x"


async def test_red_checks_cost_a_retry_and_their_log_is_told(world: World) -> None:
    ci = world.ci("echo 'assertion failed in calc'; exit 1")
    result = await world.run({1: OPENED, 2: [DONE]}, ci=ci)
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 1)
    assert "assertion failed in calc" in world.prompt(2)


async def test_a_conflict_of_a_pull_request_goes_to_an_agent_that_finds_the_merge_begun(
    world: World,
) -> None:
    finish: list[Step] = [
        {"run": ["sh", "-c", "grep -q '<<<<<<<' a.txt && git rev-parse -q --verify MERGE_HEAD"]},
        {"write": {"path": "a.txt", "text": "both\n"}},
        {"commit": "both"},
        DONE,
    ]
    script = {1: [*commit("a.txt", "the agent's\n"), says("pr_created")], 2: finish}
    async with world.running(script, ci=world.ci()) as running:
        await running.at("PrPending")
        await until(lambda: _number(running.loop) is not None)
        (world.repo / "a.txt").write_text("the user's\n")
        git(world.repo, "commit", "-qam", "meanwhile")
        result = await running.result()
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 0)
    assert "These files hold markers" in world.prompt(2)
    assert "`meanwhile`" in world.prompt(2)
    assert "`add a.txt`" in world.prompt(2)
    assert world.git("merge-base", "main", f"agent/{AGENT}") == world.git("rev-parse", "main")


async def test_a_merge_after_the_timeout_still_counts(world: World) -> None:
    ci = world.ci()
    first = await world.run({1: OPENED, 2: [DONE]}, ci=ci, pr_merge_timeout=1.0)
    if not first.pr_url:  # a busy machine took longer than that to open one
        first = await world.run({1: OPENED, 2: [DONE]}, ci=ci, pr_merge_timeout=25.0)
    assert (first.result_type, first.pr_url) == (LoopResultType.PR_CREATED, "local://pr/1")
    async with world.running({1: OPENED, 2: [DONE]}, ci=ci, pr_merge_timeout=60.0) as running:
        await running.at("PrPending")
        await until(lambda: _number(running.loop) is not None)
        await until(lambda: merged(ci))
        second = await running.result()
    assert (second.result_type, second.retry_count) == (LoopResultType.TASK_COMPLETE, 0)


async def test_an_open_pull_request_is_not_opened_again(world: World) -> None:
    ci = world.ci()
    async with world.running({1: OPENED, 2: OPENED, 3: [DONE]}, ci=ci) as running:
        await running.at("PrPending")
        await until(lambda: _number(running.loop) is not None)
        await running.ask(on.Unblocked)
        await running.at("PrPending", times=2)
        await until(lambda: _number(running.loop) is not None)
        assert _number(running.loop) == 1
        await running.ask(on.Unblocked)
        await running.result()


async def test_without_a_provider_a_pull_request_can_only_wait_for_a_person(world: World) -> None:
    async with world.running({1: OPENED, 2: [DONE]}) as running:
        await running.at("PrPending")
        await running.ask(on.Unblocked, note="go on")
        result = await running.result()
    assert result.result_type is LoopResultType.TASK_COMPLETE


async def merged(ci: LocalCIProvider) -> bool:
    return (await ci.merge(1)).merged


def _number(loop: object) -> int | None:
    owner = loop.engine.owner(AGENT)  # type: ignore[attr-defined]  # looking inside on purpose
    state = owner.state if owner is not None else None
    return state.number if isinstance(state, PrPending) else None
