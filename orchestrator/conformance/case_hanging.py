"""The case of a program that gets no answer: whether the idle rule sees it, and it ends.

Judges facts and knows no program by name: where an adapter names a variable for the address of its
model, that leads to a server that never answers; a plain command is asked to do nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from orchestrator.conformance import prompts
from orchestrator.conformance.replay import GOOD
from orchestrator.conformance.trial import facts_of, shown
from orchestrator.conformance.verdict import CaseVerdict, failed, not_provoked, passed
from runtime.agents.outcome import Ending

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from orchestrator.conformance.trial import Ran
    from orchestrator.conformance.workbench import Workbench

_DOOR = "_BASE_URL"
"""How the names of variables end that hold the address of a model."""
_CHUNK = 1 << 16
_ON_ITS_WAY = 0.2
"""Seconds after its end in which what it sent may still be read."""


async def hang(bench: Workbench) -> CaseVerdict:
    """Judge whether it ends when nothing answers."""
    adapter = bench.subject.adapter
    doors = tuple(name for name in (*adapter.keys, *adapter.passes) if name.endswith(_DOOR))
    if adapter.programs and not doors:
        return not_provoked("its adapter names no variable that leads it to a silent model")
    place = await bench.place(8)
    async with silent_server() as server:
        ran = await bench.run(
            place,
            prompts.HANG,
            launch=bench.launch(place, passes=doors),
            variables=dict.fromkeys(doors, server.url),
            idle=True,
        )
        if not server.asked:
            await asyncio.sleep(_ON_ITS_WAY)
        asked = server.asked
    return _hung(ran, asked=asked, led=bool(doors), idle=bench.subject.bounds.idle)


def _hung(ran: Ran, *, asked: int, led: bool, idle: float) -> CaseVerdict:
    evidence = facts_of(ran) | {"asked_the_silent_model": asked}
    if led and not asked:
        return not_provoked(f"it never asked the silent model; outcome {shown(ran)}", **evidence)
    if ran.ended_by is None and not asked:
        return not_provoked(f"it did not hang: it ended, with {shown(ran)}", **evidence)
    if wrong := _wrong(ran):
        return failed(wrong, **evidence)
    if ran.ended_by is None:
        return passed(f"it gave up by itself after {ran.seconds:.0f} s: {shown(ran)}", **evidence)
    return passed(f"ended after {idle:g} s of silence; outcome {ran.ending}", **evidence)


def _wrong(ran: Ran) -> str:
    if ran.ended_by is Ending.TIMEOUT:
        return (
            f"it went on printing or computing for {ran.seconds:.0f} s without a reason, so that "
            "the idle rule never saw that it hangs"
        )
    if ran.report.survivors:
        return f"processes {list(ran.report.survivors)} survived even KILL"
    if ran.outcome is None:
        return f"its parser failed: {ran.problem}"
    if ran.outcome.outcome in GOOD:
        return f"it got no answer, but its outcome is {shown(ran)}"
    return ""


class SilentServer:
    """Counts who asks."""

    def __init__(self) -> None:
        self.url = ""
        self.asked = 0
        """How many connections brought a request."""
        self._open: set[asyncio.Task[None]] = set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Listen for ever."""
        task = asyncio.current_task()
        if task is None:
            return
        self._open.add(task)
        try:
            # Cancelled at the end: the streams of Python 3.11 would report that as an error.
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                if await reader.read(_CHUNK):
                    self.asked += 1
                while await reader.read(_CHUNK):
                    pass
        finally:
            self._open.discard(task)
            writer.close()

    async def end(self) -> None:
        """Close all connections."""
        tasks = tuple(self._open)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def silent_server() -> AsyncIterator[SilentServer]:
    """Serve on a free port of loopback until the block ends."""
    server = SilentServer()
    listener = await asyncio.start_server(server.connected, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()
        await server.end()
        await listener.wait_closed()
