"""What becomes of kept deliveries: each is worked on, none is lost, copies are one question."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from ci.errors import UnreachableError
from ci.webhook_delivery import KEPT_FOR, DeliveryState
from ci.webhooks.dispatcher import BATCH, Backoff
from tests.ci.contract import until
from tests.ci.webhooks.dispatcher_world import (
    Asked,
    Desk,
    FullDisk,
    Reporting,
    Weighed,
    watch,
    working,
)
from tests.ci.webhooks.inboxes import (
    BEGIN,
    BRANCH,
    OTHER,
    REPO,
    SHA,
    check,
    check_run,
    github,
    inbox,
    signature,
    simple,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ci.webhook_delivery import Deliveries


@pytest.fixture
async def deliveries(tmp_path: Path) -> AsyncIterator[Deliveries]:
    async with inbox(tmp_path) as opened:
        yield opened


async def test_a_delivery_wakes_who_waits_for_it(deliveries: Deliveries) -> None:
    async with working(deliveries, Asked(watch())) as desk:
        found = await desk.settled(await desk.send(github(check_run())))
    assert (found.state, found.outcome) == (DeliveryState.MATCHED, "checked at once for agent-T1")
    assert found.settled_at == desk.clock.now()
    assert [hint.sha for hint in desk.provider.hints] == [SHA]


async def test_a_hundred_deliveries_about_one_thing_are_one_question(
    deliveries: Deliveries,
) -> None:
    desk = Desk(deliveries, Asked(watch()))
    keys = [await desk.send(github(check_run(run=run))) for run in range(100)]
    async with desk.dispatcher:
        found = await desk.all_settled(keys)
    assert {each.state for each in found} == {DeliveryState.MATCHED}
    assert len(desk.provider.hints) == 1


async def test_what_comes_while_it_is_asked_is_asked_about_again(
    deliveries: Deliveries,
) -> None:
    async with working(deliveries, Asked(watch())) as desk:
        desk.provider.gate.clear()
        first = await desk.send(github(check_run(run=1)))
        await until(lambda: len(desk.provider.hints) == 1)
        # The answer on its way may be older than this.
        second = await desk.send(github(check_run(run=2)))
        desk.provider.gate.set()
        await desk.all_settled([first, second])
    assert len(desk.provider.hints) == 2


async def test_what_nobody_waits_for_is_matched_when_somebody_does(
    deliveries: Deliveries,
) -> None:
    async with working(deliveries, Asked()) as desk:
        key = await desk.send(github(check_run()))
        other = await desk.send(github(check_run(sha=OTHER, branch="agent/T2")))
        found = await desk.settled(key)
        await desk.settled(other)
        assert found.state is DeliveryState.UNMATCHED
        assert BRANCH in found.outcome
        assert await desk.dispatcher.appeared(watch()) == (key,)
        assert await desk.dispatcher.appeared(watch()) == ()
        matched = await desk.settled(key)
        assert (matched.state, "agent-T1" in matched.outcome) == (DeliveryState.MATCHED, True)
        assert (await desk.settled(other)).state is DeliveryState.UNMATCHED


async def test_what_nobody_waited_for_is_matched_after_a_restart_too(
    deliveries: Deliveries,
) -> None:
    body = {"action": "closed", "pull_request": {"number": 7, "head": {"ref": "x"}}}
    async with working(deliveries, Asked()) as desk:
        key = await desk.send(github(body, "pull_request"))
        await desk.settled(key)
    async with working(deliveries, Asked()) as desk:
        assert await desk.dispatcher.appeared(watch(number=8)) == ()
        assert await desk.dispatcher.appeared(watch(number=7)) == (key,)


async def test_an_event_of_no_interest_is_ignored(deliveries: Deliveries) -> None:
    async with working(deliveries, Asked(watch())) as desk:
        keys = [
            await desk.send(github({"zen": "Keep it simple."}, "ping")),
            await desk.send(github({"action": "sung", "opera": [None]}, "opera")),
        ]
        found = await desk.all_settled(keys)
    assert {each.state for each in found} == {DeliveryState.IGNORED}
    assert "opera.sung" in found[1].outcome
    assert desk.provider.hints == []


async def test_another_repository_is_ignored_also_with_the_same_branch_and_number(
    deliveries: Deliveries,
) -> None:
    elsewhere = check_run(sha=OTHER, repo="else/where")
    pull = {
        "action": "closed",
        "pull_request": {"number": 7, "head": {"ref": BRANCH}},
        "repository": {"full_name": "else/where"},
    }
    async with working(deliveries, Asked(watch(number=7))) as desk:
        keys = [
            await desk.send(github(elsewhere)),
            await desk.send(github(pull, "pull_request")),
        ]
        found = await desk.all_settled(keys)
    assert {each.state for each in found} == {DeliveryState.IGNORED}
    assert all("else/where" in each.outcome for each in found)


async def test_the_repository_may_be_spelt_otherwise_or_be_renamed(
    deliveries: Deliveries,
) -> None:
    merged = {"action": "closed", "pull_request": {"number": 7, "head": {"ref": "x"}}}
    async with working(deliveries, Asked(watch(number=7))) as desk:
        desk.also.add("acme/gadgets")
        spelt = await desk.send(github(check_run(repo=REPO.upper())))
        repository = {"full_name": "acme/gadgets"}
        renamed = await desk.send(github({**merged, "repository": repository}, "pull_request"))
        forked = await desk.send(github(check_run(repo="else/fork")))
        found = await desk.all_settled([spelt, renamed, forked])
    assert {each.state for each in found} == {DeliveryState.MATCHED}
    assert "else/fork" in found[2].outcome


async def test_of_a_forge_that_keeps_nothing_of_ours_only_our_commits_matter(
    deliveries: Deliveries,
) -> None:
    pull = {"number": 7, "head": {"ref": BRANCH, "sha": OTHER}}
    body = {"pull_request": pull, "repository": {"full_name": REPO}}

    def gitea(told: dict[str, Any], event: str) -> tuple[dict[str, str], bytes]:
        headers, raw = github(told, event)
        return {**headers, "X-Gitea-Event": event}, raw

    async with working(deliveries, Asked(watch(number=7))) as desk:
        other = await desk.send(gitea(body, "pull_request"), "gitea")
        ours = await desk.send(gitea({"sha": SHA, "repository": {}}, "status"), "gitea")
        found = await desk.all_settled([other, ours])
    assert [each.state for each in found] == [DeliveryState.IGNORED, DeliveryState.MATCHED]
    assert found[0].outcome == f"about {REPO}, another repository"


async def test_an_unreachable_forge_loses_nothing_and_holds_up_nothing_else(
    deliveries: Deliveries,
) -> None:
    async with working(deliveries, Asked(watch())) as desk:
        desk.provider.fails[OTHER] = UnreachableError("the forge sleeps", retry_at=BEGIN + 5)
        stuck = await desk.send(github(check_run(sha=OTHER)))
        await until(lambda: len(desk.provider.hints) >= 3)
        # Many of them, more than are worked on at once.
        for run in range(BATCH + 20):
            await desk.send(github(check_run(sha=OTHER, run=run)))
        good = await desk.send(github(check_run()))
        assert (await desk.settled(good)).state is DeliveryState.MATCHED
        waits = await deliveries.get(stuck)
        assert waits is not None
        assert waits.state is DeliveryState.RECEIVED
        assert "the forge sleeps" in waits.outcome
        desk.provider.fails.clear()
        assert (await desk.settled(stuck)).state is DeliveryState.MATCHED

        async def all_done() -> bool:
            return not await deliveries.waiting()

        await until(all_done, "all are worked on")
    assert any("the forge sleeps" in text for text in desk.reported)


async def test_what_waits_for_an_unreachable_forge_is_read_once(
    deliveries: Deliveries,
) -> None:
    inbox = Weighed(deliveries)
    provider = Asked(watch())
    provider.fails[SHA] = UnreachableError("the forge sleeps")
    async with working(inbox, provider) as desk:
        keys = [await desk.send(github(check_run(run=run))) for run in range(2 * BATCH)]
        await until(lambda: set(inbox.read) == set(keys))
        before = len(provider.hints)
        await until(lambda: len(provider.hints) > before + 5)
        provider.fails.clear()
        await desk.all_settled(keys)
    assert sorted(inbox.read) == sorted(keys)


async def test_a_forge_that_hangs_does_not_hold_up_the_others(deliveries: Deliveries) -> None:
    async with working(deliveries, Asked(watch())) as desk:
        desk.provider.gate.clear()
        hanging = await desk.send(github(check_run()))
        await until(lambda: len(desk.provider.hints) == 1)
        ping = await desk.send(github({"zen": "Speak."}, "ping"))
        assert (await desk.settled(ping)).state is DeliveryState.IGNORED
        found = await deliveries.get(hanging)
        assert found is not None
        assert found.state is DeliveryState.RECEIVED


async def test_pauses_grow_to_a_limit_and_heed_what_the_forge_asks_for() -> None:
    backoff = Backoff(first=1.0, longest=60.0)
    assert [backoff.after(n) for n in (1, 2, 3, 7, 5000)] == [1.0, 2.0, 4.0, 60.0, 60.0]
    assert backoff.after(1, wanted=20.0) == 20.0
    assert backoff.after(1, wanted=9e9) == 60.0
    assert backoff.after(3, wanted=-5.0) == 4.0


@pytest.mark.parametrize("later", range(4))
async def test_it_ends_also_in_the_moment_it_is_woken(deliveries: Deliveries, later: int) -> None:
    desk = Desk(deliveries, Asked(watch()))
    async with asyncio.timeout(20), desk.dispatcher:
        await desk.settled(await desk.send(github({}, "ping")))
        await until(lambda: bool(desk.dispatcher._woken._waiters))
        desk.dispatcher.wake()
        for _ in range(later):
            await asyncio.sleep(0)


async def test_what_was_asked_but_not_settled_at_a_crash_is_asked_again(
    deliveries: Deliveries,
) -> None:
    provider = Asked(watch())
    provider.gate.clear()
    async with working(deliveries, provider) as desk:
        key = await desk.send(github(check_run()))
        await until(lambda: len(provider.hints) == 1)
    provider.gate.set()
    async with working(deliveries, provider) as desk:
        assert (await desk.settled(key)).state is DeliveryState.MATCHED
    assert len(provider.hints) == 2
    async with working(deliveries, provider) as desk:
        await desk.settled(await desk.send(github({}, "ping")))
    assert len(provider.hints) == 2


async def test_what_came_during_a_restart_is_worked_on_at_the_start(
    deliveries: Deliveries,
) -> None:
    desk = Desk(deliveries, Asked(watch()))
    # More than one batch.
    keys = [await desk.send(github(check_run(sha=f"{run:040x}"))) for run in range(BATCH + 50)]
    keys.append(await desk.send(github(check_run())))
    async with desk.dispatcher:
        found = await desk.all_settled(keys)
    assert [each.state for each in found[:-1]] == [DeliveryState.MATCHED] * len(found[:-1])
    assert {hint.sha for hint in desk.provider.hints} >= {SHA, f"{BATCH + 49:040x}"}


async def test_a_store_that_fails_for_a_while_loses_nothing(deliveries: Deliveries) -> None:
    disk = FullDisk(deliveries, 3)
    desk = Desk(disk, Asked(watch()))
    key = await desk.send(github(check_run()))
    async with desk.dispatcher:
        assert (await desk.settled(key)).state is DeliveryState.MATCHED
    assert disk.refusals == 0
    assert any("disk full" in text for text in desk.reported)


async def test_each_report_is_kept_though_the_question_is_one(deliveries: Deliveries) -> None:
    provider = Reporting()
    desk = Desk(deliveries, provider)
    keys = [
        await desk.send(simple(check("passed", name=f"unit-{n}")), "generic") for n in range(10)
    ]
    async with desk.dispatcher:
        found = await desk.all_settled(keys)
    assert provider.reports == keys
    assert len(provider.hints) == 1
    assert {each.state for each in found} == {DeliveryState.MATCHED}


async def test_a_report_that_is_wrong_is_broken_and_says_why(deliveries: Deliveries) -> None:
    provider = Reporting()
    async with working(deliveries, provider) as desk:
        request = simple(check())
        provider.broken[f"generic:{_hash(request[1])}"] = ValueError("`status` is odd")
        found = await desk.settled(await desk.send(request, "generic"))
    assert (found.state, found.outcome) == (DeliveryState.BROKEN, "`status` is odd")


def _hash(raw: bytes) -> str:
    return f"sha256-{hashlib.sha256(raw).hexdigest()}"


async def test_a_report_that_cannot_be_kept_yet_is_kept_later(deliveries: Deliveries) -> None:
    provider = Reporting()
    async with working(deliveries, provider) as desk:
        request = simple(check())
        key = f"generic:{_hash(request[1])}"
        provider.broken[key] = OSError("disk full")
        assert await desk.send(request, "generic") == key
        await until(lambda: any("disk full" in text for text in desk.reported))
        other = await desk.send(simple(check("failed")), "generic")
        await desk.settled(other)
        provider.broken.clear()
        await desk.settled(key)
    assert provider.reports == [other, key]


async def test_odd_bodies_are_settled_whatever_is_in_them(deliveries: Deliveries) -> None:
    odd: list[Any] = [None, True, -1, 1e400, "x", [], {}, [[]], {"sha": {"a": 1}}, "\ud800"]
    events = ("check_run", "check_suite", "workflow_run", "status", "pull_request", "push")
    desk = Desk(deliveries, Asked(watch()))
    keys = []
    for event in events:
        for value in odd:
            body = {
                "action": value, "sha": value, "ref": value, "number": value, "branches": value,
                "repository": value, "pull_request": value, event: value,
            }  # fmt: skip
            keys.append(await desk.send(github(body, event)))
            inner = {"head_sha": value, "head": value, "pull_requests": value, "number": value}
            keys.append(await desk.send(github({event: inner}, event)))
            keys.append(await desk.send(simple({**check(), "sha": value, "at": value}), "generic"))
    async with desk.dispatcher:
        found = await desk.all_settled(keys)
    assert len(found) == len(keys)


async def test_deliveries_are_forgotten_after_90_days(deliveries: Deliveries) -> None:
    desk = Desk(deliveries, Asked(watch()))
    old = await desk.send(github(check_run(run=1)))
    async with desk.dispatcher:
        await desk.settled(old)
        desk.clock.advance(KEPT_FOR - 10)
        young = await desk.send(github(check_run(run=2)))
        await desk.settled(young)
        assert await deliveries.get(old) is not None
        desk.clock.advance(86_400)
        desk.dispatcher.wake()

        async def forgotten() -> bool:
            return await deliveries.get(old) is None

        await until(forgotten, "the old one is forgotten")
    assert await deliveries.get(young) is not None


async def test_a_form_is_worked_on_like_any_other(deliveries: Deliveries) -> None:
    raw = urlencode({"payload": json.dumps(check_run())}).encode()
    headers = {
        **github({})[0],
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Hub-Signature-256": signature(raw),
    }
    async with working(deliveries, Asked(watch())) as desk:
        found = await desk.settled(await desk.send((headers, raw)))
    assert found.outcome == "checked at once for agent-T1"
