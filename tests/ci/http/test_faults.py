"""What can go wrong with a host, one story each: the right error, a text to act on, a way on."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import time
import tracemalloc
from email.utils import formatdate

import pytest

from ci.errors import (
    ForbiddenError,
    ForgeError,
    GarbledError,
    LimitedError,
    MissingError,
    RefusedError,
    UnauthorizedError,
    UnreachableError,
)
from ci.http.client import CircuitBreakers
from lifecycle.clock import SteppedClock
from tests.ci.forge_server import (
    ForgeServer,
    Reply,
    answers,
    closed_port,
    cut_off,
    drips,
    fails,
    hangs,
    in_turn,
    raw,
    text,
    zipped,
)
from tests.ci.http.http_world import ADVICE, BEGAN, asking

SHORT = 0.25
"""Seconds. A timeout for servers that never come to an end."""


async def test_a_refused_connection_is_unreachable() -> None:
    clock = SteppedClock(BEGAN)
    async with asking(await closed_port(), clock) as web:
        with pytest.raises(UnreachableError, match="the connection was refused") as raised:
            await web.get("/x")
    assert raised.value.retry_at == clock.now() + 1
    assert raised.value.status == 0


async def test_a_name_that_nobody_knows_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    async with asking("http://nowhere.invalid") as web:
        with pytest.raises(UnreachableError, match=r"GET nowhere\.invalid/x: its name cannot"):
            await web.get("/x")


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_a_server_error_is_unreachable(server: ForgeServer, status: int) -> None:
    server.route("GET", "/x", fails(status, "oops"))
    async with asking(server.url) as web:
        with pytest.raises(UnreachableError, match=rf"{status}: .*reports a server error \(oops\)"):
            await web.get("/x")


async def test_a_server_that_never_answers_does_not_hold_us(server: ForgeServer) -> None:
    server.route("GET", "/x", hangs())
    async with asking(server.url, timeout=SHORT) as web:
        begun = time.monotonic()
        with pytest.raises(UnreachableError, match=r"no complete answer|timed out"):
            await web.get("/x")
        assert time.monotonic() - begun < 10


async def test_a_server_that_drips_does_not_hold_us(server: ForgeServer) -> None:
    server.route("GET", "/x", drips(answers(list(range(1000))), every=SHORT / 10))
    async with asking(server.url, timeout=SHORT) as web:
        with pytest.raises(UnreachableError, match=r"no complete answer within 0\.25 s"):
            await web.get("/x")
    server.route("GET", "/y", drips(answers(list(range(1000))), every=SHORT / 10, at_once=200))
    async with asking(server.url, timeout=SHORT) as web:
        with pytest.raises(UnreachableError, match=r"no complete answer within 0\.25 s"):
            await web.get("/y")


async def test_a_truncated_answer_is_garbled(server: ForgeServer) -> None:
    server.route("GET", "/x", cut_off(answers({"n": 1})))
    server.route("GET", "/packed", cut_whole(zipped(answers({"n": 1}))))
    async with asking(server.url) as web:
        with pytest.raises(GarbledError, match="cut off"):
            await web.get("/x")
        with pytest.raises(GarbledError, match="compressed answer is cut off"):
            await web.get("/packed")


def cut_whole(reply: Reply) -> Reply:
    """A packed body without its end, of which the length is told truly."""
    return Reply(reply.status, reply.body[:-9], reply.headers)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"n": ', "at character 6"),
        (b"<html>", "at character 0"),
        (b'{"n": NaN}', "numbers or nesting"),
        (b'{"n": \xff}', "at byte 6"),
        (b"[" * 200_000, "numbers or nesting"),
        (b"9" * 10_000, "numbers or nesting"),
        (b" ", "the answer is empty"),
        (b'[1] \x1b[31m\x07"', r"at character 4: '\[1\] \[31m \"'"),
    ],
)
async def test_an_answer_that_is_no_json_is_garbled(
    server: ForgeServer, body: bytes, says: str
) -> None:
    server.route("GET", "/x", text(body, kind="application/json"))
    async with asking(server.url) as web:
        with pytest.raises(GarbledError, match=says) as raised:
            await web.get("/x")
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 300


async def test_a_page_for_people_is_garbled(server: ForgeServer) -> None:
    server.route("GET", "/x", text("<html>Sign in to the hotel", kind="text/html"))
    async with asking(server.url) as web:
        with pytest.raises(GarbledError, match="says it is text/html: '<html>Sign in"):
            await web.get("/x")


async def test_an_answer_in_another_packing_than_asked_for_is_garbled(server: ForgeServer) -> None:
    server.route("GET", "/br", text(b"\x00", headers={"content-encoding": "br"}))
    server.route("GET", "/no", text("[1]", headers={"content-encoding": "gzip"}))
    async with asking(server.url) as web:
        with pytest.raises(GarbledError, match="compressed as 'br'"):
            await web.get("/br")
        with pytest.raises(GarbledError, match="and is not"):
            await web.get("/no")


async def test_what_is_no_http_is_unreachable(server: ForgeServer) -> None:
    server.route("GET", "/x", raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"))
    async with asking(server.url) as web:
        with pytest.raises(UnreachableError, match="does not speak HTTP"):
            await web.get("/x")


async def test_a_huge_answer_is_not_read(server: ForgeServer) -> None:
    server.route("GET", "/x", text(b" " * 8_000_000, kind="application/json"))
    server.route("GET", "/y", answers([1]))
    async with asking(server.url, max_body=100_000) as web:
        with pytest.raises(GarbledError, match="longer than 100000 bytes"):
            await web.get("/x")
        assert (await web.get("/y")).body == [1]


async def test_a_small_bomb_does_not_fill_the_memory(server: ForgeServer) -> None:
    bomb = zipped(text(b" " * 50_000_000, kind="application/json"), level=9)
    assert len(bomb.body) < 60_000
    assert inflated_all_at_once(bomb.body) > 50_000_000
    server.route("GET", "/x", bomb)
    async with asking(server.url, max_body=1_000_000) as web:
        tracemalloc.start()
        with pytest.raises(GarbledError, match="longer than 1000000 bytes"):
            await web.get("/x")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 8_000_000


def inflated_all_at_once(body: bytes) -> int:
    """Return the memory that the bomb takes where nobody looks out."""
    tracemalloc.start()
    gzip.decompress(body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


async def test_a_huge_error_is_read_only_as_far_as_it_matters(server: ForgeServer) -> None:
    server.route("GET", "/x", text(b"no " * 5_000_000))
    reply = text(b"no " * 5_000_000)
    server.route("GET", "/x", Reply(400, reply.body, reply.headers))
    async with asking(server.url) as web:
        with pytest.raises(ForgeError, match="400: no no no") as raised:
            await web.get("/x")
    assert len(str(raised.value)) < 600


@pytest.mark.parametrize(
    ("status", "kind", "says"),
    [
        (400, ForgeError, "400: Bad Request"),
        (
            401,
            UnauthorizedError,
            "is wrong or has expired: set GITHUB_TOKEN or run `gh auth login`",
        ),
        (403, ForbiddenError, "does not allow this: set GITHUB_TOKEN or run `gh auth login`"),
        (404, MissingError, "not found, or the token may not see it"),
        (410, MissingError, "not found"),
        (405, RefusedError, "405: Method Not Allowed"),
        (409, RefusedError, "409: Conflict"),
        (412, RefusedError, "412: Precondition Failed"),
        (422, RefusedError, "422: Unprocess"),
        (423, RefusedError, "423: Locked"),
        (418, ForgeError, "418: "),
    ],
)
async def test_every_refusal_has_its_own_error(
    server: ForgeServer, status: int, kind: type[ForgeError], says: str
) -> None:
    server.route("GET", "/x", fails(status))
    async with asking(server.url) as web:
        with pytest.raises(kind) as raised:
            await web.get("/x", params={"q": "private"})
    error = raised.value
    assert type(error) is kind
    assert (error.status, error.retry_at) == (status, None)
    assert str(error).startswith(f"GET {server.url.removeprefix('http://')}/x: {status}: ")
    assert says in str(error)
    assert "private" not in str(error)
    assert ADVICE in str(error) or status not in (401, 403)


@pytest.mark.parametrize(
    ("reply", "wait"),
    [
        (fails(429, retry_after="7"), 7),
        (fails(429), 60),
        (fails(403, retry_after="30"), 30),
        (fails(403, "You have exceeded a secondary rate limit"), 60),
        (fails(403, "You have triggered an abuse detection mechanism"), 60),
        (fails(429, retry_after="-1"), 60),
        (fails(429, retry_after="soon"), 60),
        (fails(429, retry_after="inf"), 60),
        (fails(429, retry_after="99999999"), 3600),
        (fails(429, retry_after="0"), 1),
    ],
)
async def test_a_limit_is_told_from_a_refusal_and_names_its_end(
    server: ForgeServer, reply: Reply, wait: float
) -> None:
    clock = SteppedClock(BEGAN)
    server.route("GET", "/x", reply)
    async with asking(server.url, clock) as web:
        with pytest.raises(LimitedError, match="its rate limit is used up") as raised:
            await web.get("/x")
    assert raised.value.retry_at == clock.now() + wait


@pytest.mark.parametrize("start", ["x-ratelimit", "ratelimit"])
async def test_a_used_up_budget_is_a_limit_until_it_starts_anew(
    server: ForgeServer, start: str
) -> None:
    clock = SteppedClock(BEGAN)
    limits = {f"{start}-limit": "60", f"{start}-remaining": "0", f"{start}-reset": "1700000500"}
    told = answers({"message": "API rate limit exceeded"}, status=403, headers=limits)
    server.route("GET", "/x", told)
    async with asking(server.url, clock) as web:
        with pytest.raises(LimitedError) as raised:
            await web.get("/x")
        assert raised.value.retry_at == 1_700_000_501
        assert (web.budget.limit, web.budget.remaining) == (60, 0)
        assert web.budget.resets_at == 1_700_000_500
        clock.advance(900)  # our clock is ahead of the forge's
        with pytest.raises(LimitedError) as raised:
            await web.get("/x")
        assert raised.value.retry_at == clock.now() + 1


async def test_a_limit_that_ends_at_a_date(server: ForgeServer) -> None:
    clock = SteppedClock(BEGAN)
    server.route("GET", "/x", fails(429, retry_after=formatdate(clock.now() + 90, usegmt=True)))
    async with asking(server.url, clock) as web:
        with pytest.raises(LimitedError) as raised:
            await web.get("/x")
    assert raised.value.retry_at == clock.now() + 90


async def test_nobody_is_asked_while_the_limit_is_used_up(server: ForgeServer) -> None:
    clock, breakers = SteppedClock(BEGAN), CircuitBreakers()
    server.route("GET", "/x", in_turn(fails(429, retry_after="30"), answers([1])))
    server.route("POST", "/x", answers({}, status=201))
    async with (
        asking(server.url, clock, breakers=breakers) as web,
        asking(server.url, clock, breakers=breakers) as other,
    ):
        with pytest.raises(LimitedError):
            await web.get("/x")
        clock.advance(29)
        for asked in (web.get("/x"), other.get("/x"), other.send("POST", "/x", json={})):
            with pytest.raises(LimitedError, match="for another 1 s: its rate limit") as raised:
                await asked
            assert raised.value.retry_at == clock.now() + 1
        assert len(server.requests) == 1
        clock.advance(1)
        assert (await other.get("/x")).body == [1]


async def test_a_limit_that_is_counted_apart_shuts_out_nothing_else(server: ForgeServer) -> None:
    apart = {"limit": "30", "remaining": "0", "reset": "1700000500", "resource": "graphql"}
    limits = {f"x-ratelimit-{name}": value for name, value in apart.items()}
    server.route("POST", "/graphql", answers({"message": "limit"}, status=403, headers=limits))
    server.route("GET", "/x", answers([1]))
    async with asking(server.url) as web:
        with pytest.raises(LimitedError) as raised:
            await web.send("POST", "/graphql", json={})
        assert raised.value.retry_at == 1_700_000_501
        assert (await web.get("/x")).body == [1]
        assert web.budget.remaining is None


async def test_a_host_that_fails_is_left_alone_and_found_again(server: ForgeServer) -> None:
    clock, breakers = SteppedClock(BEGAN), CircuitBreakers()
    server.route("GET", "/x", in_turn(*(fails(502),) * 4, answers([1])))
    async with (
        asking(server.url, clock, breakers=breakers) as web,
        asking(server.url, clock, breakers=breakers) as other,
    ):
        waits = []
        for _ in range(3):
            with pytest.raises(UnreachableError, match="502") as raised:
                await web.get("/x")
            waits.append((raised.value.retry_at or 0) - clock.now())
        assert waits == [1, 2, 5]
        with pytest.raises(UnreachableError, match=r"for another 5 s.*502") as raised:
            await other.get("/x")
        assert raised.value.retry_at == clock.now() + 5
        assert len(server.requests) == 3
        clock.advance(5)
        with pytest.raises(UnreachableError, match="GET") as raised:
            await other.get("/x")
        assert raised.value.retry_at == clock.now() + 10
        clock.advance(10)
        assert (await web.get("/x")).body == [1]
        assert (await other.get("/x")).body == [1]


async def test_only_one_goes_to_see_whether_the_host_is_back(server: ForgeServer) -> None:
    clock = SteppedClock(BEGAN)
    arrived, released = asyncio.Event(), asyncio.Event()

    async def slow(_: object) -> Reply:
        arrived.set()
        await released.wait()
        return answers([1])

    server.route("GET", "/x", fails(503, retry_after="40"))
    server.route("GET", "/slow", slow)
    async with asking(server.url, clock) as web:
        with pytest.raises(UnreachableError) as raised:
            await web.get("/x")
        assert raised.value.retry_at == clock.now() + 40
        clock.advance(40)
        first = asyncio.create_task(web.get("/slow"))
        await arrived.wait()
        with pytest.raises(UnreachableError, match="is not asked for another 1 s"):
            await web.get("/slow")
        released.set()
        assert (await first).body == [1]
        assert (await web.get("/slow")).body == [1]
    assert server.count("GET", "/slow") == 2


async def test_one_that_is_cancelled_on_the_way_lets_the_next_one_go(server: ForgeServer) -> None:
    clock = SteppedClock(BEGAN)
    server.route("GET", "/x", in_turn(fails(503, retry_after="40"), hangs(), answers([1])))
    async with asking(server.url, clock) as web:
        with pytest.raises(UnreachableError):
            await web.get("/x")
        clock.advance(40)
        first = asyncio.create_task(web.get("/x"))
        while len(server.requests) < 2:  # noqa: ASYNC110  # the server has no event for it
            await asyncio.sleep(0.001)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (await web.get("/x")).body == [1]


async def test_an_answer_that_is_an_error_shows_that_the_host_is_there(server: ForgeServer) -> None:
    server.route("GET", "/x", in_turn(fails(502), fails(502), fails(404), fails(502), answers([1])))
    async with asking(server.url) as web:
        kinds = []
        for _ in range(4):
            with pytest.raises(ForgeError) as raised:
                await web.get("/x")
            kinds.append(type(raised.value))
        assert kinds == [UnreachableError, UnreachableError, MissingError, UnreachableError]
        assert (await web.get("/x")).body == [1]


async def test_signing_that_asks_the_same_host_is_not_shut_out(server: ForgeServer) -> None:
    clock, breakers = SteppedClock(BEGAN), CircuitBreakers()
    server.route("GET", "/x", in_turn(fails(503, retry_after="5"), answers([1])))
    server.route("POST", "/token", answers({"token": "t0ken"}, status=201))
    async with asking(server.url, clock, breakers=breakers) as app:

        async def sign() -> dict[str, str]:
            return {"authorization": f"token {(await app.send('POST', '/token')).body['token']}"}

        async with asking(server.url, clock, breakers=breakers, sign=sign) as web:
            with pytest.raises(UnreachableError):
                await web.get("/x")
            clock.advance(5)
            assert (await web.get("/x")).body == [1]


async def test_a_forge_that_words_its_errors_oddly_is_understood(server: ForgeServer) -> None:
    oddities = [{"error": "e", "error_description": "long"}, {"message": ["a", {"b": 1}]}, [1], "x"]
    oddities += [{"errors": {"a": 1}}, {"errors": ["plain", {"code": "missing"}], "message": None}]
    async with asking(server.url) as web:
        said = []
        for body in oddities:
            server.route("GET", "/x", answers(body, status=400))
            with pytest.raises(ForgeError) as raised:
                await web.get("/x")
            said.append(str(raised.value).partition("400: ")[2])
    assert said == [
        "long",
        json.dumps(["a", {"b": 1}]),
        "the request is not understood",
        "the request is not understood",
        "the request is not understood",
        'plain: {"code": "missing"}',
    ]
