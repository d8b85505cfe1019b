"""Logs on other hosts, lines that go on, certificates and proxies: where we go and as whom."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import ipaddress
import socket
import ssl
from typing import TYPE_CHECKING

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ci.errors import (
    ForbiddenError,
    ForgeError,
    GarbledError,
    MissingError,
    UnreachableError,
)
from tests.ci.contract import until
from tests.ci.forge_server import (
    ForgeServer,
    Reply,
    answers,
    closed_port,
    cut_off,
    drips,
    fails,
    forge_server,
    hangs,
    moved,
    raw,
    text,
    zipped,
)
from tests.ci.http.http_world import BEGAN, TOKEN, asking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

SECRETS = {"Authorization": f"Bearer {TOKEN}", "PRIVATE-TOKEN": TOKEN, "Cookie": f"s={TOKEN}"}


async def secrets() -> dict[str, str]:
    return SECRETS


@pytest.fixture
async def other() -> AsyncIterator[ForgeServer]:
    async with forge_server() as running:
        yield running


async def test_the_end_of_a_log_begins_with_a_whole_character(server: ForgeServer) -> None:
    server.route("GET", "/log", text("ä" * 50_000 + "the end"))
    server.route("GET", "/short", text("short"))
    async with asking(server.url) as web:
        assert await web.tail("/log", most=14) == "ä" * 3 + "the end"
        assert await web.tail("/short", most=14) == "short"
        assert await web.tail("/log") == "ä" * ((65536 - 7) // 2) + "the end"


async def test_a_packed_log_is_unpacked_whole_even_if_packed_in_parts(server: ForgeServer) -> None:
    first, second = zipped(text("begin " * 5000)), zipped(text("the end"))
    both = Reply(200, first.body + second.body, {"content-encoding": "gzip"})
    server.route("GET", "/log", both)
    async with asking(server.url) as web:
        assert await web.tail("/log", most=13) == "begin the end"


async def test_an_endless_log_is_read_only_so_far_and_says_so(server: ForgeServer) -> None:
    server.route("GET", "/log", zipped(text(b"x" * 40_000_000), level=1))
    async with asking(server.url) as web:
        end = await web.tail("/log", most=5)
    assert end == "xxxxx\n[cut: only the first 33554432 bytes were read]\n"


async def test_a_log_elsewhere_is_read_without_our_credentials(
    server: ForgeServer, other: ForgeServer
) -> None:
    server.route("GET", "/log", moved(f"{other.url}/blob?sig=secret"))
    other.route("GET", "/blob", text("a log"))
    async with httpx.AsyncClient(
        headers=SECRETS, follow_redirects=True, trust_env=False
    ) as careless:
        await careless.get(f"{server.url}/log")
    assert other.requests[0].headers["private-token"] == TOKEN
    async with asking(server.url, sign=secrets) as web:
        assert await web.tail("/log", headers={"Accept": "application/vnd.github+json"}) == "a log"
    assert server.requests[1].headers["private-token"] == TOKEN
    assert server.requests[1].headers["accept"] == "application/vnd.github+json"
    assert TOKEN not in str(other.requests[1])
    assert other.requests[1].query == {"sig": "secret"}


async def test_whoever_sends_us_back_does_not_speak_with_our_voice(
    server: ForgeServer, other: ForgeServer
) -> None:
    server.route("GET", "/log", moved(f"{other.url}/blob"))
    other.route("GET", "/blob", moved(f"{server.url}/private"))
    server.route("GET", "/private", text("mine"))
    async with asking(server.url, sign=secrets) as web:
        await web.tail("/log")
    assert TOKEN not in str(server.requests[1])


async def test_a_log_that_moved_within_the_host_is_read_as_ourselves(server: ForgeServer) -> None:
    server.route("GET", "/log", moved("/there"))
    server.route("GET", "/there", text("a log"))
    async with asking(server.url) as web:
        assert await web.tail("/log") == "a log"
    assert "authorization" in server.requests[1].headers


async def test_a_log_elsewhere_that_fails_names_only_the_host(
    server: ForgeServer, other: ForgeServer
) -> None:
    server.route("GET", "/log", moved(f"{other.url}/opens-the-door?sig=secret"))
    async with asking(server.url) as web:
        for reply, kind in (
            (fails(404), MissingError),
            (fails(403), ForbiddenError),
            (fails(500), UnreachableError),
            (cut_off(text("a log")), GarbledError),
        ):
            other.route("GET", "/opens-the-door", reply)
            with pytest.raises(kind) as raised:
                await web.tail("/log")
            assert other.url.removeprefix("http://") in str(raised.value)
            assert "opens" not in str(raised.value)
            assert "secret" not in str(raised.value)
        server.route("GET", "/x", answers([1]))
        assert (await web.get("/x")).body == [1]


async def test_a_log_that_is_sent_round_and_round_ends(server: ForgeServer) -> None:
    server.route("GET", "/log", moved("/log"))
    server.route("GET", "/nowhere", Reply(302))
    server.route("GET", "/file", moved("file:///etc/passwd"))
    async with asking(server.url) as web:
        with pytest.raises(ForgeError, match="302: it has moved"):
            await web.tail("/log")
        with pytest.raises(GarbledError, match="redirects without a location"):
            await web.tail("/nowhere")
        with pytest.raises(ForgeError, match="not asked: not a valid address"):
            await web.tail("/file")
    assert server.count("GET", "/log") == 4


async def test_lines_are_told_as_they_come(server: ForgeServer) -> None:
    sent = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: hi\r\ndata: \xc3\xa4\n\nrest"
    )
    server.route("GET", "/events", raw(sent, then_hang=True))
    async with asking(server.url) as web:
        async with contextlib.aclosing(web.lines("/events")) as lines:
            assert [await anext(lines) for _ in range(3)] == [": hi", "data: ä", ""]
        await until(lambda: server.open_connections == 0)


async def test_lines_that_are_cut_at_any_place_come_out_whole(server: ForgeServer) -> None:
    server.route("GET", "/events", drips(text("one\r\ntwo ä\nthree\n"), every=0))
    async with asking(server.url) as web:
        assert [line async for line in web.lines("/events")] == ["one", "two ä", "three"]


async def test_lines_that_stay_away_are_missed(server: ForgeServer) -> None:
    sent = b"HTTP/1.1 200 OK\r\n\r\none\n"
    server.route("GET", "/events", raw(sent, then_hang=True))
    server.route("GET", "/hangs", hangs())
    async with asking(server.url, timeout=0.2) as web:
        lines = web.lines("/events", idle=0.1)
        assert await anext(lines) == "one"
        with pytest.raises(UnreachableError, match="the answer timed out"):
            await anext(lines)
        with pytest.raises(UnreachableError, match="no complete answer within"):
            await anext(web.lines("/hangs"))


async def test_lines_that_are_refused_raise_as_all_else_does(server: ForgeServer) -> None:
    server.route("GET", "/events", fails(403, retry_after="9"))
    server.route("GET", "/long", text("x" * 5000))
    async with asking(server.url, max_body=1000) as web:
        with pytest.raises(GarbledError, match="longer than 1000"):
            await anext(web.lines("/long"))
        with pytest.raises(ForgeError) as raised:
            await anext(web.lines("/events"))
        assert raised.value.retry_at == BEGAN + 9
    async with asking(await closed_port()) as web:
        with pytest.raises(UnreachableError, match="refused"):
            await anext(web.lines("/events"))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a certificate of our own for 127.0.0.1, with its key in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Loopback")])
    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=3650))
        .not_valid_after(now + dt.timedelta(days=36500))
        .add_extension(here, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("authority") / "both.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return file


def tls(authority: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority)
    return context


async def test_a_certificate_of_nobody_we_trust_is_refused(authority: Path) -> None:
    async with forge_server(tls=tls(authority)) as server, asking(server.url) as web:
        server.route("GET", "/x", answers([1]))
        with pytest.raises(UnreachableError, match=r"is not trusted .*SSL_CERT_FILE"):
            await web.get("/x")
        assert server.requests == []


async def test_an_authority_of_ones_own_is_trusted_if_it_is_named(
    authority: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    async with forge_server(tls=tls(authority)) as server, asking(server.url) as web:
        server.route("GET", "/x", answers([1]))
        assert (await web.get("/x")).body == [1]


async def test_certificates_that_cannot_be_read_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "no"))
    async with asking("https://127.0.0.1:1") as web:
        with pytest.raises(ForgeError, match="SSL_CERT_FILE"):
            await web.get("/x")


async def test_a_host_that_speaks_no_tls_is_unreachable(server: ForgeServer) -> None:
    async with asking(server.url.replace("http:", "https:"), timeout=0.2) as web:
        with pytest.raises(UnreachableError):
            await web.get("/x")


async def test_a_log_is_never_followed_from_tls_to_plain(
    authority: Path, other: ForgeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    other.route("GET", "/blob", text("a log"))
    async with forge_server(tls=tls(authority)) as server, asking(server.url) as web:
        server.route("GET", "/log", moved(f"{other.url}/blob"))
        with pytest.raises(ForgeError, match="without TLS"):
            await web.tail("/log")
    assert other.requests == []


PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Awaitable[object]]:
    """Return what asks a host with these variables, and with no proxies but those."""

    async def ask(host: str, **env: str) -> object:
        for name in PROXIES:
            for each in (name, name.upper()):
                monkeypatch.delenv(each, raising=False)
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        async with asking(host) as web:
            return (await web.get("/x")).body

    return ask


async def test_a_proxy_of_the_environment_is_used(
    server: ForgeServer, proxied: Callable[..., Awaitable[object]]
) -> None:
    server.route("GET", "/x", answers(["by the proxy"]))
    for env in ({"http_proxy": server.url}, {"ALL_PROXY": server.url},
                {"http_proxy": server.url.removeprefix("http://")},
                {"all_proxy": server.url, "no_proxy": "a.example, fe80::/10"}):  # fmt: skip
        assert await proxied("http://forge.example", **env) == ["by the proxy"]
    assert [each.headers["host"] for each in server.requests] == ["forge.example"] * 4


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
async def test_this_machine_is_never_asked_through_a_proxy(
    server: ForgeServer, proxied: Callable[..., Awaitable[object]], name: str
) -> None:
    server.route("GET", "/x", answers(["directly"]))
    url = server.url.replace("127.0.0.1", name)
    assert await proxied(url, all_proxy=await closed_port()) == ["directly"]


@pytest.mark.parametrize("named", ["*", "example.invalid", "b, .example.invalid"])
async def test_a_host_that_no_proxy_names_is_asked_directly(
    server: ForgeServer,
    proxied: Callable[..., Awaitable[object]],
    named: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(UnreachableError, match="its name cannot be resolved"):
        await proxied("http://a.example.invalid", all_proxy=server.url, no_proxy=named)
    assert server.requests == []


async def test_a_proxy_that_cannot_be_used_is_told_without_its_password(
    server: ForgeServer, proxied: Callable[..., Awaitable[object]]
) -> None:
    gone = (await closed_port()).replace("http://", f"http://user:{TOKEN}@")
    for proxy in (f"socks5://user:{TOKEN}@127.0.0.1:1", f"ftp://user:{TOKEN}@127.0.0.1", gone):
        with pytest.raises(ForgeError) as raised:
            await proxied("http://forge.example", all_proxy=proxy)
        assert TOKEN not in str(raised.value)
    server.route("CONNECT", "", Reply(407))
    with pytest.raises(UnreachableError, match="proxy"):
        await proxied("https://forge.example", https_proxy=server.url)


async def test_netrc_signs_nothing_in(
    server: ForgeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / ".netrc"
    netrc.write_text(f"machine 127.0.0.1 login me password {TOKEN}\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    auth = httpx.NetRCAuth()
    async with httpx.AsyncClient(auth=auth, trust_env=False) as careless:
        await careless.get(f"{server.url}/x")
    assert "authorization" in server.requests[0].headers

    async def nobody() -> dict[str, str]:
        return {}

    server.route("GET", "/x", answers([1]))
    async with asking(server.url, sign=nobody) as web:
        await web.get("/x")
    assert "authorization" not in server.requests[1].headers


async def test_cookies_are_not_taken_along(server: ForgeServer) -> None:
    server.route("GET", "/x", answers([1], headers={"set-cookie": "track=me"}))
    async with asking(server.url) as web:
        await web.get("/x")
        await web.get("/x")
    assert "cookie" not in server.requests[1].headers


async def test_many_lines_at_once_leave_room_for_questions(server: ForgeServer) -> None:
    sent = b"HTTP/1.1 200 OK\r\n\r\none\n"
    server.route("GET", "/events", raw(sent, then_hang=True))
    server.route("GET", "/x", answers([1]))
    async with asking(server.url) as web, contextlib.AsyncExitStack() as stack:
        streams = [
            await stack.enter_async_context(contextlib.aclosing(web.lines("/events")))
            for _ in range(10)
        ]
        assert await asyncio.gather(*(anext(each) for each in streams)) == ["one"] * 10
        assert (await web.get("/x")).body == [1]
