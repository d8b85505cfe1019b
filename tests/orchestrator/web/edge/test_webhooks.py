"""The door for webhooks: quick, durable, bounded, and open whatever else is asked of the server."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from ci.webhooks.receiver import MAX_BODY, Receiver
from orchestrator.web.edge import webhooks as door
from orchestrator.web.edge.connection import HEAD_WITHIN, OpenConnections
from tests.orchestrator.loopkit import DONE
from tests.orchestrator.web.webkit import SSE, TOKEN, Options, Site, client_of, raw, site
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

    from lifecycle.engine.engine import LocalEngine

SECRET = "sesame"  # noqa: S105  # opens nothing but these
PING = json.dumps({"zen": "Keep it logically awesome."}).encode()


def receiver(engine: LocalEngine) -> Receiver:
    """Take what is signed with the secret of the tests."""
    return Receiver(
        engine.shared.store.deliveries,
        secrets={"github": lambda: (SECRET,)},
        now=engine.shared.clock.now,
        wake=lambda: None,
    )


HOOKED = Options(receiver=receiver)


def signed(body: bytes, number: int = 1, secret: str = SECRET) -> dict[str, str]:
    """Return the headers that GitHub sends."""
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {
        "content-type": "application/json",
        "x-github-event": "ping",
        "x-github-delivery": f"00000000-0000-0000-0000-{number:012d}",
        "x-hub-signature-256": f"sha256={digest}",
    }


async def kept(found: Site) -> int:
    """Return how many deliveries are in the store."""
    return len(await found.store.deliveries.list(limit=1000))


async def test_a_signed_delivery_is_kept_once_and_needs_neither_token_nor_host(
    tmp_path: Path,
) -> None:
    async with site(tmp_path, HOOKED) as found, client_of(found.server.url, "") as stranger:
        for told in ("kept", "known already"):
            answer = await stranger.post(
                "/hooks/github",
                content=PING,
                headers={**signed(PING), "host": "tunnel.example", "origin": "http://evil.example"},
            )
            assert answer.status_code == 202
            assert answer.json()["text"] == told
        assert await kept(found) == 1
        (item,) = (await found.get("/deliveries"))["items"]
        assert (item["provider"], item["event"]) == ("github", "ping")
        assert "body" not in item
        assert "hub-signature" not in json.dumps(item)
        page = await found.get("/deliveries?limit=1&state=received")
        assert (await found.get(f"/deliveries?cursor={page['next']}"))["items"] == []


async def test_what_is_not_signed_is_refused_even_with_the_token(tmp_path: Path) -> None:
    async with site(tmp_path, HOOKED) as found:
        wrong = signed(PING, secret="guessed")  # noqa: S106  # it is wrong
        for headers in ({}, wrong, {**signed(PING), "x-hub-signature-256": ""}):
            answer = await found.client.post("/hooks/github", content=PING, headers=headers)
            assert answer.status_code == 401
            assert answer.json()["error"]["code"] == "signature"
        assert await kept(found) == 0
        statuses = {
            ("GET", "/hooks/github"): 405,
            ("POST", "/hooks/nobody"): 404,
            ("POST", "/hooks/1"): 404,
            ("POST", "/hooks/"): 404,
            ("POST", "/hooks/github/x"): 404,
        }
        for (method, path), status in statuses.items():
            assert (await found.client.request(method, path)).status_code == status


async def test_more_than_25_mb_is_refused_as_soon_as_it_is_known(tmp_path: Path) -> None:
    async with site(tmp_path, HOOKED) as found:
        head = (
            f"POST /hooks/github HTTP/1.1\r\nhost: x\r\ncontent-length: {MAX_BODY + 1}\r\n"
            "connection: close\r\n\r\n"
        )
        answer = await raw(found.port, head.encode())
        assert answer.startswith(b"HTTP/1.1 413 ")

        sent = 0

        async def pieces() -> object:
            nonlocal sent
            for _ in range(100):
                sent += 1
                yield b" " * 1_048_576

        told = await found.client.post("/hooks/github", content=pieces(), headers=signed(b""))  # type: ignore[arg-type]  # it is a stream
        assert told.status_code == 413
        assert sent >= 25
        assert found.services.hooks.received["github", "too_large"] == 2
        whole = b'"' + b"x" * (MAX_BODY - 2) + b'"'
        told = await found.client.post("/hooks/github", content=whole, headers=signed(whole))
        assert told.status_code == 202


async def test_a_body_that_drips_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "WITHIN", 0.3)
    async with site(tmp_path, HOOKED) as found:
        found.services.hooks._within = 0.3
        reader, writer = await asyncio.open_connection("127.0.0.1", found.port)
        writer.write(b"POST /hooks/github HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n")
        began = time.monotonic()
        answer = b""
        while not answer:
            writer.write(b"x")
            try:
                async with asyncio.timeout(0.02):
                    answer = await reader.read(1000)
            except TimeoutError:
                continue
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert time.monotonic() - began < door.WITHIN_AT_MOST / 2
        writer.close()
        await writer.wait_closed()


async def test_larger_bodies_have_a_bound_together_and_small_ones_pass_by_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "MOST_HELD", 2 * 1_048_576)
    async with site(tmp_path, HOOKED) as found:
        writers = []
        for _ in range(2):
            _, writer = await asyncio.open_connection("127.0.0.1", found.port)
            head = b"POST /hooks/github HTTP/1.1\r\nhost: x\r\ncontent-length: 9000000\r\n\r\n"
            writer.write(head + b" " * 1_000_000)
            await writer.drain()
            writers.append(writer)
        await until(lambda: found.services.hooks._held > 1_400_000, "most of the room is taken")
        large = b" " * 1_000_000
        answer = await found.client.post("/hooks/github", content=large, headers=signed(large))
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "busy"
        answer = await found.client.post("/hooks/github", content=PING, headers=signed(PING))
        assert answer.status_code == 202
        for writer in writers:
            writer.close()
            await writer.wait_closed()
        await until(lambda: found.services.hooks._held == 0, "what was held is given back")


async def test_idle_dripping_and_slow_clients_do_not_keep_a_hook_out(tmp_path: Path) -> None:
    options = Options(receiver=receiver, connections=OpenConnections(most=40, head_within=60.0))
    async with site(tmp_path, options) as found:
        agent = await found.add("hangs", [{"hang": {}}])
        await found.comes_to("Working", agent)
        lines = (
            b"",
            b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-drip: ",
            b"POST /hooks/github HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nx",
            f"POST /api/v1/lifecycles HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}"
            "\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{".encode(),
        )
        writers = []
        async with found.client.stream(
            "GET", f"/api/v1/lifecycles/{agent}/events", headers=SSE
        ) as stream:
            assert stream.status_code == 200
            for number in range(200):
                _, writer = await asyncio.open_connection("127.0.0.1", found.port)
                writer.write(lines[number % len(lines)])
                writers.append(writer)
            for number in range(20):
                async with client_of(found.server.url, "") as hook:
                    answer = await hook.post(
                        "/hooks/github", content=PING, headers=signed(PING, number)
                    )
                    assert answer.status_code == 202
            assert len(found.server.connections.open) <= 41
            # A client that is being served stays, however long that takes.
            await found.post(f"/lifecycles/{agent}/guide", {"text": "x"})
            async for line in stream.aiter_lines():
                if "Guided" in line:
                    break
        assert await kept(found) == 20
        for writer in writers:
            writer.close()
        await asyncio.gather(*(each.wait_closed() for each in writers), return_exceptions=True)


async def test_headers_must_come_in_time_and_have_an_end(tmp_path: Path) -> None:
    options = Options(receiver=receiver, connections=OpenConnections(head_within=0.3))
    async with site(tmp_path, options) as found:
        begun = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
        for line in (b"", b"\r\n", begun):
            began = time.monotonic()
            await raw(found.port, line)
            assert time.monotonic() - began < HEAD_WITHIN
        reader, writer = await asyncio.open_connection("127.0.0.1", found.port)
        try:
            writer.write(begun)
            for _ in range(100):
                writer.write(b"x-more: " + b"y" * 4000 + b"\r\n")
                await writer.drain()
            assert await reader.read() == b""
        except ConnectionError:
            pass
        finally:
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)
        assert not found.server.connections.open


async def test_a_client_that_takes_nothing_is_dropped(tmp_path: Path) -> None:
    options = Options(connections=OpenConnections(taken_within=0.2))
    async with site(tmp_path, options) as found:
        agent = await found.add("done", [DONE])
        await found.comes_to("Completed", agent)
        log = found.engine.machine.paths.log(agent, 1)
        log.write_bytes(b"x" * 30_000_000)
        before = len(found.server.connections.open)
        _, writer = await asyncio.open_connection("127.0.0.1", found.port, limit=1000)
        writer.write(
            f"GET /api/v1/lifecycles/{agent}/attempts/1/log HTTP/1.1\r\nhost: localhost\r\n"
            f"authorization: Bearer {TOKEN}\r\n\r\n".encode()
        )
        await until(lambda: len(found.server.connections.open) > before, "it is there")
        await until(lambda: len(found.server.connections.open) == before, "it is dropped")
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def test_a_delivery_that_a_locked_store_cannot_take_is_sent_again_within_5_s_and_kept_once(
    tmp_path: Path,
) -> None:
    async with site(tmp_path, HOOKED) as found:
        database = found.engine.machine.paths.database
        with _locked(database):
            began = time.monotonic()
            answer = await found.client.post("/hooks/github", content=PING, headers=signed(PING))
            assert time.monotonic() - began < 5.0
            assert answer.status_code == 503
            with closing(sqlite3.connect(database)) as reader:
                assert reader.execute("SELECT count(*) FROM deliveries").fetchone() == (0,)
            assert answer.json()["error"]["what_to_do"] == "send it again"
        answer = await found.client.post("/hooks/github", content=PING, headers=signed(PING))
        assert answer.status_code == 202
        assert await kept(found) == 1
        reasons = [fields["reason"] for event, fields in found.reports if event == "hook_refused"]
        assert any("could not be stored within 4 s" in str(reason) for reason in reasons)


@contextmanager
def _locked(database: Path) -> Iterator[None]:
    """Let another process have the database for itself."""
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "c.execute('BEGIN IMMEDIATE'); print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-S", "-c", code, str(database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        yield


async def test_nobody_is_told_that_it_is_kept_before_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site(tmp_path, HOOKED) as found:

        async def full(*_: object) -> bool:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(type(found.store.deliveries), "add", full)
        answer = await found.client.post("/hooks/github", content=PING, headers=signed(PING))
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "store"
        assert ("hook_refused", "github") in {
            (event, str(fields.get("provider"))) for event, fields in found.reports
        }
