"""What only people read is written soon, in order, and all of it before the runner ends."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from lifecycle.scribe import Scribe


async def test_what_was_noted_is_written_in_order_and_not_in_the_loops_thread() -> None:
    scribe, loop = Scribe(), asyncio.get_running_loop()
    written: list[tuple[int, int]] = []
    done = asyncio.Event()

    def write(number: int) -> None:
        written.append((number, threading.get_ident()))

    for number in range(3):
        scribe.note(partial(write, number))
    scribe.note(partial(loop.call_soon_threadsafe, done.set))

    async with asyncio.timeout(10):
        await done.wait()

    assert [number for number, _ in written] == [0, 1, 2]
    assert threading.get_ident() not in {thread for _, thread in written}
    await scribe.aclose()


async def test_closing_writes_what_is_left() -> None:
    scribe = Scribe()
    written: list[str] = []
    scribe.note(partial(written.append, "the last page"))

    await scribe.aclose()

    assert written == ["the last page"]


async def test_a_page_that_cannot_be_written_takes_no_other_along() -> None:
    scribe = Scribe()
    written: list[str] = []

    def fail() -> None:
        raise ValueError("no page")

    for write in (partial(written.append, "before"), fail, partial(written.append, "after")):
        scribe.note(write)
    await scribe.aclose()

    assert written == ["before", "after"]


async def test_nothing_is_noted_once_it_is_closed() -> None:
    scribe = Scribe()
    await scribe.aclose()
    with pytest.raises(RuntimeError, match="the runner has ended"):
        scribe.note(print)
