"""The endpoints of workers: their signs of life, and what their attempts left.

A token of its own opens them and nothing else. Not part of FastAPI, because bodies are large and
most are no JSON. Must not know what a file means or where it is kept.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from orchestrator.web.edge.bodies import Headers, read_body
from orchestrator.web.edge.problems import JSON_TYPE, Problem, busy, unknown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import Receive, Scope, Send

    from orchestrator.web.edge.visitors import Door

PATH = "/api/worker/"
WITHIN, PER_SECOND, WITHIN_AT_MOST = 10.0, 1 << 18, 120.0
"""Seconds for a body: at least, one more for so many bytes, and at most."""
MOST_AT_ONCE = 4
SEEN, MOST_SIGN = "seen", 64 * 1024
MARK_ROOM = 4096
"""Bytes of a log beyond its cap: a line that says what was left out of it."""
_FILE = re.compile(r"attempts/([A-Za-z0-9][A-Za-z0-9._-]{0,63})/([0-9]{1,10})/([a-z0-9-]{1,40})")
WORKER, BIRTH = b"x-loopwright-worker", b"x-loopwright-birth"


class Upload(NamedTuple):
    """One file of one attempt."""

    worker: str
    agent_id: str
    birth: str
    """Of the lifecycle; empty where the worker does not say it."""
    attempt: int
    name: str


class WorkerUploads:
    """Answers workers; failures are raised as a Problem.

    `PUT /api/worker/seen` takes a sign of life, which `seen` is given as it came. `PUT
    /api/worker/attempts/AGENT/ATTEMPT/NAME` takes a file: `check` refuses it before its body is
    read, `keep` stores it.
    """

    def __init__(
        self,
        door: Door,
        *,
        check: Callable[[Upload], Awaitable[None]],
        keep: Callable[[Upload, bytes], Awaitable[bool]],
        seen: Callable[[bytes], Awaitable[None]],
        most: Callable[[], int],
    ) -> None:
        self._door, self._check, self._keep, self._seen = door, check, keep, seen
        self._most = most
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        headers, client = Headers(scope["headers"]), scope.get("client")
        self._door.require_worker(headers, client[0] if client else "")
        path = scope["path"].removeprefix(PATH)
        found = _FILE.fullmatch(path)
        if found is None and path != SEEN:
            raise unknown("there is nothing at this path", f"PUT {PATH}attempts/AGENT/ATTEMPT/NAME")
        if scope["method"] != "PUT":
            told = "a worker hands in with PUT"
            raise Problem(405, "method", told, "send it with PUT", {"allow": "PUT"})
        if found is None:
            await self._seen(await read_body(headers, receive, most=MOST_SIGN, within=WITHIN))
            await _answer(send, {"seen": True})
            return
        worker, birth = (headers.first(each).decode("latin-1") for each in (WORKER, BIRTH))
        upload = Upload(worker, found[1], birth, int(found[2]), found[3])
        await self._check(upload)
        changed = await self._take(upload, headers, receive)
        await _answer(send, {"name": upload.name, "changed": changed})

    async def _take(self, upload: Upload, headers: Headers, receive: Receive) -> bool:
        if self._under_way >= MOST_AT_ONCE:
            raise busy(f"{self._under_way} files are being handed in")
        self._under_way += 1
        try:
            within = min(WITHIN + headers.length() / PER_SECOND, WITHIN_AT_MOST)
            most = self._most() + MARK_ROOM
            content = await read_body(headers, receive, most=most, within=within)
            return await self._keep(upload, content)
        finally:
            self._under_way -= 1


async def _answer(send: Send, told: dict[str, object]) -> None:
    body = json.dumps(told).encode()
    length = (b"content-length", str(len(body)).encode())
    start = {"type": "http.response.start", "status": 200, "headers": [JSON_TYPE, length]}
    await send(start)
    await send({"type": "http.response.body", "body": body})
