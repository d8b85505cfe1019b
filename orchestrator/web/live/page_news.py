"""What changes on open pages: each piece is made once, and given to all pages that show it.

A channel is a view (`board`, `task:T11`); its maker says which pieces changed. Owns the numbers by
which a page that was away catches up. Must not know HTML.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator

    from lifecycle.reporting import Committed, Report

    Pieces = Awaitable[list[tuple[str, str]]]
    Maker = Callable[[Collection[str], bool], Pieces]

KEPT = 500
"""Pieces of a channel that a page can still be given after it was away."""
TOGETHER = 0.04
"""Seconds in which decisions are put together before they are shown."""
LOOK_EVERY = 1.0
"""Seconds between two looks at what agents do, which makes no news."""
BEAT = 5.0
"""Seconds after which a page is told that the stream lives."""


@dataclass(slots=True)
class Channel:
    """One view, as it changes while pages show it."""

    make: Maker
    """Given the agents that something was decided about, and whether to look at what they do."""
    latest: deque[tuple[int, str, str]] = field(default_factory=lambda: deque(maxlen=KEPT))
    number: int = 0
    changed: set[str] = field(default_factory=set)
    pages: int = 0
    woken: set[asyncio.Event] = field(default_factory=set)
    task: asyncio.Task[None] | None = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)


class PageNews:
    """The channels of one server."""

    def __init__(self, boot: str, report: Report) -> None:
        self._boot = boot
        self._report = report
        self._channels: dict[str, Channel] = {}
        self.closed = False

    @property
    def pages(self) -> int:
        """How many pages are open."""
        return sum(each.pages for each in self._channels.values())

    def news(self, news: Committed) -> None:
        """Take what was decided."""
        for each in self._channels.values():
            each.changed.add(news.agent_id)
            each.wake.set()

    def close(self) -> None:
        """End all streams."""
        self.closed = True
        for channel in self._channels.values():
            channel.wake.set()
            for each in channel.woken:
                each.set()

    async def aclose(self) -> None:
        """End all streams, and what is made for them."""
        self.close()
        tasks = [each.task for each in self._channels.values() if each.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    async def stream(self, name: str, make: Maker, last: str) -> AsyncGenerator[bytes]:
        """Yield what changes in a view; `last` is the id of the piece that a page had last."""
        with self._open(name, make) as (channel, woken):
            after = self._after(channel, last)
            if after is None:
                after = channel.number
                # Also the first a fresh page gets: from here on it is told what changes.
                yield _event(self._id(after), "reset" if last else "hello", "")
            while not self.closed:
                woken.clear()
                missed = [each for each in channel.latest if each[0] > after]
                if missed and missed[0][0] != after + 1:
                    missed, after = [], channel.number
                    yield _event(self._id(after), "reset", "")
                for number, piece, text in missed:
                    after = number
                    yield _event(self._id(number), piece, text)
                if missed:
                    continue
                try:
                    async with asyncio.timeout(BEAT):
                        await woken.wait()
                except TimeoutError:
                    yield b'data: {"name":"beat"}\n\n'

    @contextmanager
    def _open(self, name: str, make: Maker) -> Iterator[tuple[Channel, asyncio.Event]]:
        channel = self._channels.get(name)
        if channel is None:
            channel = self._channels[name] = Channel(make)
            channel.task = asyncio.get_running_loop().create_task(
                self._keep(name, channel), name=f"pages that show {name}"
            )
        woken = asyncio.Event()
        channel.woken.add(woken)
        channel.pages += 1
        try:
            yield channel, woken
        finally:
            channel.woken.discard(woken)
            channel.pages -= 1

    async def _keep(self, name: str, channel: Channel) -> None:
        """Make what changed, as long as somebody looks and some time after that."""
        now = asyncio.get_running_loop().time
        idle, looked = 0, now()
        while not self.closed and idle < BEAT * 6:
            with suppress(TimeoutError):
                async with asyncio.timeout(looked + LOOK_EVERY - now()):
                    await channel.wake.wait()
            if channel.wake.is_set():
                await asyncio.sleep(TOGETHER)
            # However much is decided meanwhile.
            if look := now() >= looked + LOOK_EVERY:
                looked, idle = now(), 0 if channel.pages else idle + 1
            channel.wake.clear()
            changed, channel.changed = channel.changed, set()
            if not channel.pages and not changed:
                continue
            try:
                pieces = await channel.make(changed, look)
            except Exception as problem:  # noqa: BLE001  # one view that fails must not end the others
                self._report(
                    "page_news_failed", reason=f"{name}: {type(problem).__name__}: {problem}"
                )
                continue
            for piece, text in pieces:
                channel.number += 1
                channel.latest.append((channel.number, piece, text))
            if pieces:
                for each in channel.woken:
                    each.set()
        if self._channels.get(name) is channel and not channel.pages:
            del self._channels[name]

    def _id(self, number: int) -> str:
        return f"{self._boot}-{number}"

    def _after(self, channel: Channel, last: str) -> int | None:
        boot, _, number = last.rpartition("-")
        if boot != self._boot or not number.isdigit():
            return None
        found = int(number)
        oldest = channel.latest[0][0] if channel.latest else channel.number + 1
        return found if oldest - 1 <= found <= channel.number else None


def _event(number: str, name: str, text: str) -> bytes:
    told: dict[str, Any] = {"name": name}
    if text:
        told["html"] = text
    return f"id: {number}\ndata: {json.dumps(told)}\n\n".encode()
