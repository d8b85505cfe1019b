"""What only people read is written soon, in order, and all of it before the runner ends."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from lifecycle.context.background_writer import BackgroundWriter


async def test_what_was_noted_is_written_in_order_and_not_in_the_loops_thread() -> None:
    background, loop = BackgroundWriter(), asyncio.get_running_loop()
    written: list[tuple[int, int]] = []
    done = asyncio.Event()

    def write(number: int) -> None:
        written.append((number, threading.get_ident()))

    for number in range(3):
        background.note(partial(write, number))
    background.note(partial(loop.call_soon_threadsafe, done.set))

    async with asyncio.timeout(10):
        await done.wait()

    assert [number for number, _ in written] == [0, 1, 2]
    assert threading.get_ident() not in {thread for _, thread in written}
    await background.aclose()


async def test_closing_writes_what_is_left() -> None:
    background = BackgroundWriter()
    written: list[str] = []
    background.note(partial(written.append, "the last page"))

    await background.aclose()

    assert written == ["the last page"]


async def test_a_page_that_cannot_be_written_takes_no_other_along() -> None:
    background = BackgroundWriter()
    written: list[str] = []

    def fail() -> None:
        raise ValueError("no page")

    for write in (partial(written.append, "before"), fail, partial(written.append, "after")):
        background.note(write)
    await background.aclose()

    assert written == ["before", "after"]


async def test_nothing_is_noted_once_it_is_closed() -> None:
    background = BackgroundWriter()
    await background.aclose()
    with pytest.raises(RuntimeError, match="the runner has ended"):
        background.note(print)
