"""What goes wrong around a loop at night neither ends it, nor is merged, nor costs without end."""

from __future__ import annotations

import asyncio
import errno
import subprocess
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from lifecycle import attend, minutes, rounds, shortfall
from lifecycle.clock import SystemClock
from lifecycle.errors import LifecycleError, StoreError
from lifecycle.judging.gates import GateRunner
from lifecycle.machine.events import (
    AcceptRequested,
    Answered,
    LimitReached,
    PauseRequested,
    RejectRequested,
)
from lifecycle.machine.states import About, Accepted, AwaitingHuman, Rejected
from lifecycle.plan import Agent
from lifecycle.result import LoopResultType
from lifecycle.retention import Retention
from lifecycle.store.memory import MemoryStore
from runtime.branches import BranchManager
from runtime.errors import ShortageError, WorkspaceError
from runtime.process import AgentProcess, TerminalManager
from tests.lifecycle.world import AGENT, DONE, HANG, Step, World, commit, says, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.machine.states import Gate
    from lifecycle.record import Commit
    from runtime.activity import Activity
    from runtime.branches import MergeOutcome
    from runtime.process import StopReport

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
        record = await engine.apply(AGENT, AcceptRequested(at=time.time(), by="Ada"))  # noqa: TID251  # people have clocks
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
        pull = await ci.pull_request(1)
        while pull is None or not pull.merge_refused:
            await asyncio.sleep(0.005)
            pull = await ci.pull_request(1)
        assert "main is being rebased" in pull.merge_refused
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


async def test_an_edited_summary_that_is_no_utf8_is_shown_all_the_same(world: World) -> None:
    edited = world.paths.edited(AGENT, 2)
    edited.parent.mkdir(parents=True)
    edited.write_bytes(b"mind the caf\xe9")
    result = await world.run({1: [{"exit": 1}], 2: [DONE]})
    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert "mind the caf" in world.prompt(2)


class _FullDisk(MemoryStore):
    """Refuses so many decisions."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses = 0

    async def commit(self, commit: Commit) -> None:
        if self.refuses:
            self.refuses -= 1
            raise StoreError("the disk is full")
        await super().commit(commit)


async def test_a_disk_that_is_full_for_a_while_ends_no_loop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minutes, "STORE_EVERY", 0.01)
    world.store = store = _FullDisk()
    async with world.running([{"wait_file": {"path": "go"}}, *commit("x.txt"), DONE]) as running:
        await running.at("Working")
        store.refuses = 5
        (world.workspace / "go").touch()
        result = await running.result()
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 1)
    assert store.refuses == 0


async def test_a_disk_that_stays_full_ends_the_loop_and_its_agent(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minutes, "STORE_EVERY", 0.01)
    monkeypatch.setattr(minutes, "STORE_TRIES", 3)
    world.store = store = _FullDisk()
    async with world.running([{"write": {"path": "go"}}, says("question"), HANG]) as running:
        await running.at("Working")
        store.refuses = 10_000
        with pytest.raises(StoreError):
            await running.result()
        assert world.marked() == []
        store.refuses = 0


class _Refusing(_FullDisk):
    """Refuses answers to requests instead of decisions."""

    async def commit(self, commit: Commit) -> None:
        await MemoryStore.commit(self, commit)

    async def answer_request(self, request_id: int, problem: str = "") -> None:
        if self.refuses:
            self.refuses -= 1
            raise StoreError("the disk is full")
        await super().answer_request(request_id, problem)


async def test_an_answer_that_cannot_be_written_at_once_ends_no_loop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minutes, "STORE_EVERY", 0.01)
    world.store = store = _Refusing()
    async with world.running([{"wait_file": {"path": "go"}}, *commit("x.txt"), DONE]) as running:
        await running.at("Working")
        store.refuses = 3
        request = await store.ask(AGENT, Answered(at=0.0, text="yes", by="ada"))
        await until(lambda: not store.refuses)
        (world.workspace / "go").touch()
        result = await running.result()
    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert "not possible" in str(await store.request_outcome(request))


async def test_a_defect_of_the_runner_is_told_in_the_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("lifecycle.starting.texts_for", broken)
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

    monkeypatch.setattr("lifecycle.performer.Performer._last_words", broken)
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

        monkeypatch.setattr(engine.parts.workspaces, "remove", refuse)
        at = time.time()  # noqa: TID251  # people have clocks
        first = await world.store.ask(AGENT, RejectRequested(at=at, by="Ada"))
        second = await world.store.ask("agent-behind", PauseRequested(at=at, by="Ada"))
        async with asyncio.timeout(10):
            while await world.store.request_outcome(second) is None:  # noqa: ASYNC110  # as people look
                await asyncio.sleep(0.01)
        assert "could be saved" in str(await world.store.request_outcome(first))
        with pytest.raises(LifecycleError, match="could be saved"):
            await engine.apply(AGENT, RejectRequested(at=at, by="Ada"))


async def test_a_lifecycle_that_runs_gets_no_second_owner(world: World) -> None:
    async with world.running([HANG]) as running:
        await running.at("Working")
        with pytest.raises(LifecycleError, match="is running already"):
            await running.loop.engine.apply(AGENT, PauseRequested(at=time.time()))  # noqa: TID251  # as above
        assert await running.loop.recover_agents() == ()
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
            await Retention(engine.parts, engine._claim).sweep()
            await asyncio.sleep(0)
        result = await run
    assert result.result_type is LoopResultType.TASK_COMPLETE


async def test_limits_stay_in_force_after_a_moment_without_file_handles(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, failures = TerminalManager.sample, iter(range(2))

    def sample(self: TerminalManager) -> dict[str, Activity]:
        if next(failures, None) is not None:
            raise OSError(errno.EMFILE, "Too many open files")
        return really(self)

    monkeypatch.setattr(TerminalManager, "sample", sample)
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    result = await world.run({1: [HANG], 2: [DONE]}, idle_limit=0.8, wall_limit=0.0)
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 1)


async def test_an_exit_is_noticed_although_the_system_could_not_be_looked_at(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, failures = AgentProcess.sweep, iter(range(2))

    async def sweep(self: AgentProcess, grace: float) -> StopReport:
        await self.wait()
        if next(failures, None) is not None:
            raise OSError(errno.EMFILE, "Too many open files")
        return await really(self, grace)

    monkeypatch.setattr(AgentProcess, "sweep", sweep)
    monkeypatch.setattr(attend, "LOOK_AGAIN", 0.01)
    result = await world.run({1: [{"exit": 3}], 2: [DONE]})
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 1)
    assert next(failures, None) is None


class _SetClock:
    """The wall clock, which somebody sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        really = SystemClock.now
        monkeypatch.setattr(SystemClock, "now", lambda clock: really(clock) + self.ahead)


