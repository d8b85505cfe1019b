"""What goes wrong around a loop at night neither ends it, nor is merged, nor costs without end."""

from __future__ import annotations

import asyncio
import subprocess
import time

import pytest

from lifecycle.engine.retention import Retention
from lifecycle.errors import LifecycleError
from lifecycle.machine.events import (
    AcceptRequested,
    PauseRequested,
    RejectRequested,
)
from lifecycle.machine.states import About, Accepted, AwaitingHuman, Rejected
from lifecycle.plan import Agent
from lifecycle.result import LoopResultType
from runtime.errors import WorkspaceError
from tests.lifecycle.world import AGENT, DONE, HANG, Step, World, commit, says, until
from tests.waiting import answered

ELSEWHERE: list[Step] = [{"run": {"argv": ["git", "checkout", "-q", "-b", "feature"]}}]
BACK: list[Step] = [
    {"run": {"argv": ["git", "checkout", "-q", f"agent/{AGENT}"]}},
    {"run": {"argv": ["git", "merge", "-q", "feature"]}},
]


async def test_work_on_another_branch_is_sent_back_and_not_judged(world: World) -> None:
    result = await world.run(
        {1: [*ELSEWHERE, *commit("x.txt"), DONE], 2: [*BACK, DONE]},
        task=world.task(verify=["test -f x.txt"]), baseline=False,
    )  # fmt: skip
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 1)
    assert f"the work is on branch feature, not on agent/{AGENT}" in world.prompt(2)
    async with world.loop().opened() as engine:
        record = await engine.ask(AGENT, AcceptRequested(at=time.time(), by="Ada"))  # noqa: TID251  # people have clocks
    assert isinstance(record.work, Accepted)
    assert world.git("show", "main:x.txt") == "x"


async def test_a_detached_head_at_the_commit_of_the_branch_is_no_fault(world: World) -> None:
    steps: list[Step] = [
        *commit("x.txt"), {"run": {"argv": ["git", "checkout", "-q", "--detach"]}}, DONE,
    ]  # fmt: skip
    result = await world.run(steps)
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 0)


async def test_a_pull_request_without_a_commit_is_charged_and_soon_waits_for_a_person(
    world: World,
) -> None:
    script = {
        1: [*commit("x.txt"), says("pr_created", summary="p")],
        0: [says("pr_created", summary="p")],
    }
    ci = world.ci("true", auto_merge=True)
    async with world.running(script, ci=ci, max_retries=50, stuck_limit=3) as running:
        await running.at("AwaitingHuman")
        work = await world.work()
        assert isinstance(work, AwaitingHuman)
        assert work.about is About.NO_PROGRESS
        assert (work.tally.spawn_count, work.tally.retry_count) == (4, 3)
        assert "there is nothing to merge" in work.text


def rebase_in_the_middle(world: World) -> None:
    """Leave main in the middle of a rebase that met a conflict."""
    for branch in ("up", "main"):
        world.git("checkout", "-q", *(["-b"] if branch == "up" else []), branch)
        (world.repo / "README.md").write_text(f"{branch}\n")
        world.git("add", "README.md")
        world.git("commit", "-qm", branch)
    subprocess.run(["git", "rebase", "-q", "up"], cwd=world.repo, check=False, capture_output=True)


async def test_an_unattended_merge_waits_for_the_end_of_a_rebase_of_its_base(world: World) -> None:
    rebase_in_the_middle(world)
    ci = world.ci("true", auto_merge=True)
    script = {1: [*commit("x.txt"), says("pr_created", summary="p")], 2: [DONE]}
    task = world.task(base="main")
    async with world.running(script, ci=ci, task=task) as running:
        await running.at("PrPending")

        async def refused() -> str:
            pull = await ci.pull_request(1)
            return pull.merge_refused if pull is not None else ""

        assert "main is being rebased" in await until(refused)
        assert "x.txt" not in world.git("ls-tree", "--name-only", "main")
        world.git("rebase", "--abort")
        result = await running.result()
    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert "x.txt" in world.git("ls-tree", "--name-only", "main")


async def test_a_lock_that_a_killed_git_left_keeps_nobody_from_committing(world: World) -> None:
    lock = 'touch "$(git rev-parse --git-dir)/index.lock" "$(git rev-parse --git-dir)/HEAD.lock"'
    killed: list[Step] = [{"run": ["sh", "-c", lock]}, {"crash": "KILL"}]
    result = await world.run({1: killed, 2: [*commit("x.txt"), DONE]})
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 2)


async def test_gates_that_edit_committed_files_are_red(world: World) -> None:
    fixing = "echo good > x.txt"
    result = await world.run(
        {1: [*commit("x.txt"), DONE], 2: [*commit("x.txt", "good\n"), DONE]},
        task=world.task(verify=[fixing, "grep good x.txt"]), baseline=False,
    )  # fmt: skip
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 1)
    assert "changed files that are committed: x.txt" in world.prompt(2)
    assert world.git("show", f"agent/{AGENT}:x.txt") == "good"


