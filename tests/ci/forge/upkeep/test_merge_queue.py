"""A merge queue or train: entered once, told of when it throws out, and entered again rarely."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ci.events import CIEvent, CIEventType
from ci.forge.merge_rules import Rules
from ci.forge.upkeep.merge_queue import MOST_ENTRIES
from ci.interface import CIWatch
from tests.ci.contract import BASE, until
from tests.ci.forge.remote_world import RemoteWorld
from tests.ci.github.queue_world import QueueWorld
from tests.ci.gitlab.served_trains import TrainWorld
from tests.ci.ports import CrashError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

BRANCH = "agent/a"
Queued = QueueWorld | TrainWorld


@pytest.fixture(params=[QueueWorld, TrainWorld], ids=["github", "gitlab"])
async def forge(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Queued]:
    async with request.param.running(tmp_path / "forge", pushes=False) as forge:
        yield forge


@pytest.fixture
async def world(forge: Queued, tmp_path: Path) -> AsyncIterator[RemoteWorld]:
    world = RemoteWorld(forge, tmp_path / "state", rules=Rules(auto_merge=True, checks_grace=0))
    await world.start()
    yield world
    await world.aclose()


class Waiting:
    """A wait for the one pull request, begun anew by each attempt."""

    def __init__(self, world: RemoteWorld, forge: Queued) -> None:
        self.world, self.forge, self.number, self.sha, self.times = world, forge, 0, "", 0
        self.over: Callable[[], None] = lambda: None

    async def begin(self) -> None:
        if not self.number:
            self.sha = await self.world.commit(BRANCH, shared="a", outcome="green")
            pull = await self.world.provider.create_pull_request(
                branch=BRANCH, base=BASE, title="Do it"
            )
            self.number = pull.number
        self.over()
        self.times += 1
        self.over = self.world.provider.watch(
            CIWatch(
                key="a", branch=BRANCH, sha=self.sha, number=self.number, since=float(self.times)
            )
        )

    async def stands(self) -> str:
        await self.world.polled(self.number)
        return str((await self.world.documents.all("ci.waits"))["a"]["text"])

    async def until_in(self) -> None:
        await until(lambda: self.forge.served.group(self.number), "an entry in the queue")
        await self.stands()

    def red(self) -> list[CIEvent]:
        return [each for each in self.world.events if each.type is CIEventType.PR_CHECKS_FAILED]

    async def goes_round(self, entry: int) -> CIEvent:
        """Have it enter the queue and be thrown out, for the so-and-so-many-th time."""
        await self.begin()
        await self.until_in()
        await asyncio.to_thread(self.forge.served.ends, self.number, green=False)
        return await self.until_red(entry)

    async def until_red(self, times: int) -> CIEvent:
        await until(lambda: len(self.red()) == times, "the news of the removal")
        return self.red()[-1]


async def test_what_is_thrown_out_is_told_with_the_groups_log_and_put_in_twice_again(
    world: RemoteWorld, forge: Queued
) -> None:
    waiting = Waiting(world, forge)
    for entry in range(1, MOST_ENTRIES + 1):
        await waiting.begin()
        await waiting.until_in()
        assert f"it is in the {forge.forge.queue}" in await waiting.stands()
        group = forge.served.group(1)
        forge.served.ends(1, green=False)
        event = await waiting.until_red(entry)
        assert f"failed on {group[:12]}" in event.summary
        assert "the sum is wrong" in event.excerpt
    await waiting.begin()
    assert "it is not put in again" in await waiting.stands()
    await world.restart()
    await waiting.begin()
    assert "it is not put in again" in await waiting.stands()
    assert len(forge.served.entries) == MOST_ENTRIES


async def test_entries_are_counted_for_each_head_and_the_branch_that_it_goes_into(
    world: RemoteWorld, forge: Queued
) -> None:
    waiting, origin = Waiting(world, forge), forge.origin
    await asyncio.to_thread(origin.commit, "release", "begun")
    for entry in range(1, MOST_ENTRIES + 1):
        await waiting.goes_round(entry)
    # A branch that moves on is the same branch.
    await asyncio.to_thread(origin.commit, BASE, "newer")
    await waiting.begin()
    assert "it is not put in again" in await waiting.stands()
    forge.served.retarget(1, "release")
    told = await waiting.goes_round(MOST_ENTRIES + 1)
    assert f"thrown out of the {forge.forge.queue} of release (" in told.summary
    forge.served.retarget(1, BASE)
    await waiting.begin()
    assert "it is not put in again, it was put in 3 times" in await waiting.stands()
    assert len(forge.served.entries) == MOST_ENTRIES + 1


async def test_what_left_the_queue_for_another_branch_wakes_nobody(
    world: RemoteWorld, forge: Queued
) -> None:
    waiting = Waiting(world, forge)
    await asyncio.to_thread(forge.origin.commit, "release", "begun")
    await waiting.begin()
    await waiting.until_in()
    forge.served.retarget(1, "release")
    await waiting.until_in()
    forge.served.retarget(1, BASE)
    await waiting.until_in()
    assert waiting.red() == []
    assert len(forge.served.entries) == 3


async def test_what_a_person_takes_out_stays_out_and_wakes_nobody(
    world: RemoteWorld, forge: Queued
) -> None:
    waiting = Waiting(world, forge)
    await waiting.begin()
    await waiting.until_in()
    forge.served.take_out(1)
    assert f"thrown out of the {forge.forge.queue} of main (" in await waiting.stands()
    assert "a person took it out" in await waiting.stands()
    assert waiting.red() == []
    assert len(forge.served.entries) == 1


async def test_what_the_queue_merges_is_merged(world: RemoteWorld, forge: Queued) -> None:
    waiting = Waiting(world, forge)
    await waiting.begin()
    await waiting.until_in()
    forge.served.ends(1, green=True)
    await until(lambda: CIEventType.PR_MERGED in [each.type for each in world.events])
    assert len(forge.served.entries) == 1


async def test_what_was_put_in_before_a_crash_is_told_of_and_not_put_in_again(
    world: RemoteWorld, forge: Queued
) -> None:
    waiting = Waiting(world, forge)
    world.documents.loses = lambda name: name.endswith(".queue") and bool(forge.served.entries)
    await waiting.begin()
    await until(lambda: forge.served.group(waiting.number), "an entry in the queue")
    await world.provider.aclose()
    forge.served.ends(1, green=False)
    world.documents.loses = lambda _: False
    await world.restart()
    await waiting.begin()
    assert "the sum is wrong" in (await waiting.until_red(1)).excerpt
    assert len(forge.served.entries) == 1


async def asked_for_before_a_crash(world: RemoteWorld, forge: Queued) -> tuple[int, str]:
    """Put a pull request into the queue, and die before that is written; its number and head."""
    world.rules = Rules(checks_grace=0)
    sha = await world.commit(BRANCH, shared="a", outcome="green")
    pull = await world.provider.create_pull_request(branch=BRANCH, base=BASE, title="Do it")
    world.documents.loses = lambda name: name.endswith(".queue") and bool(forge.served.entries)
    with pytest.raises(CrashError):
        await world.provider.merge(pull.number, expected_sha=sha)
    world.documents.loses = lambda _: False
    return pull.number, sha


async def test_a_merge_asked_for_before_a_crash_is_not_ordered_twice(
    world: RemoteWorld, forge: Queued
) -> None:
    number, sha = await asked_for_before_a_crash(world, forge)
    await world.restart()
    inside = await world.provider.merge(number, expected_sha=sha)
    assert (inside.merged, inside.queued, len(forge.served.entries)) == (False, True, 1)


async def test_a_merge_asked_for_that_is_thrown_out_while_no_runner_runs_is_told(
    world: RemoteWorld, forge: Queued
) -> None:
    number, sha = await asked_for_before_a_crash(world, forge)
    await world.provider.aclose()
    forge.served.ends(1, green=False)
    await world.restart()
    told = await world.provider.merge(number, expected_sha=sha)
    assert (told.merged, told.queued, len(forge.served.entries)) == (False, False, 1)
    assert f"thrown out of the {forge.forge.queue} of main (" in told.reason
    assert (await world.provider.merge(number, expected_sha=sha)).queued
    assert len(forge.served.entries) == 2


async def test_an_order_that_a_crash_kept_from_the_queue_is_given_again(
    world: RemoteWorld, forge: Queued
) -> None:
    waiting = Waiting(world, forge)
    world.documents.ends_with = lambda name: name.endswith(".queue")
    await waiting.begin()
    await until(lambda: any(name.endswith(".queue") for name in world.documents.kept))
    await world.provider.aclose()
    assert forge.served.entries == []
    world.documents.ends_with = lambda _: False
    await world.restart()
    await waiting.begin()
    await waiting.until_in()
    assert len(forge.served.entries) == 1