async def test_a_machine_that_slept_charges_no_agent_for_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = _SetClock(monkeypatch)
    steps: dict[int, list[Step]] = {1: [{"wait_file": {"path": "go"}}, {"delete": "go"}, DONE]}
    async with world.running(steps, idle_limit=1800.0, wall_limit=14400.0) as running:
        await running.at("Working")
        clock.ahead = 8 * 3600.0
        await asyncio.sleep(2.5 * rounds.SAMPLE_INTERVAL)
        (world.workspace / "go").touch()
        result = await running.result()
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 0)
    assert not any(isinstance(entry.event, LimitReached) for entry in await world.journal())


async def test_people_are_heard_also_after_the_clock_was_set_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = _SetClock(monkeypatch)
    clock.ahead = 7200.0
    steps = {1: [says("question", question="?")], 2: [DONE]}
    async with world.running(steps) as running:
        await running.at("AwaitingHuman")
        clock.ahead = 0.0
        await running.ask(Answered, text="yes")
        result = await running.result()
    assert result.result_type is LoopResultType.TASK_COMPLETE


def test_what_a_machine_sleeps_is_left_out_before_anybody_looks() -> None:
    told: list[str] = []
    due: list[Callable[[], None]] = []
    now = 1000.0

    class Attended:
        process = SimpleNamespace(identity=SimpleNamespace(mark="m"))
        settings = SimpleNamespace(wall_limit=0.0, idle_limit=0.0)

        def slept(self, seconds: float) -> None:
            told.append(f"slept {seconds:g} s")

        def listen(self) -> None:
            told.append("listens")

    clock = SimpleNamespace(now=lambda: now, call_at=lambda _, call: due.append(call))
    passes = rounds.Rounds(cast("Any", SimpleNamespace(sample=dict)), cast("Any", clock))
    passes.add(cast("Any", Attended()))
    for late in (0.0, 600.0):
        now += rounds.SAMPLE_INTERVAL + late
        due.pop()()
    assert told == ["listens", "slept 600 s", "listens"]


async def test_work_that_there_is_no_room_to_join_is_joined_later_and_nothing_is_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, refusals = BranchManager.join, [ShortageError("this machine is short of memory")] * 3

    async def join(self: BranchManager, commits: tuple[str, ...], *, message: str) -> MergeOutcome:
        if refusals:
            raise refusals.pop()
        return await real(self, commits, message=message)

    other = world.agent([*commit("theirs.txt"), DONE], "agent-T002")
    await world.loop().run_agent_loop(other, world.task("T002"))
    monkeypatch.setattr(BranchManager, "join", join)
    result = await world.run(
        {1: [*commit("own.txt"), says("blocked", blocked_on=["T002"])], 2: [DONE]},
        max_environment_failures=1,
    )
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 2)
    assert (world.workspace / "theirs.txt").exists()
    assert not refusals


async def test_a_merge_whose_gates_find_no_room_is_made_later_and_not_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, refusals = GateRunner.on_commit, [OSError(errno.EMFILE, "Too many open files")]

    async def on_commit(self: GateRunner, *about: Any, **more: Any) -> tuple[Gate, ...]:
        if more.get("label") == "merge" and refusals:
            raise refusals.pop()
        return await real(self, *about, **more)

    monkeypatch.setattr(GateRunner, "on_commit", on_commit)
    monkeypatch.setattr(shortfall, "FIRST", 0.01)
    await world.run([*commit("x.txt"), DONE], task=world.task(verify=["test -f x.txt"]))
    (world.repo / "beside.txt").write_text("so that the merge has to be judged\n")
    world.git("add", "beside.txt")
    world.git("commit", "-q", "-m", "Beside")
    async with world.loop().opened() as engine:
        record = await engine.apply(AGENT, AcceptRequested(at=time.time(), by="Ada"))  # noqa: TID251  # people have clocks
    assert isinstance(record.work, Accepted), record.work
    assert not refusals
