"""`loopwright hooks listen`: shows what arrives, or passes on what comes on a channel."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import http.client
import json
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from ci.webhooks.receiver import MAX_BODY
from orchestrator.control.webhook_listener import LOOPBACK, WebhookListener
from tests.ci.forge_server import Reply, forge_server, raw
from tests.waiting import until, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.orchestrator.loopkit import World

DEADLINE = 20.0
NOW = 1_700_000_000.0
SECRET = "s3cret"  # noqa: S105  # nobody else's
PULL = {"action": "closed", "number": 7, "pull_request": {"number": 7, "head": {"ref": "topic"}}}


@pytest.fixture
def heard() -> list[str]:
    return []


@pytest.fixture
def listener(heard: list[str]) -> Iterator[WebhookListener]:
    environ = {"LOOPWRIGHT_GITHUB_HOOK_SECRET": SECRET}
    with WebhookListener(0, "gitea", environ=environ, now=lambda: NOW, tell=heard.append) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def post(port: int, path: str, body: bytes, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=DEADLINE)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("POST", path, body, named)
    answer = connection.getresponse()
    told = answer.status, answer.read().decode()
    connection.close()
    return told


def signed(body: bytes) -> dict[str, str]:
    made = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return {
        "x_hub_signature_256": f"sha256={made}",
        "x_github_event": "pull_request",
        "x_github_delivery": "d-1",
    }


def test_a_listener_tells_which_signature_is_right(
    listener: WebhookListener, heard: list[str]
) -> None:
    port, body = listener.server_port, json.dumps(PULL).encode()
    size = f"{len(body)} bytes"
    answers = [
        post(port, "/hooks/github?x=1", body, **signed(body)),
        post(port, "/hooks/github", body, **signed(body)),
        post(port, "/hooks/github", body + b" ", **signed(body)),
        post(port, "/somewhere", b"", x_gitea_event="push"),
        post(port, "/hooks/elsewhere", b"{}"),
    ]
    assert [status for status, _ in answers] == [202, 202, 401, 401, 404]
    assert heard[:2] == [
        f"github  pull_request.closed  d-1  {size}  correctly signed, kept",
        f"github  pull_request.closed  d-1  {size}  correctly signed, known already",
    ]
    assert "refused because its signature is missing, wrong" in heard[2]
    assert heard[3].startswith("gitea  push  0 bytes  a gitea hook was refused because there is no")
    assert heard[4].startswith("elsewhere  2 bytes  there are hooks only for")
    assert SECRET not in "".join(heard)


def test_a_listener_takes_nothing_too_long_or_without_end(
    listener: WebhookListener, heard: list[str]
) -> None:
    assert post(listener.server_port, "/", b"", content_length=str(MAX_BODY + 1))[0] == 413
    assert post(listener.server_port, "/", b"", content_length="many")[0] == 411
    assert heard == []


def test_listen_says_where_and_what_arrives(world: World) -> None:
    with world.live("hooks", "listen", "--port", "0", LOOPWRIGHT_GITHUB_HOOK_SECRET=SECRET) as live:
        wait_until(lambda: "\n" in live.out, "it listens")
        address = live.out.split("listening on ")[1].split(";")[0]
        assert address.endswith("/hooks/github")
        body = json.dumps(PULL).encode()
        port = int(address.split(":")[2].split("/")[0])
        assert post(port, "/hooks/github", body, **signed(body))[0] == 202
        wait_until(lambda: "github pull_request.closed d-1 " in live.out, "it is told")
        live.signal(signal.SIGINT)
        live.ends(130)


async def test_listen_passes_on_what_comes_on_a_channel(world: World) -> None:
    message = json.dumps({"x-github-event": "pull_request", "body": PULL})
    stream = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {message}\n\n"
    async with forge_server() as channel, forge_server() as ours:
        channel.route("GET", "/chan", raw(stream.encode(), then_hang=True))
        ours.route("POST", "/hooks/gitea", Reply(202))
        with world.live(
            "hooks", "listen", "--provider", "gitea",
            "--port", ours.url.rpartition(":")[2], "--smee", f"{channel.url}/chan",
        ) as live:  # fmt: skip
            told = "pull_request was passed on and answered with 202"
            await until(lambda: told in live.out, "it is passed on")
            live.signal(signal.SIGINT)
            await asyncio.to_thread(live.ends, 130)
            assert f"forwarding from {channel.url}/chan to {ours.url}/hooks/gitea" in live.out
    assert [asked.json() for asked in ours.requests] == [PULL]
