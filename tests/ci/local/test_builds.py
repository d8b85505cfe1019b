"""When and how the local provider builds, and that nothing of a build is left over."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from typing import TYPE_CHECKING

import pytest

from ci.errors import ProviderError
from ci.events import CIEventType
from ci.verdict import VerdictStatus
from tests.ci.contract import all_types, opened, settled, until
from tests.ci.local.local_world import LocalWorld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    MakeWorld = Callable[..., Awaitable[LocalWorld]]


@pytest.fixture
async def make_world(tmp_path: Path) -> AsyncIterator[MakeWorld]:
    async with contextlib.AsyncExitStack() as worlds:

        async def make(**settings: object) -> LocalWorld:
            world = LocalWorld(tmp_path, **settings)
            await world.start()
            worlds.push_async_callback(world.close)
            return world

        yield make


@pytest.fixture
async def world(make_world: MakeWorld) -> LocalWorld:
    return await make_world()


def log_of(world: LocalWorld, build_id: str) -> str:
    return (world.folder / "logs" / f"{build_id}.log").read_text()


async def held_build(world: LocalWorld, branch: str = "agent/a") -> str:
    """Start a build that runs until the world is released."""
    sha = await world.commit(branch, outcome="held")
    await world.provider.pushed(branch, sha)
    before = len(world.commands.marks)
    await until(lambda: len(world.commands.alive) > 0 or len(world.commands.marks) > before)
    return sha


async def test_the_commit_is_built_and_not_the_dirty_tree(world: LocalWorld) -> None:
    sha = await world.commit("agent/a")
    (world.root / "check.sh").write_text("exit 1\n")
    (world.root / "shared.txt").unlink()
    await world.provider.pushed("agent/a", sha)
    assert await settled(world, sha) is VerdictStatus.GREEN


async def test_the_log_is_kept(world: LocalWorld) -> None:
    sha = await world.commit("agent/a", outcome="red")
    await world.provider.pushed("agent/a", sha)
    await settled(world, sha)
    assert log_of(world, "build-1") == "the sum is wrong\n"
    verdict = await world.provider.verdict(sha)
    assert verdict.failed[0].url == (world.folder / "logs" / "build-1.log").as_uri()


async def test_a_newer_commit_cancels_the_build_of_the_older(world: LocalWorld) -> None:
    old = await held_build(world)
    [pid] = world.commands.alive.values()
    new = await world.commit("agent/a")
    await world.provider.pushed("agent/a", new)
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)
    assert await settled(world, new) is VerdictStatus.GREEN
    verdict = await world.provider.verdict(old)
    assert verdict.status is VerdictStatus.PENDING
    assert "newer commit" in verdict.summary
    await until(lambda: len(world.events) == 4)
    assert [(event.type, event.sha) for event in world.events] == [
        (CIEventType.BUILD_STARTED, old),
        (CIEventType.BUILD_CANCELLED, old),
        (CIEventType.BUILD_STARTED, new),
        (CIEventType.BUILD_SUCCESS, new),
    ]


async def test_a_cancelled_commit_that_comes_back_is_built(world: LocalWorld) -> None:
    old = await held_build(world)
    await world.provider.pushed("agent/a", await world.commit("agent/a"))
    await world.release()
    await world.provider.pushed("agent/a", old)
    assert await settled(world, old) is VerdictStatus.GREEN


async def test_a_commit_that_another_branch_waits_for_is_built_on(world: LocalWorld) -> None:
    shared = await held_build(world)
    await world.provider.pushed("agent/b", shared)
    await world.provider.pushed("agent/a", await world.commit("agent/a"))
    await world.release()
    assert await settled(world, shared) is VerdictStatus.GREEN
    await until(lambda: ("agent/b", CIEventType.BUILD_SUCCESS) in told(world))
    assert CIEventType.BUILD_CANCELLED not in all_types(world)


def told(world: LocalWorld) -> list[tuple[str, CIEventType]]:
    return [(event.branch, event.type) for event in world.events]


async def test_builds_wait_for_a_free_slot(make_world: MakeWorld) -> None:
    world = await make_world(max_parallel=2)
    for branch in ("agent/a", "agent/b", "agent/c"):
        await world.provider.pushed(branch, await world.commit(branch, outcome="held"))
    await until(lambda: len(world.commands.alive) == 2)
    assert all_types(world) == [CIEventType.BUILD_STARTED] * 2
    await world.release()
    await until(lambda: all_types(world).count(CIEventType.BUILD_SUCCESS) == 3)


async def test_a_build_past_its_limit_is_red(make_world: MakeWorld) -> None:
    world = await make_world(test_command="echo working; sleep 600", timeout=1.0)
    sha = await world.commit("agent/a")
    await world.provider.pushed("agent/a", sha)
    assert await settled(world, sha) is VerdictStatus.RED
    [check] = (await world.provider.verdict(sha)).failed
    assert "limit of 1 s" in check.summary
    assert check.excerpt == "working\n"
    assert not world.commands.alive


async def test_a_build_that_cannot_be_run_is_red_and_says_that_it_is_not_the_commit(
    world: LocalWorld,
) -> None:
    await world.provider.pushed("agent/a", "f" * 40)
    assert await settled(world, "f" * 40) is VerdictStatus.RED
    summary = (await world.provider.verdict("f" * 40)).summary
    assert "LookupError: no commit" in summary
    assert "says nothing about the commit" in summary


async def test_a_rebuild_replaces_the_verdict(make_world: MakeWorld, tmp_path: Path) -> None:
    world = await make_world(test_command=f"test -e '{tmp_path}/service'")
    pull = await opened(world, "agent/a")
    assert pull.checks is VerdictStatus.RED
    (tmp_path / "service").touch()
    await world.provider.rebuild(pull.head_sha)
    assert (await world.provider.verdict(pull.head_sha)).status is VerdictStatus.PENDING
    assert await settled(world, pull.head_sha) is VerdictStatus.GREEN
    await until(lambda: all_types(world)[-1] is CIEventType.PR_CHECKS_PASSED)
    with pytest.raises(ProviderError, match="never built"):
        await world.provider.rebuild("e" * 40)


async def test_without_a_test_command_nothing_is_checked_and_a_merge_is_free(
    make_world: MakeWorld,
) -> None:
    world = await make_world(test_command=None)
    sha = await world.commit("agent/a", shared="from a")
    await world.provider.pushed("agent/a", sha)
    pull = await world.provider.create_pull_request(branch="agent/a", base="main", title="A")
    assert pull.checks is VerdictStatus.NONE
    with pytest.raises(ProviderError, match="test_command"):
        await world.provider.rebuild(sha)
    assert (await world.provider.merge(pull.number)).merged
    await until(lambda: all_types(world) == [CIEventType.PR_CREATED, CIEventType.PR_MERGED])


async def test_closing_leaves_no_process_and_no_task(world: LocalWorld) -> None:
    await held_build(world)
    await world.provider.pushed("agent/b", await world.commit("agent/b", outcome="held"))
    [pid] = world.commands.alive.values()
    await world.provider.aclose()
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await world.provider.aclose()


async def test_closing_waits_for_a_checkout_that_cannot_be_stopped(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, over = threading.Event(), threading.Event(), threading.Event()

    def write_slowly() -> None:
        begun.set()
        go_on.wait(20)
        over.set()

    async def lay_out(_: str, name: str) -> Path:
        await asyncio.to_thread(write_slowly)
        return world.folder / name

    monkeypatch.setattr(world.repository, "lay_out", lay_out)
    await world.provider.pushed("agent/a", await world.commit("agent/a"))
    await until(begun.is_set)
    closing = asyncio.create_task(world.provider.aclose())
    assert not (await asyncio.wait((closing,), timeout=0.05))[0]
    go_on.set()
    await closing
    assert over.is_set()


async def test_an_interrupted_build_is_run_again_under_its_own_id(world: LocalWorld) -> None:
    sha = await held_build(world)
    await world.restart()
    await until(lambda: len(world.commands.marks) == 2)
    assert (await world.provider.verdict(sha)).status is VerdictStatus.PENDING
    await world.release()
    assert await settled(world, sha) is VerdictStatus.GREEN
    assert world.commands.marks[0] == world.commands.marks[1]
    await until(lambda: len(world.events) == 2)
    assert all_types(world) == [CIEventType.BUILD_STARTED, CIEventType.BUILD_SUCCESS]
    assert {event.build_id for event in world.events} == {"build-1"}


async def test_an_interrupted_build_without_a_test_command_now_is_cancelled(
    world: LocalWorld,
) -> None:
    await held_build(world)
    world.settings["test_command"] = None
    await world.restart()
    await until(lambda: all_types(world)[-1] is CIEventType.BUILD_CANCELLED)


async def test_a_caller_that_goes_away_leaves_nothing_half_done(world: LocalWorld) -> None:
    sha = await world.commit("agent/a")
    caller = asyncio.create_task(world.provider.pushed("agent/a", sha))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait((caller,))
    assert caller.cancelled()
    assert await settled(world, sha) is VerdictStatus.GREEN
