"""Server-sent events: a journal as it grows, from any entry on, with none lost and none twice.

What is sent is read from the store by its number; news only says that reading is worth while.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from lifecycle.machine.states import TERMINAL
from lifecycle.state_words import spelled, word_on
from orchestrator.wording.json_forms import entry_form

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from starlette.types import Receive, Scope, Send

    from lifecycle.store.sqlite.store import SqliteStore
    from orchestrator.web.live.hub import StreamHub, StreamListener

BEAT = 15.0
"""Seconds without an event after which a line shows that the stream lives."""
PAGE = 100
ALIVE = b": alive\n\n"


@dataclass(frozen=True, slots=True)
class Streams:
    """The streams of one server."""

    store: SqliteStore
    hub: StreamHub
    boot: str
    """Distinguishes the numbers of this server's news from those of an earlier one."""
    beat: float = BEAT

    async def journal(self, agent_id: str, after: int) -> AsyncGenerator[bytes]:
        """Yield the entries after a number, then each new one, until the lifecycle is over.

        A new lifecycle under the same name is another stream: the number of an earlier one, which
        is beyond what there is, begins at the first entry, and a change while it is open ends it.
        """
        birth = ""
        newest = await self.store.journal(agent_id, limit=1, newest=True)
        if not newest or after > newest[-1].seq:
            after = 0
        with self.hub.listening(agent_id) as listener:
            yield ALIVE
            while not self.hub.closed:
                listener.woken.clear()
                record = await self.store.get(agent_id)
                if record is not None and birth not in ("", record.birth):
                    yield event("", {"state": "replaced"}, name="end")
                    return
                birth = record.birth if record is not None else birth
                entries = await self.store.journal(agent_id, after=after, limit=PAGE)
                for entry in entries:
                    yield event(str(entry.seq), entry_form(entry))
                    after = entry.seq
                if entries:
                    continue
                if record is None or isinstance(record.work, TERMINAL):
                    state = "removed" if record is None else spelled(word_on(record))
                    yield event("", {"state": state}, name="end")
                    return
                if not await self._woken(listener):
                    yield ALIVE

    async def everything(self, after: int | None) -> AsyncGenerator[bytes]:
        """Give what is decided about any lifecycle, from a number on that is still known.

        When what follows that number is not known any more, `reset` says that everything has to be
        read again.
        """
        hub = self.hub
        with hub.listening() as listener:
            oldest = hub.latest[0].number if hub.latest else hub.number + 1
            if after is None or not oldest - 1 <= after <= hub.number:
                after = hub.number
                yield event(f"{self.boot}-{after}", {}, name="reset")
            else:
                yield ALIVE
            while not hub.closed:
                listener.woken.clear()
                missed = [told for told in hub.latest if told.number > after]
                if missed and missed[0].number != after + 1:
                    # The client read too slowly for too long.
                    missed, after = [], hub.number
                    yield event(f"{self.boot}-{after}", {}, name="reset")
                for told in missed:
                    after = told.number
                    yield event(f"{self.boot}-{after}", told.body)
                if not missed and not await self._woken(listener):
                    yield ALIVE

    def number_of(self, last: str) -> int | None:
        """Return the number that a client had last, if this server gave it."""
        boot, _, number = last.rpartition("-")
        return int(number) if boot == self.boot and is_number(number) else None

    async def _woken(self, listener: StreamListener) -> bool:
        try:
            async with asyncio.timeout(self.beat):
                await listener.woken.wait()
        except TimeoutError:
            return False
        return True


class Stream(Response):
    """Sends pieces as they come, until there are no more or the client left."""

    media_type = "text/event-stream"

    def __init__(self, pieces: AsyncGenerator[bytes]) -> None:
        super().__init__(headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        del scope
        loop = asyncio.get_running_loop()
        sending = loop.create_task(self._send(send), name="stream")
        leaving = loop.create_task(_gone(receive), name="stream's client")
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            leaving.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
        if not sending.cancelled() and (problem := sending.exception()) is not None:
            raise problem

    async def _send(self, send: Send) -> None:
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        async with aclosing(self._pieces) as pieces:
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def event(number: str, body: Mapping[str, Any], *, name: str = "") -> bytes:
    """Return one event; JSON without line breaks needs no other care."""
    head = (f"event: {name}\n" if name else "") + (f"id: {number}\n" if number else "")
    return f"{head}data: {json.dumps(body)}\n\n".encode()


def is_number(text: str) -> bool:
    """Tell whether a client's text is a number that the store can count with."""
    return text.isascii() and text.isdigit() and len(text) <= 15  # noqa: PLR2004  # fits 64 bits
