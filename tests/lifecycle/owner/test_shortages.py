"""A machine short of disk, descriptors or memory for a while ends no loop, and costs nothing."""

from __future__ import annotations

import asyncio
import errno
import time
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle import shortage_retry
from lifecycle.attempt import watch
from lifecycle.errors import StoreError
from lifecycle.judging.gates import GateRunner
from lifecycle.machine.events import (
    AcceptRequested,
    Answered,
)
from lifecycle.machine.states import Accepted
from lifecycle.owner import owner
from lifecycle.result import LoopResultType
from lifecycle.store.sqlite.store import SqliteStore
from runtime.branches import BranchManager
from runtime.errors import ShortageError
from runtime.process import AgentProcess, TerminalManager
from tests.lifecycle.world import AGENT, DONE, HANG, World, commit, says, until

if TYPE_CHECKING:
    from lifecycle.machine.states import Gate
    from lifecycle.record import Transaction
    from runtime.branches import BranchMerge
    from runtime.process import StopReport
    from runtime.processes.activity import Activity


class _FullDisk(SqliteStore):
    """Refuses so many decisions."""

    refuses = 0

    async def commit(self, commit: Transaction) -> None:
        if self.refuses:
            self.refuses -= 1
            raise StoreError("the disk is full")
        await super().commit(commit)


async def test_a_disk_that_is_full_for_a_while_ends_no_loop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "STORE_EVERY", 0.01)
    world.store = store = _FullDisk.in_memory()
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
    monkeypatch.setattr(owner, "STORE_EVERY", 0.01)
    monkeypatch.setattr(owner, "STORE_TRIES", 3)
    world.store = store = _FullDisk.in_memory()
    async with world.running([{"write": {"path": "go"}}, says("question"), HANG]) as running:
        await running.at("Working")
        store.refuses = 10_000
        with pytest.raises(StoreError):
            await running.result()
        assert world.marked() == []
        store.refuses = 0


class _Refusing(_FullDisk):
    """Refuses answers to requests instead of decisions."""

    async def commit(self, commit: Transaction) -> None:
        await SqliteStore.commit(self, commit)

    async def answer_request(self, request_id: int, problem: str = "", text: str = "") -> None:
        if self.refuses:
            self.refuses -= 1
            raise StoreError("the disk is full")
        await super().answer_request(request_id, problem, text)


async def test_an_answer_that_cannot_be_written_at_once_ends_no_loop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "STORE_EVERY", 0.01)
    world.store = store = _Refusing.in_memory()
    async with world.running([{"wait_file": {"path": "go"}}, *commit("x.txt"), DONE]) as running:
        await running.at("Working")
        store.refuses = 3
        request = await store.ask(AGENT, Answered(at=0.0, text="yes", by="ada"))
        await until(lambda: not store.refuses)
        (world.workspace / "go").touch()
        result = await running.result()
    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert "only an open question or a blocker can be answered" in str(
        await store.request_outcome(request)
    )


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
    monkeypatch.setattr(watch, "LOOK_AGAIN", 0.01)
    result = await world.run({1: [{"exit": 3}], 2: [DONE]})
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 1)
    assert next(failures, None) is None


async def test_work_that_there_is_no_room_to_join_is_joined_later_and_nothing_is_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, refusals = BranchManager.join, [ShortageError("this machine is short of memory")] * 3

    async def join(self: BranchManager, commits: tuple[str, ...], *, message: str) -> BranchMerge:
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
    monkeypatch.setattr(shortage_retry, "FIRST", 0.01)
    await world.run([*commit("x.txt"), DONE], task=world.task(verify=["test -f x.txt"]))
    (world.repo / "beside.txt").write_text("so that the merge has to be judged\n")
    world.git("add", "beside.txt")
    world.git("commit", "-q", "-m", "Beside")
    async with world.loop().opened() as engine:
        record = await engine.ask(AGENT, AcceptRequested(at=time.time(), by="Ada"))  # noqa: TID251  # people have clocks
    assert isinstance(record.work, Accepted), record.work
    assert not refusals
