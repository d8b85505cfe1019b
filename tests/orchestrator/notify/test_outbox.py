"""When something is sent: again until it is taken, not in quiet hours, not too much at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast
from zoneinfo import ZoneInfo

import pytest

from lifecycle.clock import SteppedClock
from lifecycle.notify.channel import NotifyChannel
from lifecycle.notify.message import SEVERAL, Notification, SendState, id_of
from lifecycle.settings import Settings
from lifecycle.store.sqlite.store import SqliteStore
from orchestrator.notify.errors import ChannelError
from orchestrator.notify.outbox import BEHIND_AFTER, DELAYS, GIVEN_UP_AFTER, HOUR, Outbox
from orchestrator.notify.quiet_hours import quiet_until
from runtime.masking.masker import Masker
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lifecycle.services import SharedServices
    from orchestrator.notify.channels import ChannelSender
    from orchestrator.notify.forms import MessageForm

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC).timestamp()


@dataclass
class Sender:
    """Takes what it is given, or refuses."""

    repo: str = "/home/me/shop"
    refuse: str = ""
    wait: float = 0.0
    refuses: set[str] = field(default_factory=set)
    """Texts that it refuses for good."""
    got: list[MessageForm] = field(default_factory=list)
    tries: int = 0

    async def send(self, channel: NotifyChannel, told: MessageForm) -> None:
        del channel
        self.tries += 1
        await asyncio.sleep(0)
        if self.refuse:
            raise ChannelError(self.refuse, wait=self.wait)
        if told["text"] in self.refuses:
            raise ChannelError("it answered 400", refused=True)
        self.got.append(told)


@dataclass
class Shared:
    """As much of a runner as an outbox needs."""

    clock: SteppedClock
    channel: NotifyChannel
    store: SqliteStore = field(default_factory=SqliteStore.in_memory)
    masker: Masker = field(default_factory=Masker)
    reports: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    address: str = ""

    def settings(self) -> Settings:
        return Settings(notify=(self.channel,))

    def report(self, event: str, /, **fields: object) -> None:
        self.reports.append((event, fields))

    def checkpoint(self, place: str) -> None:
        del place


@dataclass
class Bench:
    """One outbox with one channel."""

    shared: Shared
    sender: Sender
    outbox: Outbox

    async def tell(self, *numbers: int, **more: Any) -> None:
        for number in numbers:
            found = Notification(
                **{
                    "id": id_of(number),
                    "at": self.shared.clock.now(),
                    "type": "needs_you",
                    "reason": "question",
                    "text": f"T{number} asks",
                    **more,
                }
            )
            await self.shared.store.notifications.add(found, ["phone"], due_at=0.0)
        self.outbox.wake(["phone"])

    async def sends(self, count: int) -> list[MessageForm]:
        await until(lambda: len(self.sender.got) >= count, lambda: self.sender.got)
        return self.sender.got

    async def rests(self) -> None:
        """Let everything happen that happens now."""
        for _ in range(200):
            await asyncio.sleep(0)

    async def later(self, seconds: float) -> None:
        await self.rests()
        self.shared.clock.advance(seconds)
        await self.rests()


@pytest.fixture
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    given = getattr(request, "param", {})
    channel = NotifyChannel(name="phone", bell=True, **given)
    shared = Shared(SteppedClock(NOON), channel)
    sender = Sender()
    outbox = Outbox(cast("SharedServices", shared), cast("ChannelSender", sender))
    yield Bench(shared, sender, outbox)
    await outbox.aclose()


def with_channel(**given: object) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("bench", [given], indirect=True)


async def test_what_waits_goes_in_order_and_then_nothing_is_left_running(bench: Bench) -> None:
    await bench.tell(1, 2, 3)
    assert [each["text"] for each in await bench.sends(3)] == ["T1 asks", "T2 asks", "T3 asks"]
    await bench.rests()
    assert not bench.outbox._tasks
    assert await bench.shared.store.notifications.channels_waiting() == ()


async def test_a_message_that_is_always_refused_holds_up_the_others_for_three_tries_only(
    bench: Bench,
) -> None:
    bench.sender.refuses = {"T1 asks"}
    await bench.tell(1, 2, 3)
    await until(lambda: bench.sender.tries == 1)
    await bench.later(DELAYS[0])
    assert not bench.sender.got
    await bench.later(DELAYS[1])
    assert [each["text"] for each in await bench.sends(2)] == ["T2 asks", "T3 asks"]
    assert [event for event, _ in bench.shared.reports] == ["notify_failed"]
    [use] = await bench.shared.store.notifications.uses()
    assert (use.waiting, use.tries, use.failing_since) == (1, BEHIND_AFTER, NOON)
    await bench.tell(4)
    assert (await bench.sends(3))[-1]["text"] == "T4 asks"
    # A later runner knows it, too.
    [(send, _)] = await bench.shared.store.notifications.waiting("phone")
    assert send.refused == BEHIND_AFTER
    tries = bench.sender.tries
    await bench.later(DELAYS[2])
    assert bench.sender.tries == tries + 1
    bench.sender.refuses = set()
    await bench.later(DELAYS[3])
    assert (await bench.sends(4))[-1]["text"] == "T1 asks"
    assert [event for event, _ in bench.shared.reports] == ["notify_failed", "notify_recovered"]


async def test_what_is_always_refused_is_dropped_in_the_end(bench: Bench) -> None:
    bench.sender.refuses = {"T1 asks"}
    await bench.tell(1)
    await bench.rests()
    while bench.shared.clock.now() < NOON + GIVEN_UP_AFTER + 2 * DELAYS[-1]:
        await bench.later(DELAYS[-1])
    assert await bench.shared.store.notifications.channels_waiting() == ()
    [(_, _, [send])] = await bench.shared.store.notifications.list()
    assert (send.state, send.problem) == (SendState.DROPPED, "it answered 400")


async def test_a_channel_that_cannot_be_reached_keeps_the_order(bench: Bench) -> None:
    bench.sender.refuse = "no route to host"
    await bench.tell(1, 2)
    await until(lambda: bench.sender.tries == 1)
    for delay in DELAYS[:4]:
        await bench.later(delay)
    bench.sender.refuse = ""
    await bench.later(DELAYS[4])
    assert [each["text"] for each in await bench.sends(2)] == ["T1 asks", "T2 asks"]


async def test_a_channel_that_fails_is_told_once_and_tried_again(bench: Bench) -> None:
    bench.sender.refuse = "no route to host"
    await bench.tell(1)
    await until(lambda: bench.sender.tries == 1)
    for number, delay in enumerate(DELAYS, 2):
        await bench.later(delay - 1.0)
        assert bench.sender.tries == number - 1
        await bench.later(1.5)
        assert bench.sender.tries == number
    assert [event for event, _ in bench.shared.reports] == ["notify_failed"]
    (use,) = await bench.shared.store.notifications.uses()
    assert (use.problem, use.failing_since) == ("no route to host", NOON)

    bench.sender.refuse = ""
    await bench.later(HOUR + 1.0)
    assert [each["id"] for each in await bench.sends(1)] == [id_of(1)]
    await bench.rests()
    assert [event for event, _ in bench.shared.reports] == ["notify_failed", "notify_recovered"]


async def test_a_channel_that_never_works_is_given_up_after_days(bench: Bench) -> None:
    bench.sender.refuse = "gone"
    await bench.tell(1)
    await until(lambda: bench.sender.tries == 1)
    await bench.later(GIVEN_UP_AFTER + 10.0)
    ((_, _, (send,)),) = await bench.shared.store.notifications.list()
    assert (send.state, send.problem) == (SendState.DROPPED, "gone")


async def test_a_channel_that_says_when_is_asked_no_sooner(bench: Bench) -> None:
    bench.sender.refuse, bench.sender.wait = "too many", 900.0
    await bench.tell(1)
    await until(lambda: bench.sender.tries == 1)
    await bench.later(899.0)
    assert bench.sender.tries == 1
    await bench.later(2.0)
    assert bench.sender.tries == 2


async def test_what_is_folded_is_short_enough_for_any_service(bench: Bench) -> None:
    await bench.tell(*range(30), text="x" * 500)
    (one,) = await bench.sends(1)
    assert len(one["text"]) < 4000


async def test_many_at_once_go_as_one(bench: Bench) -> None:
    await bench.tell(1, 2, 3, 4, 5)
    (one,) = await bench.sends(1)
    await bench.rests()
    assert (one["type"], len(bench.sender.got)) == (SEVERAL, 1)
    assert one["text"].splitlines()[0] == "5 messages:"
    assert "T5 asks" in one["text"]


@with_channel(most_per_hour=2)
async def test_no_more_than_so_many_go_in_an_hour(bench: Bench) -> None:
    for number in (1, 2, 3, 4):
        await bench.tell(number)
        await bench.rests()
    assert len(bench.sender.got) == 2
    await bench.later(HOUR + 1.0)
    assert [each["text"] for each in await bench.sends(4)][2:] == ["T3 asks", "T4 asks"]


@with_channel(most_per_hour=1)
async def test_a_clock_that_is_set_back_holds_nothing_up(bench: Bench) -> None:
    await bench.tell(1)
    await bench.sends(1)
    await bench.rests()
    bench.shared.clock = SteppedClock(NOON - 30 * 86_400.0)
    await bench.tell(2)
    assert len(await bench.sends(2)) == 2


async def test_a_retry_is_not_put_off_by_a_clock_that_is_set_back(bench: Bench) -> None:
    bench.sender.refuse = "no route to host"
    await bench.tell(1)
    await until(lambda: bench.sender.tries == 1)
    await bench.outbox.aclose()
    bench.sender.refuse = ""
    bench.shared.clock = SteppedClock(NOON - 30 * 86_400.0)
    again = Outbox(cast("SharedServices", bench.shared), cast("ChannelSender", bench.sender))
    again.wake(["phone"])
    assert len(await bench.sends(1)) == 1
    await again.aclose()


async def test_hundreds_at_once_are_a_few_messages(bench: Bench) -> None:
    await bench.tell(*range(500))
    await until(lambda: not bench.outbox._tasks)
    got = bench.sender.got
    assert len(got) == 1
    assert got[0]["text"].startswith("500 messages:")
    assert len(got[0]["text"]) < 2000


@with_channel(quiet="00:00-23:59", urgent=("runner_stopped",))
async def test_in_quiet_hours_only_what_is_urgent_goes(bench: Bench) -> None:
    await bench.tell(1)
    await bench.tell(2, type="runner_stopped", reason="")
    assert [each["type"] for each in await bench.sends(1)] == ["runner_stopped"]
    await bench.rests()
    assert len(bench.sender.got) == 1
    left = quiet_until(bench.shared.channel.quiet_span, bench.shared.clock.now()) - NOON
    await bench.later(left + 1.0)
    assert [each["text"] for each in await bench.sends(2)][1] == "T1 asks"


async def test_what_waits_for_a_channel_that_is_gone_is_dropped(bench: Bench) -> None:
    bench.shared.channel = NotifyChannel(name="other", bell=True)
    await bench.tell(1)
    await bench.rests()
    ((_, _, (send,)),) = await bench.shared.store.notifications.list()
    assert send.state is SendState.DROPPED
    assert "phone" in send.problem


async def test_the_link_is_that_of_the_server_or_of_its_public_address(bench: Bench) -> None:
    await bench.tell(1, task_id="T1")
    bench.shared.address = "http://127.0.0.1:4747"
    await bench.rests()
    await bench.tell(2, task_id="T2")
    first, second = await bench.sends(2)
    assert {first["url"], second["url"]} <= {"", "http://127.0.0.1:4747/t/T1", second["url"]}
    assert second["url"] == "http://127.0.0.1:4747/t/T2"


@pytest.mark.parametrize(
    ("span", "at", "ends"),
    [
        ("22:00-07:00", "2026-11-20 23:10", "2026-11-21 07:00"),
        ("22:00-07:00", "2026-11-21 06:59", "2026-11-21 07:00"),
        ("22:00-07:00", "2026-11-21 07:00", ""),
        ("22:00-07:00", "2026-11-21 21:59", ""),
        ("12:00-13:30", "2026-11-21 12:00", "2026-11-21 13:30"),
        # The clock is set forward in this night: seven o'clock comes an hour earlier.
        ("22:00-07:00", "2026-03-28 23:00", "2026-03-29 07:00"),
        # It is set back: the night has an hour more.
        ("22:00-07:00", "2026-10-24 23:00", "2026-10-25 07:00"),
        ("22:00-02:30", "2026-10-25 02:29", "2026-10-25 02:30"),
        ("00:00-00:01", "2026-11-21 00:00", "2026-11-21 00:01"),
    ],
)
def test_quiet_hours_end_by_the_clock_on_the_wall(span: str, at: str, ends: str) -> None:
    zone = ZoneInfo("Europe/Berlin")

    def instant(text: str) -> float:
        return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()

    quiet = NotifyChannel(bell=True, quiet=span).quiet_span
    assert quiet_until(quiet, instant(at), zone) == (instant(ends) if ends else 0.0)