async def test_an_unknown_adapter_ends_the_loop_with_the_reason(world: World) -> None:
    run = world.loop().run_agent_loop(Agent(agent_id=AGENT, adapter="nope"), world.task())
    result = await asyncio.wait_for(run, 20)
    assert result.result_type is LoopResultType.ERROR
    assert "there is no agent program 'nope'" in str(result.error)


async def test_an_edited_summary_that_is_not_valid_utf8_is_shown_all_the_same(world: World) -> None:
    edited = world.paths.edited(AGENT, 2)
    edited.parent.mkdir(parents=True)
    edited.write_bytes(b"mind the caf\xe9")
    result = await world.run({1: [{"exit": 1}], 2: [DONE]})
    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert "mind the caf" in world.prompt(2)


async def test_a_defect_of_the_runner_is_told_in_the_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("lifecycle.attempt.start.texts_for", broken)
    with pytest.raises(ZeroDivisionError):
        await world.run([DONE])
    record = await world.record()
    assert record.error == "the runner failed: ZeroDivisionError: a defect"
    monkeypatch.undo()
    assert (await world.run([DONE])).result_type is LoopResultType.TASK_COMPLETE


async def test_a_defect_in_what_runs_ahead_of_its_commit_is_told_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("lifecycle.perform.performer.Performer._last_words", broken)
    with pytest.raises(ZeroDivisionError):
        await world.run([{"exit": 1}])
    assert (await world.record()).error == "the runner failed: ZeroDivisionError: a defect"


async def test_a_request_that_cannot_be_carried_out_is_answered_and_holds_up_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.run([{"exit": 1}], max_retries=0)
    assert isinstance(await world.work(), Rejected)
    loop = world.loop()
    await loop.run_agent_loop(world.agent([DONE], "agent-behind"), world.task("T002"))
    async with loop.opened() as engine:

        async def refuse(agent_id: str, *, drop_branch: bool, attempt: int) -> None:
            del drop_branch, attempt
            raise WorkspaceError(f"not all of {agent_id} could be saved")

        monkeypatch.setattr(engine.machine.workspaces, "remove", refuse)
        at = time.time()  # noqa: TID251  # people have clocks
        first = await world.store.ask(AGENT, RejectRequested(at=at, by="Ada"))
        second = await world.store.ask("agent-behind", PauseRequested(at=at, by="Ada"))
        await answered(world.store, second)
        assert "could be saved" in await answered(world.store, first)
        with pytest.raises(LifecycleError, match="could be saved"):
            await engine.ask(AGENT, RejectRequested(at=at, by="Ada"))


async def test_a_lifecycle_that_runs_gets_no_second_owner(world: World) -> None:
    async with world.running([HANG]) as running:
        await running.at("Working")
        with pytest.raises(LifecycleError, match="is running already"):
            await running.loop.engine.run(world.agent([HANG]), world.task())
        assert await running.loop.recover_agents() == ()
        with pytest.raises(LifecycleError, match="stop it before"):
            await running.loop.delete_lifecycle(AGENT)
        await until(lambda: len(world.marked()) == 1)
        await running.loop.engine.ask(AGENT, PauseRequested(at=time.time()))  # noqa: TID251  # as above
        assert not await world.store.requests()
        assert len(world.marked()) == 1


async def test_a_record_that_cannot_be_recovered_keeps_no_other_from_running(world: World) -> None:
    await world.run([DONE])
    async with world.running([HANG], task=world.task()) as running:
        del running
    store = world.store
    lost = await world.record()
    agent = world.agent([HANG], "agent-lost")
    run = asyncio.create_task(world.loop().run_agent_loop(agent, world.task("T002")))
    await until(lambda: any(news.agent_id == "agent-lost" and news.after == "Working"
                            for news in world.news))  # fmt: skip
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    lost = await store.get("agent-lost") or lost
    lost.facts = {}
    await store.update(lost)
    other = world.loop().run_agent_loop(world.agent([DONE], "agent-other"), world.task("T003"))
    result = await asyncio.wait_for(other, 20)
    assert result.result_type is LoopResultType.TASK_COMPLETE


async def test_retention_never_takes_what_is_taken_up_again_meanwhile(world: World) -> None:
    await world.run([*commit("x.txt"), {"exit": 1}], max_retries=0)
    world.settings.update(max_retries=1, retention_hours=0.0)
    loop = world.loop()
    async with loop.opened() as engine:
        run = asyncio.create_task(engine.run(world.agent([DONE]), world.task()))
        while not run.done():
            await Retention(engine.machine, engine._claim).sweep()
            await asyncio.sleep(0)
        result = await run
    assert result.result_type is LoopResultType.TASK_COMPLETE
