"""Webhooks by the thousand, while the server is killed again and again: none lost, none doubled.

The sender stands in for a forge: eight connections, signed bodies, and every delivery that was not
answered is sent again. At the end each one that was answered with 202 must be on record, once.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import re
import signal
import sqlite3
import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.measure import Options, Row, best, script
from bench.world import world
from lifecycle.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path

    from bench.world import World

COMMAND = (sys.executable, "-P", "-m", "orchestrator.cli.main", "serve")
SECRET = "bench"  # noqa: S105  # nobody else's
CONNECTIONS = 8
BODIES = 64
BODY_BYTES = 8192
PATIENCE = 30.0
"""Seconds in which a server must be up or down."""
SETTLE = 0.05
"""Seconds in which answers of a server that is dead already are read."""
AGAIN = 50
"""One in so many is sent once more although it was answered, as forges do now and then."""
AT_LEAST, P99_MS = 1000.0, 250.0
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


@dataclass
class Tally:
    """The answers to what was sent."""

    kept: dict[str, int] = field(default_factory=dict)
    """How often each delivery was answered as new, by its id; answered as known is 0."""
    times: list[float] = field(default_factory=list)
    """Seconds from sending to the answer."""
    refused: int = 0
    first: list[float] = field(default_factory=list)
    """When each server answered first."""
    last: list[float] = field(default_factory=list)
    """When each server was about to be ended."""
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    """Whether the present server has answered."""

    @property
    def up(self) -> float:
        """Seconds in which a server was up."""
        return sum(end - begin for begin, end in zip(self.first, self.last, strict=True))


class Sender:
    """Sends over several connections until it is told to stop."""

    def __init__(self, port: int, tally: Tally) -> None:
        self._port = port
        self._tally = tally
        self._requests = [_request(number) for number in range(BODIES)]
        self._numbers = iter(range(10**9))
        self.stopping = False

    async def run(self) -> None:
        """Send over all connections."""
        await asyncio.gather(*(self._connection() for _ in range(CONNECTIONS)))

    async def _connection(self) -> None:
        pending: list[int] = []
        while not self.stopping:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                try:
                    await self._send(reader, writer, pending)
                finally:
                    writer.close()
            await asyncio.sleep(0.01)

    async def _send(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pending: list[int]
    ) -> None:
        """Send one after the other; what is not answered stays in `pending`."""
        tally = self._tally
        while not self.stopping or pending:
            if not pending:
                pending.append(next(self._numbers))
            number = pending[-1]
            head, body = self._requests[number % BODIES]
            key = f"delivery-{number}"
            began = time.perf_counter()
            writer.write(b"%b%b\r\n\r\n%b" % (head, key.encode(), body))
            status, answer = await _answer(reader)
            tally.times.append(time.perf_counter() - began)
            pending.pop()
            if not tally.answered.is_set():
                tally.answered.set()
                tally.first.append(time.perf_counter())
            if status != 202:
                tally.refused += 1
                continue
            fresh = b'"kept"' in answer
            if key not in tally.kept and number % AGAIN == 0:
                pending.append(number)
            tally.kept[key] = tally.kept.get(key, 0) + fresh


def _request(number: int) -> tuple[bytes, bytes]:
    """Return the head of a request, up to the delivery's id, and its body."""
    said = {
        "action": "completed",
        "check_run": {"id": number, "head_sha": f"{number:040x}", "status": "completed"},
        "repository": {"full_name": "bench/bench"},
    }
    links = 0
    while len(json.dumps(said)) < BODY_BYTES:
        said[f"link_{links}"] = (
            f"https://api.example.org/{hashlib.sha256(b'%d' % links).hexdigest()}"
        )
        links += 1
    body = json.dumps(said).encode()
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    head = (
        "POST /hooks/github HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nX-GitHub-Event: check_run\r\n"
        f"X-Hub-Signature-256: sha256={signature}\r\nX-GitHub-Delivery: "
    )
    return head.encode(), body


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = _LENGTH.search(head)
    body = await reader.readexactly(int(length[1])) if length is not None else b""
    return int(head.split(b" ", 2)[1]), body


