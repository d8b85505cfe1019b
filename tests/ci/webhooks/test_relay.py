"""The relay, between a real channel and a real server of ours."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from ci.github import webhooks
from ci.http.client import HttpClient
from ci.webhooks.relay import FIRST_WAIT, LONGEST_WAIT, Relay, poster
from tests.ci.forge_server import Reply, closed_port, forge_server, in_turn, raw

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from tests.ci.forge_server import Asked, ForgeServer

DEADLINE = 10.0
SECRET = "s3cret"  # noqa: S105  # nobody else's
BODY = {"action": "completed", "name": "Prüfung \U0001f600", "number": 7, "rate": 1.5, "none": None}
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n\r\n"
    b"id: 0\nevent: ready\ndata: {}\n\n"
)


async def nothing() -> Mapping[str, str]:
    return {}


def as_github_writes(body: Any) -> bytes:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode(
        errors="backslashreplace"
    )


def signature(sent: bytes) -> str:
    return "sha256=" + hmac.new(SECRET.encode(), sent, hashlib.sha256).hexdigest()


def event(body: Any = None, kind: str = "", **fields: Any) -> bytes:
    """Return a message as smee sends it: the headers, the parsed body, and a few of its own."""
    body = BODY if body is None else body
    message = {
        "host": "smee.io",
        "content-length": "9",
        "accept-encoding": "gzip",
        "content-type": "application/x-www-form-urlencoded",
        "x-github-event": "check_run",
        "x-github-delivery": "d-1",
        "x-hub-signature-256": signature(as_github_writes(body)),
        "body": body,
        "query": {},
        "timestamp": 1700000000000,
        **fields,
    }
    named = f"event: {kind}\n" if kind else ""
    return f"id: 1\n{named}data: {json.dumps(message)}\n\n".encode()


PING = b"id: 2\nevent: ping\ndata: {}\n\n"


@dataclass
class Scene:
    """A channel, our server, and a relay between them whose waits take no time."""

    channel: ForgeServer
    ours: ForgeServer
    told: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    enough: int = 0
    """Waits after which the relay comes to rest."""
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, line: str) -> None:
        self.told.append(line)
        self.moved.set()

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.moved.set()
        if len(self.waits) >= self.enough:
            await asyncio.Event().wait()

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE):
            while not done():
                self.moved.clear()
                await self.moved.wait()

    @contextlib.asynccontextmanager
    async def relaying(self, post: str = "", **others: Any) -> AsyncIterator[None]:
        at = urlsplit(post or self.ours.url)
        assert at.port is not None
        web = HttpClient(self.channel.url, sign=nothing, now=lambda: 0.0)
        relay = Relay(
            lambda: web.lines("/chan", headers={"accept": "text/event-stream"}),
            poster("127.0.0.1", at.port, "/hooks/github"),
            **{"tell": self.tell, "sleep": self.sleep, "rng": lambda: 1.0, **others},
        )
        running = asyncio.create_task(relay.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await web.aclose()

    def brings(self, *streams: bytes) -> None:
        """Let each connection bring one of these and then end; the last one stays open."""
        first = [raw(HEAD + stream) for stream in streams[:-1]]
        self.channel.route("GET", "/chan", in_turn(*first, raw(HEAD + streams[-1], then_hang=True)))

    def answers(self, reply: Reply | Callable[[Asked], Reply]) -> None:
        self.ours.route("POST", "/hooks/github", reply)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with forge_server() as channel, forge_server() as ours:
        made = Scene(channel, ours)
        made.answers(Reply(202))
        yield made


def shows(scene: Scene, text: str, count: int = 1) -> Callable[[], bool]:
    return lambda: sum(text in line for line in scene.told) >= count


async def test_a_webhook_is_passed_on_so_that_its_signature_still_fits(scene: Scene) -> None:
    scene.brings(event() + PING)
    async with scene.relaying():
        await scene.until(shows(scene, "check_run was passed on and answered with 202"))

    (asked,) = scene.ours.requests
    assert asked.body == as_github_writes(BODY)
    assert webhooks.signed(asked.headers, asked.body, [SECRET])
    assert asked.headers["x-github-delivery"] == "d-1"
    assert asked.headers["content-type"] == "application/json"
    assert asked.headers["content-length"] == str(len(asked.body))
    assert asked.headers["host"] == urlsplit(scene.ours.url).netloc
    assert not {"query", "timestamp", "body"} & set(asked.headers)
    (opened,) = scene.channel.requests
    assert opened.headers["accept"] == "text/event-stream"


async def test_a_raw_body_is_passed_on_byte_by_byte(scene: Scene) -> None:
    sent = '{ "spaced":  "Prüfung", "twice": 1, "twice": 2 }'
    signed = signature(sent.encode())
    scene.brings(event(json.loads(sent), **{"x-hub-signature-256": signed, "rawBody": sent}))
    async with scene.relaying():
        await scene.until(shows(scene, "answered with 202"))

    (asked,) = scene.ours.requests
    assert asked.body == sent.encode()
    assert webhooks.signed(asked.headers, asked.body, [SECRET])


async def test_what_is_no_webhook_is_not_passed_on_and_stops_nothing(scene: Scene) -> None:
    junk = b"data: no json\n\ndata: [1]\n\ndata: {}\n\n: a remark\n\ndata: " + b"[" * 100_000
    scene.brings(junk + b"\n\n" + event(kind="other") + event(kind="message"))
    async with scene.relaying():
        await scene.until(shows(scene, "answered with 202"))

    assert len(scene.ours.requests) == 1
    assert sum("was not a webhook" in line for line in scene.told) == 4


async def test_a_message_over_several_lines_is_one(scene: Scene) -> None:
    first, second = event().split(b', "x-github-event"', 1)
    scene.brings(first + b'\ndata:, "x-github-event"' + second)
    async with scene.relaying():
        await scene.until(shows(scene, "check_run was passed on and answered with 202"))


@pytest.mark.parametrize(
    ("name", "value"), [("x-a", "d\r\nx-evil: yes"), ("x-a: 1\r\nx-evil", "yes")]
)
async def test_nobody_on_the_channel_can_smuggle_in_a_header(
    scene: Scene, name: str, value: str
) -> None:
    """Anyone who knows the channel's address may write to it."""
    _, writer = await asyncio.open_connection("127.0.0.1", urlsplit(scene.ours.url).port)
    writer.write(f"POST /hooks/github HTTP/1.1\r\n{name}: {value}\r\n\r\n".encode())
    scene.brings(event(**{name: value}))
    async with scene.relaying():
        await scene.until(shows(scene, "answered with 202"))
    writer.close()
    await writer.wait_closed()

    unguarded, asked = scene.ours.requests
    assert unguarded.headers["x-evil"] == "yes", "passed on as it came, it is a header of its own"
    assert not {"x-evil", "x-a"} & set(asked.headers)


