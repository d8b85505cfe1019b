"""The local provider's own rules for pull requests, for its life, and for crashes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from typing import TYPE_CHECKING

import pytest

from ci.errors import ProviderError, UnreachableError
from ci.events import CIEventType
from ci.interface import PullRequestState
from ci.local.provider import LocalCIProvider
from ci.verdict import VerdictStatus
from tests.ci.contract import BASE, again, opened, settled, types, until
from tests.ci.local.local_world import LocalWorld
from tests.ci.ports import CrashError, Merged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@contextlib.asynccontextmanager
async def running(folder: Path, **settings: object) -> AsyncIterator[LocalWorld]:
    world = LocalWorld(folder, **settings)
    await world.start()
    try:
        yield world
    finally:
        await world.close()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[LocalWorld]:
    async with running(tmp_path) as local:
        yield local


async def test_auto_merge_merges_what_is_green(tmp_path: Path) -> None:
    async with running(tmp_path, auto_merge=True) as world:
        pull = await opened(world, "agent/a", text="from a")
        assert pull.state is PullRequestState.MERGED
        assert await world.merged_text() == "from a"
        await until(lambda: CIEventType.PR_MERGED in types(world))
        assert types(world)[-2:] == [CIEventType.PR_CHECKS_PASSED, CIEventType.PR_MERGED]


async def test_auto_merge_waits_for_an_answer_that_cannot_be_had_now(tmp_path: Path) -> None:
    short = True

    async def against(base: str, head: str) -> str:
        del base, head
        if short:
            raise UnreachableError("this machine is short of memory")
        return ""

    async with running(tmp_path, auto_merge=True, auto_merge_objection=against) as world:
        pull = await opened(world, "agent/a", text="from a")
        assert pull.state is PullRequestState.OPEN
        short = False
        await world.restart()
        await until(lambda: CIEventType.PR_MERGED in types(world))
        assert await world.merged_text() == "from a"


async def test_auto_merge_leaves_red_and_conflicting_ones_open(tmp_path: Path) -> None:
    async with running(tmp_path, auto_merge=True, max_parallel=2) as world:
        held = await opened(world, "agent/b", outcome="held", text="from b")
        await world.provider.close(held.number)
        red = await opened(world, "agent/r", outcome="red")
        await world.release()
        await settled(world, held.head_sha)
        await opened(world, "agent/a", text="from a")
        conflicting = await world.provider.create_pull_request(
            branch="agent/b", base=BASE, title="B again"
        )
        assert conflicting.conflicts == ("shared.txt",)
        assert conflicting.checks is VerdictStatus.GREEN
        for pull in (red, conflicting):
            assert (await again(world, pull)).state is PullRequestState.OPEN
        assert await world.merged_text() == "from a"


async def test_auto_merge_never_takes_a_commit_nobody_reported(tmp_path: Path) -> None:
    async with running(tmp_path, auto_merge=True) as world:
        pull = await opened(world, "agent/a", outcome="held")
        await world.commit("agent/a", outcome="green")
        await world.release()
        await settled(world, pull.head_sha)
        seen = await again(world, pull)
        assert (seen.state, seen.head_sha) == (PullRequestState.OPEN, pull.head_sha)


async def test_auto_merge_without_a_test_command_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="test_command"):
        LocalCIProvider(tmp_path, auto_merge=True)


async def test_settings_that_cannot_work_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="timeout of builds"):
        LocalCIProvider(tmp_path, timeout=0)
    with pytest.raises(ProviderError, match="max_parallel \\(0\\)"):
        LocalCIProvider(tmp_path, max_parallel=0)


async def test_a_head_that_was_never_checked_is_not_merged(tmp_path: Path) -> None:
    async with running(tmp_path, test_command=None) as world:
        await world.commit("agent/a")
        pull = await world.provider.create_pull_request(branch="agent/a", base=BASE, title="A")
        world.settings["test_command"] = "sh check.sh"
        await world.restart()
        result = await world.provider.merge(pull.number)
        assert not result.merged
        assert "pending, not green" in result.reason


async def test_a_base_that_moved_meanwhile_is_noticed_when_asked(world: LocalWorld) -> None:
    pull = await opened(world, "agent/a", text="from a")
    await world.commit(BASE, shared="from a person")
    assert (await again(world, pull)).conflicts == ("shared.txt",)
    await until(lambda: types(world)[-1] is CIEventType.PR_CONFLICT)


async def test_a_pull_request_of_no_branch_or_to_no_base_is_refused(world: LocalWorld) -> None:
    with pytest.raises(ProviderError, match="no branch 'agent/x'"):
        await world.provider.create_pull_request(branch="agent/x", base=BASE, title="X")
    await world.commit("agent/a")
    with pytest.raises(ProviderError, match="no branch 'trunk'"):
        await world.provider.create_pull_request(branch="agent/a", base="trunk", title="A")
    with pytest.raises(ProviderError, match="needs a base branch"):
        await world.provider.create_pull_request(branch="agent/a", base="", title="A")


async def test_the_base_of_the_provider_is_used_where_none_is_given(tmp_path: Path) -> None:
    async with running(tmp_path, base=BASE) as world:
        await world.commit("agent/a")
        pull = await world.provider.create_pull_request(branch="agent/a", base="", title="A")
        assert (pull.base, pull.number, pull.url) == (BASE, 1, "local://pr/1")


async def test_what_the_repository_refuses_is_shown_on_the_pull_request(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    pull = await opened(world, "agent/a")

    async def refuse(*_: object, **__: object) -> Merged:
        return Merged(merged=False, reason="main has uncommitted changes: commit them first")

    monkeypatch.setattr(world.repository, "advance", refuse)
    result = await world.provider.merge(pull.number)
    assert "uncommitted changes" in result.reason
    assert "uncommitted changes" in (await again(world, pull)).merge_refused


async def test_a_merge_that_fails_can_be_asked_for_again(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    pull = await opened(world, "agent/a")

    async def fail(*_: object, **__: object) -> Merged:
        raise OSError("no space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(world.repository, "advance", fail)
        with pytest.raises(OSError, match="no space"):
            await world.provider.merge(pull.number)
    assert (await world.provider.merge(pull.number)).merged


async def test_unbound_it_can_be_subscribed_to_and_nothing_else(tmp_path: Path) -> None:
    provider = LocalCIProvider(tmp_path, test_command="true")
    provider.subscribe(lambda _: None)()
    await provider.aclose()
    for call in (
        provider.start,
        lambda: provider.pushed("a", "b"),
        lambda: provider.rebuild("b"),
        lambda: provider.verdict("b"),
        lambda: provider.pull_request(1),
        lambda: provider.find_pull_request("a"),
        lambda: provider.create_pull_request(branch="a", base="b", title="c"),
        lambda: provider.merge(1),
        lambda: provider.close(1),
        lambda: provider.events_since(0),
    ):
        with pytest.raises(ProviderError, match="bind"):
            await call()


async def test_before_start_it_says_to_start_it(world: LocalWorld) -> None:
    await world.provider.aclose()
    with pytest.raises(ProviderError, match="start"):
        await world.provider.verdict("0" * 40)


async def test_at_work_it_keeps_its_ports(world: LocalWorld, tmp_path: Path) -> None:
    world.provider.bind(world.surroundings_in_use)
    other = dataclasses.replace(world.surroundings_in_use, folder=tmp_path / "other")
    with pytest.raises(ProviderError, match="aclose"):
        world.provider.bind(other)


async def test_many_may_start_it_and_it_can_be_started_again(world: LocalWorld) -> None:
    pull = await opened(world, "agent/a")
    await world.provider.aclose()
    await asyncio.gather(*(world.provider.start() for _ in range(3)))
    assert await world.provider.pull_request("#1") == pull


async def test_a_record_that_cannot_be_read_is_named(world: LocalWorld) -> None:
    await world.provider.aclose()
    world.documents.kept["ci.local.pulls"] = {"4": '{"number": "four"}'}
    with pytest.raises(ProviderError, match=r"record 4 of ci\.local\.pulls"):
        await world.provider.start()
    with pytest.raises(ProviderError, match="start"):
        await world.provider.verdict("0" * 40)


async def story(world: LocalWorld) -> None:
    """Report, open, wait for the checks and merge: each step may be repeated at will."""
    sha = await world.repository.head("agent/a")
    assert sha is not None
    await world.provider.pushed("agent/a", sha)
    pull = await world.provider.find_pull_request("agent/a")
    if pull is None:
        pull = await world.provider.create_pull_request(branch="agent/a", base=BASE, title="A")
    while (status := (await world.provider.verdict(sha)).status) is not VerdictStatus.GREEN:
        assert status is not VerdictStatus.RED, await world.provider.verdict(sha)
        if world.documents.crashed:
            raise CrashError
        await asyncio.sleep(0.005)
    assert (await world.provider.merge(pull.number)).merged


async def told_over_a_crash(folder: Path, lives_for: int | None) -> tuple[set[str], bool]:
    async with running(folder) as world:
        await world.commit("agent/a", shared="from a")
        world.documents.lives_for = lives_for
        with contextlib.suppress(CrashError):
            await story(world)
        crashed = world.documents.crashed
        await world.provider.aclose()
        world.documents = world.documents.copy()
        world.provider = world.new_provider()
        await world.start()
        await story(world)
        log = (await world.provider.events_since(0)).events
        ids = [event.event_id for event in log]
        assert len(set(ids)) == len(ids)
        assert world.repository.merges == 1
        assert await world.merged_text() == "from a"
        await until(lambda: [event.event_id for event in world.events] == ids)
        return set(ids), crashed


async def test_a_crash_at_any_write_ends_in_the_same_events_and_one_merge(tmp_path: Path) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda _, __: None)
    expected, _ = await told_over_a_crash(tmp_path / "none", None)
    assert len(expected) == 5
    writes, crashed = 0, True
    while crashed:
        told, crashed = await told_over_a_crash(tmp_path / str(writes), writes)
        assert told == expected, f"crash at write {writes}"
        writes += 1
    assert writes > 10
