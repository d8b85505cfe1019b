"""The generic provider: a commit is what was reported of it, in whatever order that came."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING

import pytest

from ci.errors import ProviderError, UnknownPullRequestError
from ci.events import CIEventType
from ci.forge.merge_rules import Rules
from ci.generic.ledger import COMMITS, FORGOTTEN_AFTER, STRANGERS_KEPT
from ci.generic.provider import GenericProvider
from ci.generic.reports import MOST_CHECKS
from ci.verdict import VerdictStatus
from ci.webhook_delivery import Hint
from tests.ci.contract import until
from tests.ci.generic.generic_world import WATCH, World, delivery, running
from tests.ci.ports import CrashError
from tests.ci.webhooks.inboxes import BEGIN, BRANCH, OTHER, SHA, check

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with running(tmp_path) as started:
        yield started


async def test_a_pushed_commit_waits_for_its_first_report_and_then_is_unchecked(
    world: World,
) -> None:
    assert await world.status() is VerdictStatus.NONE
    await world.provider.pushed(BRANCH, SHA)
    assert await world.status() is VerdictStatus.PENDING
    world.clock.advance(119)
    assert await world.status() is VerdictStatus.PENDING
    world.clock.advance(2)
    assert await world.status() is VerdictStatus.NONE
    assert await world.told() == []


async def test_a_red_report_wakes_with_the_end_of_its_log(world: World) -> None:
    await world.provider.pushed(BRANCH, SHA)
    await world.report("running", at=BEGIN)
    await world.report("failed", at=BEGIN + 1, summary="1 failed", log="the sum is wrong")
    verdict = await world.provider.verdict(SHA)
    assert verdict.status is VerdictStatus.RED
    assert verdict.failed[0].excerpt == "the sum is wrong"
    assert await world.told() == [
        (CIEventType.BUILD_STARTED, SHA),
        (CIEventType.BUILD_FAILURE, SHA),
    ]
    event = world.events[-1]
    assert (event.branch, event.excerpt) == (BRANCH, "the sum is wrong")
    assert event.details[0].title == "unit: 1 failed"


async def test_red_then_green_then_red_are_three_facts(world: World) -> None:
    await world.provider.pushed(BRANCH, SHA)
    for at, status in enumerate(("failed", "passed", "failed")):
        await world.report(status, at=BEGIN + at)
    assert [kind for kind, _ in await world.told()] == [
        CIEventType.BUILD_FAILURE,
        CIEventType.BUILD_SUCCESS,
        CIEventType.BUILD_FAILURE,
    ]


async def test_the_same_said_again_is_no_news(world: World) -> None:
    await world.provider.pushed(BRANCH, SHA)
    for at in (0, 0, 5, 3, 9):
        await world.report("failed", at=BEGIN + at)
    assert await world.told() == [(CIEventType.BUILD_FAILURE, SHA)]


async def test_the_order_in_which_reports_come_does_not_matter(tmp_path: Path) -> None:
    reports = [
        check("pending", at=BEGIN),
        check("failed", at=BEGIN + 1),
        check("passed", at=BEGIN + 2),
        check("pending", at=BEGIN + 2),
    ]
    for number, order in enumerate(itertools.permutations(reports)):
        folder = tmp_path / str(number)
        async with running(folder) as world:
            for body in order:
                await world.provider.report(delivery(body, world.clock.now()))
            assert await world.status() is VerdictStatus.GREEN


async def test_a_number_decides_where_one_is_given(world: World) -> None:
    await world.report("passed", at=BEGIN, number=8)
    await world.report("failed", at=BEGIN + 50, number=7)
    assert await world.status() is VerdictStatus.GREEN
    await world.report("failed", at=None, number=9)
    await world.report("pending", at=None, number=9)
    assert await world.status() is VerdictStatus.RED


async def test_a_report_that_cannot_be_put_in_order_is_refused(world: World) -> None:
    # An old copy of it, sent again by whoever recorded it, would otherwise be the newest.
    with pytest.raises(ValueError, match="`at`"):
        await world.report("passed", at=None)
    assert await world.status() is VerdictStatus.NONE


async def test_a_clock_that_is_far_ahead_does_not_decide_for_ever(world: World) -> None:
    await world.report("passed", at=BEGIN + 10 * 365 * 86_400)
    world.clock.advance(1_000)
    await world.report("failed", at=world.clock.now())
    assert await world.status() is VerdictStatus.RED


async def test_every_check_of_a_commit_counts(world: World) -> None:
    await world.report("passed", name="unit")
    await world.report("running", name="lint")
    assert await world.status() is VerdictStatus.PENDING
    await world.report("passed", name="lint", at=BEGIN + 1)
    assert await world.status() is VerdictStatus.GREEN
    await world.report("failed", name="docs")
    assert await world.status() is VerdictStatus.RED


async def test_a_commit_is_not_green_before_every_expected_check_is(tmp_path: Path) -> None:
    async with running(tmp_path, expected=("unit", "lint")) as world:
        await world.provider.pushed(BRANCH, SHA)
        await world.report("passed", name="unit")
        world.clock.advance(10_000)
        verdict = await world.provider.verdict(SHA)
        assert (verdict.status, verdict.pending) == (VerdictStatus.PENDING, ("lint",))
        await world.report("passed", name="lint")
        assert await world.status() is VerdictStatus.GREEN


async def test_a_report_from_before_the_push_is_told_at_the_push(world: World) -> None:
    await world.report("failed")
    assert await world.told() == []
    world.clock.advance(30)
    await world.provider.pushed(BRANCH, SHA)
    assert await world.told() == [(CIEventType.BUILD_FAILURE, SHA)]
    # Not older than the wait that is looked for.
    assert world.events[0].at == world.clock.now()
    await world.provider.pushed(BRANCH, SHA)
    assert len(world.events) == 1


async def test_an_old_commit_of_a_branch_is_not_told_of(world: World) -> None:
    await world.provider.pushed(BRANCH, OTHER)
    await world.provider.pushed(BRANCH, SHA)
    await world.report("failed", OTHER)
    assert await world.told() == []
    assert await world.status(OTHER) is VerdictStatus.RED
    assert await world.status() is VerdictStatus.PENDING


async def test_each_branch_at_the_commit_is_told(world: World) -> None:
    await world.provider.pushed("agent/T1", SHA)
    await world.provider.pushed("agent/T2", SHA)
    await world.report("passed")
    await world.told()
    assert sorted(event.branch for event in world.events) == ["agent/T1", "agent/T2"]


async def test_a_delivery_of_another_provider_is_no_report(world: World) -> None:
    assert not await world.provider.report(delivery(check(), BEGIN, "github"))
    assert await world.status() is VerdictStatus.NONE


async def test_reports_and_events_outlast_a_restart(world: World) -> None:
    await world.provider.pushed(BRANCH, SHA)
    await world.report("failed")
    log = await world.provider.events_since(0)
    await world.restart()
    assert await world.status() is VerdictStatus.RED
    assert await world.provider.events_since(0) == log
    assert await world.told() == [(CIEventType.BUILD_FAILURE, SHA)]


@pytest.mark.parametrize("lives_for", range(5))
async def test_a_crash_at_any_write_loses_nothing_and_tells_nothing_twice(
    tmp_path: Path, lives_for: int
) -> None:
    world = World(tmp_path)
    await world.start()
    world.documents.lives_for = lives_for

    async def story() -> None:
        await world.provider.pushed(BRANCH, SHA)
        await world.report("failed")
        await world.report("passed", at=BEGIN + 1)

    with contextlib.suppress(CrashError):
        await story()
    await world.provider.aclose()
    world.documents = world.documents.copy()
    world.provider = world.new_provider()
    await world.start()
    # The sender, or the inbox, brings it again.
    await story()
    assert await world.status() is VerdictStatus.GREEN
    batch = await world.provider.events_since(0)
    kinds = [event.type for event in batch.events]
    assert kinds == [CIEventType.BUILD_FAILURE, CIEventType.BUILD_SUCCESS]
    await world.provider.aclose()


async def test_unchecked_commits_are_told_as_green_only_where_that_is_wanted(
    world: World,
) -> None:
    world.rules = Rules(require_ci=False)
    await world.provider.pushed(BRANCH, SHA)
    world.provider.watch(WATCH)
    await until(lambda: world.clock.next_instant() is not None)
    world.clock.advance(121)
    await until(lambda: bool(world.events))
    assert await world.told() == [(CIEventType.BUILD_SUCCESS, SHA)]
    assert "require_ci" in world.events[0].summary


async def test_a_hint_names_whose_wait_it_concerns(world: World) -> None:
    end = world.provider.watch(WATCH)
    assert await world.provider.take(Hint(sha=SHA)) == ("agent-T1",)
    assert await world.provider.take(Hint(branch=BRANCH)) == ("agent-T1",)
    assert await world.provider.take(Hint(sha=OTHER)) == ()
    end()
    end()
    assert await world.provider.take(Hint(sha=SHA)) == ()


async def test_it_has_no_pull_requests_and_says_what_to_do(world: World) -> None:
    assert await world.provider.pull_request(3) is None
    assert await world.provider.find_pull_request(BRANCH) is None
    with pytest.raises(ProviderError, match="configure a forge"):
        await world.provider.create_pull_request(branch=BRANCH, base="main", title="x")
    with pytest.raises(UnknownPullRequestError, match="77"):
        await world.provider.merge(77)
    with pytest.raises(UnknownPullRequestError, match="77"):
        await world.provider.close(77)


async def test_what_is_old_or_too_much_is_forgotten(world: World) -> None:
    await world.provider.pushed(BRANCH, OTHER)
    for number in range(STRANGERS_KEPT + 20):
        await world.report("passed", f"{number:040x}")
    kept = await world.documents.all(COMMITS)
    assert len(kept) == STRANGERS_KEPT + 1
    assert OTHER in kept
    assert await world.status(f"{0:040x}") is VerdictStatus.NONE
    world.clock.advance(FORGOTTEN_AFTER + 1)
    await world.report("passed")
    await world.restart()
    assert list(await world.documents.all(COMMITS)) == [SHA]


async def test_names_without_end_are_refused(world: World) -> None:
    for number in range(MOST_CHECKS):
        await world.report("passed", name=f"build {number}")
    with pytest.raises(ValueError, match="`number`"):
        await world.report("passed", name="one more")


async def test_it_says_what_it_lacks(tmp_path: Path) -> None:
    provider = GenericProvider(rules=Rules)
    with pytest.raises(ProviderError, match="bind"):
        await provider.start()
    with pytest.raises(ProviderError, match="bind"):
        await provider.verdict(SHA)
    world = World(tmp_path)
    world.clock.call_at = None  # type: ignore[assignment,method-assign]  # surroundings without timers
    with pytest.raises(ProviderError, match="call_at"):
        await world.start()
