"""What becomes of kept deliveries: each is worked on, none is lost, copies are one question."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from ci.dispatch import BATCH, Dispatcher, Patience
from ci.errors import UnreachableError
from ci.inbox import KEPT_FOR, Delivery, DeliveryState, Hint
from ci.interface import Watch
from ci.receiver import Receiver
from tests.ci.contract import until
from tests.ci.inboxes import (
    BEGIN,
    BRANCH,
    OTHER,
    REPO,
    SECRET,
    SHA,
    Clock,
    check,
    check_run,
    github,
    inbox,
    signature,
    simple,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from lifecycle.store.port import Inbox

QUICK = Patience(first=0.001, longest=0.01)


class Asked:
    """A provider as far as deliveries are concerned: it knows who waits, and may be unreachable."""

    def __init__(self, *watches: Watch) -> None:
        self.watches = list(watches)
        self.hints: list[Hint] = []
        self.fails: dict[str, Exception] = {}
        self.gate = asyncio.Event()
        self.gate.set()

    async def take(self, hint: Hint) -> tuple[str, ...]:
        self.hints.append(hint)
        await self.gate.wait()
        fault = self.fails.get(hint.sha)
        if fault is not None:
            raise fault
        return tuple(
            each.key
            for each in self.watches
            if hint.concerns(branch=each.branch, sha=each.sha, number=each.number)
        )


class Reporting(Asked):
    """One that also keeps what deliveries say."""

    def __init__(self) -> None:
        super().__init__()
        self.reports: list[str] = []
        self.broken: dict[str, Exception] = {}

    async def report(self, delivery: Delivery) -> bool:
        fault = self.broken.get(delivery.key)
        if fault is not None:
            raise fault
        self.reports.append(delivery.key)
        return True


class FullDisk:
    """An inbox on a disk that is full for the next few changes."""

    def __init__(self, deliveries: Inbox, refusals: int) -> None:
        self._deliveries = deliveries
        self.refusals = refusals

    def __getattr__(self, name: str) -> Any:
        return getattr(self._deliveries, name)

    async def settle(self, *args: Any, **named: Any) -> None:
        if self.refusals:
            self.refusals -= 1
            raise OSError("disk full")
        await self._deliveries.settle(*args, **named)


class Weighed:
    """An inbox that notes what is read of it."""

    def __init__(self, deliveries: Inbox) -> None:
        self._deliveries = deliveries
        self.read: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._deliveries, name)

    async def waiting(self, **named: Any) -> tuple[Delivery, ...]:
        found = await self._deliveries.waiting(**named)
        self.read += [each.key for each in found]
        return found


class Desk:
    """A receiver, an inbox and a dispatcher between them."""

    def __init__(self, deliveries: Inbox, provider: Asked) -> None:
        self.deliveries = deliveries
        self.provider = provider
        self.clock = Clock()
        self.reported: list[str] = []
        self.dispatcher = Dispatcher(
            deliveries,
            provider,  # type: ignore[arg-type]  # as much of a provider as is asked
            repos=lambda provider: REPO if provider == "github" else "",
            now=self.clock.now,
            report=self.reported.append,
            patience=QUICK,
        )
        self.receiver = Receiver(
            deliveries,
            secrets=dict.fromkeys(("github", "generic"), lambda: (SECRET,)),
            now=self.clock.now,
            wake=self.dispatcher.wake,
        )

    async def send(self, request: tuple[dict[str, str], bytes], provider: str = "github") -> str:
        reception = await self.receiver.take(provider, *request)
        assert reception.status == 202
        return reception.key

    async def settled(self, key: str) -> Delivery:
        """Wait until it is worked on."""
        async with asyncio.timeout(20):
            while True:
                found = await self.deliveries.get(key)
                assert found is not None
                if found.state is not DeliveryState.RECEIVED:
                    return found
                await asyncio.sleep(0.002)

    async def all_settled(self, keys: Iterable[str]) -> list[Delivery]:
        return [await self.settled(key) for key in keys]


def watch(key: str = "agent-T1", sha: str = SHA, **more: Any) -> Watch:
    return Watch(key=key, branch=BRANCH, sha=sha, **more)


@pytest.fixture
async def deliveries(tmp_path: Path) -> AsyncIterator[Inbox]:
    async with inbox(tmp_path) as opened:
        yield opened


@contextlib.asynccontextmanager
async def working(deliveries: Inbox, provider: Asked) -> AsyncIterator[Desk]:
    desk = Desk(deliveries, provider)
    async with desk.dispatcher:
        yield desk


async def test_a_delivery_wakes_who_waits_for_it(deliveries: Inbox) -> None:
    async with working(deliveries, Asked(watch())) as desk:
        found = await desk.settled(await desk.send(github(check_run())))
    assert (found.state, found.outcome) == (DeliveryState.MATCHED, "woke agent-T1")
    assert found.settled_at == desk.clock.time
    assert [hint.sha for hint in desk.provider.hints] == [SHA]


async def test_a_hundred_copies_are_one_row_and_one_question(deliveries: Inbox) -> None:
    async with working(deliveries, Asked(watch())) as desk:
        request = github(check_run(), delivery="guid-1")
        [key] = {await desk.send(request) for _ in range(100)}
        await desk.settled(key)
        for _ in range(100):
            await desk.send(request)
    assert len(desk.provider.hints) == 1


async def test_a_hundred_deliveries_about_one_thing_are_one_question(deliveries: Inbox) -> None:
    desk = Desk(deliveries, Asked(watch()))
    keys = [await desk.send(github(check_run(run=run))) for run in range(100)]
    async with desk.dispatcher:
        found = await desk.all_settled(keys)
    assert {each.state for each in found} == {DeliveryState.MATCHED}
    assert len(desk.provider.hints) == 1


async def test_what_comes_while_it_is_asked_is_asked_about_again(deliveries: Inbox) -> None:
    async with working(deliveries, Asked(watch())) as desk:
        desk.provider.gate.clear()
        first = await desk.send(github(check_run(run=1)))
        await until(lambda: len(desk.provider.hints) == 1)
        # The answer on its way may be older than this.
        second = await desk.send(github(check_run(run=2)))
        desk.provider.gate.set()
        await desk.all_settled([first, second])
    assert len(desk.provider.hints) == 2


async def test_what_nobody_waits_for_is_matched_when_somebody_does(deliveries: Inbox) -> None:
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


async def test_what_nobody_waited_for_is_matched_after_a_restart_too(deliveries: Inbox) -> None:
    body = {"action": "closed", "pull_request": {"number": 7, "head": {"ref": "x"}}}
    async with working(deliveries, Asked()) as desk:
        key = await desk.send(github(body, "pull_request"))
        await desk.settled(key)
    async with working(deliveries, Asked()) as desk:
        assert await desk.dispatcher.appeared(watch(number=8)) == ()
        assert await desk.dispatcher.appeared(watch(number=7)) == (key,)


async def test_an_event_of_no_interest_is_ignored(deliveries: Inbox) -> None:
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
    deliveries: Inbox,
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


async def test_the_repository_may_be_spelt_otherwise_or_be_renamed(deliveries: Inbox) -> None:
    async with working(deliveries, Asked(watch())) as desk:
        spelt = await desk.send(github(check_run(repo=REPO.upper())))
        renamed = await desk.send(github(check_run(repo="acme/gadgets")))
        found = await desk.all_settled([spelt, renamed])
    assert {each.state for each in found} == {DeliveryState.MATCHED}
    assert "acme/gadgets" in found[1].outcome


async def test_an_unreachable_forge_loses_nothing_and_holds_up_nothing_else(
    deliveries: Inbox,
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
        async with asyncio.timeout(20):
            while await deliveries.waiting():  # noqa: ASYNC110  # the store tells nobody
                await asyncio.sleep(0.002)
    assert any("the forge sleeps" in text for text in desk.reported)


async def test_what_waits_for_an_unreachable_forge_is_read_once(deliveries: Inbox) -> None:
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


async def test_a_forge_that_hangs_does_not_hold_up_the_others(deliveries: Inbox) -> None:
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
    patience = Patience(first=1.0, longest=60.0)
    assert [patience.after(n) for n in (1, 2, 3, 7, 5000)] == [1.0, 2.0, 4.0, 60.0, 60.0]
    assert patience.after(1, wanted=20.0) == 20.0
    assert patience.after(1, wanted=9e9) == 60.0
    assert patience.after(3, wanted=-5.0) == 4.0


@pytest.mark.parametrize("later", range(4))
async def test_it_ends_also_in_the_moment_it_is_woken(deliveries: Inbox, later: int) -> None:
    desk = Desk(deliveries, Asked(watch()))
    async with asyncio.timeout(20), desk.dispatcher:
        await desk.settled(await desk.send(github({}, "ping")))
        await until(lambda: bool(desk.dispatcher._woken._waiters))
        desk.dispatcher.wake()
        for _ in range(later):
            await asyncio.sleep(0)


async def test_what_was_asked_but_not_settled_at_a_crash_is_asked_again(deliveries: Inbox) -> None:
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


async def test_what_came_during_a_restart_is_worked_on_at_the_start(deliveries: Inbox) -> None:
    desk = Desk(deliveries, Asked(watch()))
    # More than one batch.
    keys = [await desk.send(github(check_run(sha=f"{run:040x}"))) for run in range(BATCH + 50)]
    keys.append(await desk.send(github(check_run())))
    async with desk.dispatcher:
        found = await desk.all_settled(keys)
    assert [each.state for each in found[:-1]] == [DeliveryState.MATCHED] * len(found[:-1])
    assert {hint.sha for hint in desk.provider.hints} >= {SHA, f"{BATCH + 49:040x}"}


async def test_a_store_that_fails_for_a_while_loses_nothing(deliveries: Inbox) -> None:
    disk = FullDisk(deliveries, 3)
    desk = Desk(disk, Asked(watch()))
    key = await desk.send(github(check_run()))
    async with desk.dispatcher:
        assert (await desk.settled(key)).state is DeliveryState.MATCHED
    assert disk.refusals == 0
    assert any("disk full" in text for text in desk.reported)


async def test_each_report_is_kept_though_the_question_is_one(deliveries: Inbox) -> None:
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


async def test_a_report_that_is_wrong_is_broken_and_says_why(deliveries: Inbox) -> None:
    provider = Reporting()
    async with working(deliveries, provider) as desk:
        request = simple(check())
        provider.broken[f"generic:{_hash(request[1])}"] = ValueError("`status` is odd")
        found = await desk.settled(await desk.send(request, "generic"))
    assert (found.state, found.outcome) == (DeliveryState.BROKEN, "`status` is odd")


def _hash(raw: bytes) -> str:
    return f"sha256-{hashlib.sha256(raw).hexdigest()}"


async def test_a_report_that_cannot_be_kept_yet_is_kept_later(deliveries: Inbox) -> None:
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


async def test_odd_bodies_are_settled_whatever_is_in_them(deliveries: Inbox) -> None:
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


async def test_deliveries_are_forgotten_after_90_days(deliveries: Inbox) -> None:
    desk = Desk(deliveries, Asked(watch()))
    old = await desk.send(github(check_run(run=1)))
    async with desk.dispatcher:
        await desk.settled(old)
        desk.clock.step(KEPT_FOR - 10)
        young = await desk.send(github(check_run(run=2)))
        await desk.settled(young)
        assert await deliveries.get(old) is not None
        desk.clock.step(86_400)
        desk.dispatcher.wake()
        async with asyncio.timeout(20):
            while await deliveries.get(old) is not None:  # noqa: ASYNC110  # as above
                await asyncio.sleep(0.002)
    assert await deliveries.get(young) is not None


async def test_a_form_is_worked_on_like_any_other(deliveries: Inbox) -> None:
    raw = urlencode({"payload": json.dumps(check_run())}).encode()
    headers = {
        **github({})[0],
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Hub-Signature-256": signature(raw),
    }
    async with working(deliveries, Asked(watch())) as desk:
        assert (await desk.settled(await desk.send((headers, raw)))).outcome == "woke agent-T1"