async def test_text_that_is_no_unicode_is_written_as_javascript_does(scene: Scene) -> None:
    scene.brings(event({"text": "\udcff"}, **{"x-hub-signature-256": "sha256=0"}))
    async with scene.relaying():
        await scene.until(shows(scene, "answered with 202"))

    assert scene.ours.requests[0].body == b'{"text":"\\udcff"}'


async def test_a_channel_that_ends_is_opened_again_and_told_once(scene: Scene) -> None:
    scene.brings(event(), event(), event())
    scene.enough = 9
    async with scene.relaying():
        await scene.until(shows(scene, "answered with 202", 3))

    assert [line for line in scene.told if "channel" in line] == [
        "the channel was closed and is opened again: it was closed",
        "the channel is open again; what arrived in between is lost",
    ] * 2
    assert scene.waits == [FIRST_WAIT] * 2


async def test_a_channel_that_stays_away_is_asked_less_and_less_often(scene: Scene) -> None:
    scene.channel.route("GET", "/chan", raw(b""))
    scene.enough = 9
    async with scene.relaying(rng=lambda: 0.0):
        await scene.until(lambda: len(scene.waits) == 9)

    (told,) = scene.told
    assert told.startswith("the channel was closed and is opened again: ")
    assert scene.waits == [min(FIRST_WAIT * 2**n, LONGEST_WAIT) / 2 for n in range(9)]


async def test_a_server_of_ours_that_is_not_there_is_told_and_stops_nothing(scene: Scene) -> None:
    scene.brings(event() + event())
    async with scene.relaying(await closed_port()):
        await scene.until(shows(scene, "is `loopwright serve` running?", 2))
    assert scene.waits == []


async def test_a_refused_signature_is_explained_once(scene: Scene) -> None:
    scene.answers(Reply(401))
    scene.brings(event() * 3)
    async with scene.relaying():
        await scene.until(shows(scene, "answered with 401", 3))

    assert sum("refused the signature" in line for line in scene.told) == 1


async def test_what_a_sender_calls_its_event_cannot_fool_a_terminal(scene: Scene) -> None:
    scene.brings(event(**{"x-github-event": "red \x1b[31m txt"}))
    async with scene.relaying():
        await scene.until(shows(scene, "a webhook was passed on and answered with 202"))

    assert all(line.isprintable() for line in scene.told)
