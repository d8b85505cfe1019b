"""What an owner hears in the moment that it waits for a fact."""

from __future__ import annotations

import asyncio
import os

from lifecycle.inbox import Inbox, Item
from lifecycle.machine import events as on
from runtime.masking import Masker

LONG = 5.0
FACT = on.DeadlinePassed(at=1.0)


class Clockwork:
    """A loop's clock that can be made late."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._time, self.late = loop.time, 0.0
        loop.time = self  # type: ignore[method-assign]  # for this test's loop alone

    def __call__(self) -> float:
        return self._time() + self.late


async def test_a_loop_that_is_late_looks_at_what_is_ready_before_the_moment_is_over() -> None:
    loop, inbox = asyncio.get_running_loop(), Inbox(Masker())
    clock = Clockwork(loop)

    async def heard() -> Item | None:
        await inbox.wait_a_moment(LONG)
        return inbox.first

    waiting = asyncio.create_task(heard())
    await asyncio.sleep(0)
    read, write = os.pipe()

    def ready() -> None:
        loop.remove_reader(read)
        inbox.put(FACT)

    try:
        loop.add_reader(read, ready)
        os.write(write, b"the end of an agent")
        clock.late = 2 * LONG  # others kept the loop that long
        inbox.wake()  # and one of them woke the owner, with nothing to tell
        assert await waiting == Item(FACT)
    finally:
        os.close(read)
        os.close(write)


async def test_a_moment_in_which_nothing_comes_ends() -> None:
    loop, inbox = asyncio.get_running_loop(), Inbox(Masker())
    clock = Clockwork(loop)
    waiting = asyncio.create_task(inbox.wait_a_moment(LONG))
    await asyncio.sleep(0)

    clock.late = 2 * LONG
    await waiting

    assert not inbox
