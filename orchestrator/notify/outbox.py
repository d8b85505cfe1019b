"""Sends what is stored: to each channel in order, again until it is taken, never twice unasked.

Owns when something is sent: retries, quiet hours, the most in an hour, folding. A message is noted
as sent right after its channel took it; who dies in between sends it once more, under the same id.
Costs nothing while nothing waits.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lifecycle.errors import StoreError
from lifecycle.notify.channel import with_names
from lifecycle.notify.message import SEVERAL, Notification, SendState, id_of
from orchestrator.notify.errors import ChannelError
from orchestrator.notify.forms import message, reached_at
from orchestrator.notify.quiet_hours import quiet_until

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from lifecycle.notify.channel import NotifyChannel
    from lifecycle.notify.message import Send
    from lifecycle.services import SharedServices
    from lifecycle.store.sqlite.notifications import Waiting
    from orchestrator.notify.channels import ChannelSender

DELAYS = (5.0, 30.0, 120.0, 600.0, 1800.0, 3600.0)
"""Seconds until a channel that failed is tried again; the last of them from then on."""
GIVEN_UP_AFTER = 3 * 86_400.0
"""Seconds after which a message that a channel never took is dropped."""
BEHIND_AFTER = 3
"""Lasting refusals of a message after which the others go before it."""
FOLD_ABOVE = 3
"""Messages that wait together and go one by one; more of them go as one."""
HOUR = 3600.0
STORE_RETRY = 30.0
"""Seconds until records that could not be used are used again."""
PATIENCE = 10.0
"""Seconds that a runner which ends by itself waits for what can be sent."""
IN_HURRY = 1.0
"""Seconds that one does which a person ended."""
_LOOK = 0.1
_LISTED = 20
"""Messages of which the text stands in one that is folded."""
_LINE = 160
"""Characters of each there: many a service takes no more than 4,000 in all."""


@dataclass(slots=True)
class Outbox:
    """The channels of one runner, each with a task while something waits for it."""

    shared: SharedServices
    sender: ChannelSender
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _woken: dict[str, asyncio.Event] = field(default_factory=dict)
    _failing: set[str] = field(default_factory=set)
    """Channels of which it was told that they fail."""
    _unnoted: set[tuple[str, int]] = field(default_factory=set)
    """What was sent while the store could not note it: not sent again."""
    _ending: bool = False

    def channels(self) -> dict[str, NotifyChannel]:
        """Return the channels of the settings as they are now."""
        return with_names(self.shared.settings().notify)

    def wake(self, names: Sequence[str]) -> None:
        """Send what waits for these channels."""
        for name in names:
            if name in self._tasks:
                self._woken[name].set()
            elif not self._ending:
                self._woken[name] = asyncio.Event()
                self._tasks[name] = asyncio.get_running_loop().create_task(
                    self._keep_sending(name), name=f"notifications for {name}"
                )

    async def aclose(self, hurried: Callable[[], bool] = lambda: False) -> None:
        """Send what can be sent now; the rest is for the next runner."""
        self._ending = True
        for woken in self._woken.values():
            woken.set()
        await within_patience(tuple(self._tasks.values()), hurried)

    async def send_unstored(self, found: Notification, hurried: Callable[[], bool]) -> None:
        """Send where nothing can be stored any more: once, and all channels at a time."""
        shared, start = self.shared, asyncio.get_running_loop().create_task
        told = message(found, repository=str(self.sender.repo), address=address_of(shared))

        async def send(name: str, channel: NotifyChannel) -> None:
            try:
                await self.sender.send(channel, told)
            except ChannelError as problem:
                reason = shared.masker.mask(str(problem))
                shared.report("notify_failed", channel=name, reason=reason)

        channels = self.channels().items()
        sending = [start(send(name, each)) for name, each in channels if each.takes(found)]
        await within_patience(sending, hurried)

    async def _keep_sending(self, name: str) -> None:
        try:
            while True:
                self._woken[name].clear()
                try:
                    until = await self._next(name)
                except StoreError:  # told by who decides; what waits is still there
                    until = self.shared.clock.now() + STORE_RETRY
                if until is None:
                    if self._woken[name].is_set():
                        continue
                    return
                if until > self.shared.clock.now():
                    if self._ending:
                        return
                    await self._wait(name, until)
        finally:
            del self._tasks[name], self._woken[name]

    async def _wait(self, name: str, until: float) -> None:
        timer = self.shared.clock.call_at(until, self._woken[name].set)
        try:
            await self._woken[name].wait()
        finally:
            timer.cancel()

    async def _next(self, name: str) -> float | None:
        """Send one thing, if it may be now; return when to look again, None if nothing waits."""
        store, now = self.shared.store.notifications, self.shared.clock.now()
        waiting = await store.waiting(name)
        if not waiting:
            return None
        if (channel := self.channels().get(name)) is None:
            gone = f"the settings have no channel {name} any more"
            sends = [send for send, _ in waiting]
            await store.settle(sends, SendState.DROPPED, at=now, problem=gone)
            return None
        quiet = quiet_until(channel.quiet_span, now)
        if quiet > now:
            waiting = tuple(each for each in waiting if channel.is_urgent(each[1]))
        if not waiting:
            return quiet
        line = next_in_line(waiting, now)
        until = await self._held_until(name, channel, line[0][0], now)
        if until > now:
            return until
        if len(line) > FOLD_ABOVE and not line[0][0].tries:
            await self._fold(name, line, now)
        else:
            await self._send(name, channel, line[0])
        return now

    async def _held_until(
        self, name: str, channel: NotifyChannel, first: Send, now: float
    ) -> float:
        """Return until when nothing may be sent; 0 if something may be now."""
        if until := due(first, now):
            return until
        store, most = self.shared.store.notifications, channel.most_per_hour
        taken = await store.sent_between(name, now - HOUR, now, limit=most)
        return taken[-1] + HOUR if len(taken) >= most else 0.0

    async def _fold(self, name: str, waiting: Sequence[Waiting], now: float) -> None:
        found = [each for _, each in waiting]
        lines = [_cut(each.text) for each in found[:_LISTED]]
        if more := len(found) - len(lines):
            lines.append(f"... and {more} more")
        one = Notification(
            id=id_of("several", name, *(each.id for each in found)),
            at=now,
            type=SEVERAL,
            text="\n".join((f"{len(found)} messages:", *lines)),
            command="loopwright notify list",
        )
        await self.shared.store.notifications.fold([send for send, _ in waiting], one, name, at=now)

    async def _send(self, name: str, channel: NotifyChannel, waiting: Waiting) -> None:
        shared, (send, found) = self.shared, waiting
        store = shared.store.notifications
        told = message(found, repository=str(self.sender.repo), address=address_of(shared))
        key = (name, send.ord)
        shared.checkpoint("before notification is sent")
        try:
            if key not in self._unnoted:
                await self.sender.send(channel, told)
        except ChannelError as problem:
            said = shared.masker.mask(str(problem))
            await self._failed(name, waiting, said, problem)
            return
        self._unnoted.add(key)
        shared.checkpoint("after notification is sent")
        await store.settle([send], SendState.SENT, at=shared.clock.now())
        self._unnoted.discard(key)
        shared.checkpoint("after notification is noted")
        if send.tries:
            self._failing.discard(name)
            shared.report("notify_recovered", channel=name, notification=found.id)

    async def _failed(
        self, name: str, waiting: Waiting, problem: str, failure: ChannelError
    ) -> None:
        """Note it, and tell of it once, until the channel takes something again."""
        send, found = waiting
        now = self.shared.clock.now()
        store = self.shared.store.notifications
        if now - found.at > GIVEN_UP_AFTER:
            await store.settle([send], SendState.DROPPED, at=now, problem=problem)
            return
        delay = max(DELAYS[min(send.tries, len(DELAYS) - 1)], min(failure.wait, DELAYS[-1]))
        await store.retry([send], due_at=now + delay, problem=problem, refused=failure.refused)
        if name not in self._failing:
            self._failing.add(name)
            self.shared.report("notify_failed", channel=name, reason=problem)


def next_in_line(waiting: Sequence[Waiting], now: float) -> Sequence[Waiting]:
    """Return what goes next, in order: what the channel keeps refusing holds up nothing else."""
    front = [each for each in waiting if each[0].refused < BEHIND_AFTER]
    behind = [each for each in waiting if each[0].refused >= BEHIND_AFTER]
    behind.sort(key=lambda each: due(each[0], now))
    lines = [line for line in (front, behind[:1]) if line]
    return min(lines, key=lambda line: due(line[0][0], now))


def due(send: Send, now: float) -> float:
    """Return when something that failed is tried again; 0 if it may be now."""
    # A clock that was set back makes nobody wait longer than was meant.
    return send.due_at if send.tries and now < send.due_at <= now + DELAYS[-1] else 0.0


async def within_patience(
    tasks: Collection[asyncio.Task[None]], hurried: Callable[[], bool]
) -> None:
    """Wait until these have ended, less where somebody is in a hurry; then end what is left."""
    now = asyncio.get_running_loop().time
    left, end = set(tasks), now() + PATIENCE
    while left and now() < end:
        if hurried():
            end = min(end, now() + IN_HURRY)
        _, left = await asyncio.wait(left, timeout=_LOOK)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


def _cut(text: str) -> str:
    return text if len(text) <= _LINE else f"{text[: _LINE - 3]}..."


def address_of(shared: SharedServices) -> str:
    """Return the address at which people reach the pages; empty while nothing serves them."""
    return reached_at(shared.settings().public_url, shared.address)


def names_for(found: Notification, channels: dict[str, NotifyChannel]) -> tuple[str, ...]:
    """Name the channels that take a notification."""
    return tuple(name for name, channel in channels.items() if channel.takes(found))