class Server:
    """`loopwright serve` on one port, as often as it is started."""

    def __init__(self, repo: Path, log: Path) -> None:
        self._repo = repo
        self._log = log
        self.port = 0
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it; wait until it says where it listens."""
        with self._log.open("w") as log:
            self._process = await asyncio.create_subprocess_exec(
                *COMMAND,
                *("--port", str(self.port), "--repo", str(self._repo)),
                env={
                    **os.environ,
                    "XDG_CONFIG_HOME": str(self._log.with_suffix(".config")),
                    "LOOPWRIGHT_GITHUB_HOOK_SECRET": SECRET,
                },
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + PATIENCE
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)", self._log.read_text())):
            if self._process.returncode is not None or time.monotonic() > end:
                raise RuntimeError(f"the server did not start:\n{self._log.read_text()}")
            await asyncio.sleep(0.01)
        self.port = int(found[1])

    async def end(self, how: signal.Signals) -> None:
        """End it, and wait until it is gone."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.send_signal(how)
            await asyncio.wait_for(process.wait(), PATIENCE)


async def _kept_through_kills(made: World, options: Options) -> Row:
    repo = made.repository(files=1)
    spans = [2.0] * 2 if options.quick else [10.0] * 4
    tally = Tally()
    server = Server(repo, made.fresh("log"))
    try:
        await server.start()
        sender = Sender(server.port, tally)
        sending = asyncio.create_task(sender.run())
        for number, seconds in enumerate(spans):
            if number:
                await server.end(signal.SIGKILL)
                await asyncio.sleep(SETTLE)
                tally.answered.clear()
                await server.start()
            await asyncio.wait_for(tally.answered.wait(), PATIENCE)
            await asyncio.sleep(seconds)
            tally.last.append(time.perf_counter())
        sender.stopping = True
        await asyncio.wait_for(sending, PATIENCE)
        await server.end(signal.SIGTERM)
    finally:
        await server.end(signal.SIGKILL)
    return _row(made, tally, _on_record(repo), kills=len(spans) - 1)


def _on_record(repo: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(Paths.of(repo).database)) as connection:
        return [key for (key,) in connection.execute("SELECT key FROM deliveries")]


def _row(made: World, tally: Tally, record: list[str], *, kills: int) -> Row:
    found = set(record)
    lost = sum(f"github:{key}" not in found for key in tally.kept)
    doubled = sum(fresh > 1 for fresh in tally.kept.values()) + len(record) - len(found)
    rate = len(tally.times) / tally.up
    cuts = statistics.quantiles(tally.times, n=100)
    median, p99 = cuts[49] * 1000, cuts[98] * 1000
    wrong = lost + doubled + tally.refused
    ok = rate >= AT_LEAST and p99 < P99_MS and not wrong
    badness = max(AT_LEAST / rate, p99 / P99_MS, 2.0 if wrong else 0.0)
    return Row(
        what=f"hook answered, durable, {CONNECTIONS} connections, server killed {kills} times",
        against="",
        ours=(
            f"{rate:,.0f}/s, p50 {median:.1f} ms, p99 {p99:.1f} ms; "
            f"{lost} lost, {doubled} doubled, {tally.refused} refused"
        ),
        reach=f">= {AT_LEAST:,.0f}/s, p99 < {P99_MS:.0f} ms, 0 lost or doubled",
        ok=ok,
        badness=badness if ok else max(badness, 1.01),
        samples=len(tally.times),
        note=made.note,
    )


async def measure(options: Options) -> list[Row]:
    """Measure."""
    with world() as made:
        return [await best(lambda: _kept_through_kills(made, options))]


if __name__ == "__main__":
    script(measure)
