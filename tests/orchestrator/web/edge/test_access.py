"""Who is turned away before any endpoint, whatever they know or pretend."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from orchestrator.web.edge import access as guarding
from tests.orchestrator.web.webkit import TOKEN, Options, Site, raw, site
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

HOSTS = (
    "evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "127.0.0.1.nip.io",
    "localhost.evil.example", "localhost.", "localhost.:{port}", "127.0.0.1.", "127.0.0.2",
    "127.1", "2130706433", "0x7f000001", "017700000001", "0", "0.0.0.000", "[::]", "[::2]", "::1",
    "[::1", "::1]", "[::ffff:127.0.0.1]", "[0:0:0:0:0:0:0:1]", "localhost:port", "localhost:",
    "localhost:-1", "localhost:999999", "localhost:{port}:{port}", "user@localhost", "@localhost",
    "localhost@evil.example", "localhost/evil.example", "localhost\\evil.example", "localhost#",
    "localhost?x", "localhost,evil.example", "evil.example,localhost", "localhost evil.example",
    "evil.example localhost", "http://localhost", "//localhost", "%6cocalhost", "localhost%00",
    "localh\u00f6st", "xn--localhost", "*", "*.localhost", "a.localhost", "-", ".", "", " ",
    "127.0.0.1:{port}@evil.example", "169.254.169.254", "metadata.google.internal", "{port}",
    "loca\u200blhost", "LOCALHOST.EVIL.EXAMPLE", "0177.0.0.1", "127.0.0.1\x0b", "l\u0131calhost",
)  # fmt: skip
ORIGINS = (
    "http://evil.example", "https://evil.example", "null", "", " ", "file://", "about:blank",
    "http://localhost.evil.example", "http://127.0.0.1.evil.example:{port}", "http://127.0.0.1",
    "http://127.0.0.1:1", "http://127.0.0.1:{port}.evil.example", "http://localhost:{port}",
    "http://127.0.0.1:{port}/", "http://127.0.0.1:{port}/path", "http://user@127.0.0.1:{port}",
    "http://127.0.0.1:{port}@evil.example", "ws://127.0.0.1:{port}", "ftp://127.0.0.1:{port}",
    "javascript://127.0.0.1:{port}", "//127.0.0.1:{port}", "127.0.0.1:{port}", "http:127.0.0.1",
    "http://[::1]:{port}", "http://127.0.0.1:{port} http://evil.example",
    "http://evil.example http://127.0.0.1:{port}", "http://127.0.0.1:{port},http://evil.example",
    "chrome-extension://abc", "moz-extension://abc", "http://127.0.0.1:{port}#", "http://[",
    "http://127.0.0.1:{port}?x", "http://127.1:{port}", "http://2130706433:{port}", "*", "data:",
    "blob:http://127.0.0.1:{port}", "http://127.0.0.1:0{port}", "http://127.0.0.1:{port}\u00e4",
)  # fmt: skip
SITES = (
    "cross-site", "same-site", "CROSS-SITE", "", "same-origin, cross-site", "unknown", "null",
    "same-origin;x", "none,none",
)  # fmt: skip
TOKENS = (
    "", "Bearer", "Bearer ", "Bearer x", "Bearer {token}x", "Bearer x{token}", "Bearer {half}",
    "Bearer {upper}", "Bearer {token} {token}", "Bearer {token},{token}", "Bearer \u00e4{token}",
    "{token}", "Basic {token}", "Token {token}", "bearer:{token}", "Bearer\t", "Bearer null",
    "Bearer undefined", "Bearer None", "Bearer *", "Bearer %00", "Bearer ' OR 1=1", "Digest x",
    "Bearer={token}", "BearerBearer {token}", "Bearer Bearer {token}", 'Bearer "{token}"',
    "Bearer [{token}]", "Bearer {token}=", "Bearer {reverse}", "Basic YTpi", "Bearer {zeros}",
)  # fmt: skip
TYPES = (
    "", "text/plain", "text/plain; application/json", "application/x-www-form-urlencoded",
    "multipart/form-data", "multipart/form-data; boundary=x", "application/jsonp", "text/json",
    "application/json-seq", "application/vnd.api+json", "application /json", "application/json,",
    "json", "*/*", "application/*", "text/html", "application/octet-stream", "application/xml",
    "application/javascript", "applicatio\u006e/jso\u00f1", "application/json/x",
    "xapplication/json",
)  # fmt: skip
Headers = dict[str, str | list[str]]
BODY = b'{"text": "x", "command": "true"}'


class Hostile:
    """Sends requests byte by byte, as no client library would let us."""

    def __init__(self, found: Site) -> None:
        self.found = found
        self.sent = 0

    async def send(
        self, headers: Headers | None = None, *, drop: str = "", method: str = "POST"
    ) -> int:
        """Send a request that is right but for these headers; returns the status."""
        self.sent += 1
        told: Headers = {
            "host": f"127.0.0.1:{self.found.port}",
            "authorization": f"Bearer {TOKEN}",
            "content-type": "application/json",
            **(headers or {}),
        }
        body = BODY if method == "POST" else b""
        lines = [f"{method} /api/v1/lifecycles HTTP/1.1"]
        for name, values in told.items():
            if name != drop:
                each = values if isinstance(values, list) else [values]
                lines += [f"{name}: {self._filled(value)}" for value in each]
        lines += ["connection: close", f"content-length: {len(body)}", "", ""]
        answer = await raw(self.found.port, "\r\n".join(lines).encode() + body)
        return int(answer.split(b" ", 2)[1])

    def _filled(self, text: str) -> str:
        values = {
            "port": str(self.found.port),
            "token": TOKEN,
            "half": TOKEN[: len(TOKEN) // 2],
            "upper": TOKEN.upper(),
            "reverse": TOKEN[::-1],
            "zeros": "0" * len(TOKEN),
        }
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    async def added(self) -> int:
        return len((await self.found.store.list(limit=1000)).records)


async def test_more_than_200_strange_hosts_origins_tokens_and_types_are_refused(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found:
        hostile = Hostile(found)
        table: dict[str, tuple[int, tuple[str | list[str], ...]]] = {
            "host": (421, (*HOSTS, ["localhost", "evil.example"], ["localhost", "localhost"])),
            "origin": (403, (*ORIGINS, ["http://127.0.0.1:{port}", "http://evil.example"])),
            "sec-fetch-site": (403, SITES),
            "authorization": (
                401,
                (*TOKENS, ["Bearer x", "Bearer {token}"], ["Bearer {token}"] * 2),
            ),
            "content-type": (415, TYPES),
        }
        for name, (status, values) in table.items():
            for value in values:
                # 400 is what no request at all gets, such as one with a control character.
                assert await hostile.send({name: value}) in {
                    400,
                    status,
                    429 if status == 401 else status,
                }, (name, value)
        for name, status in (("host", 421), ("authorization", 401), ("content-type", 415)):
            assert await hostile.send(drop=name) == status
        for host in HOSTS:
            assert await hostile.send({"host": host}, method="GET") in {400, 421}, host
        for token in TOKENS:
            assert await hostile.send({"authorization": token}, method="GET") in {400, 401, 429}, (
                token
            )
        assert hostile.sent > 200
        assert await hostile.added() == 0


async def test_what_is_right_is_let_in(tmp_path: Path) -> None:
    options = Options(hosts=frozenset({"loop.example"}))
    async with site(tmp_path, options) as found:
        hostile = Hostile(found)
        assert await hostile.send() == 201
        for host in ("localhost", "LocalHost:{port}", "[::1]:1", "loop.example:80", "Loop.Example"):
            assert await hostile.send({"host": host}) == 201, host
        assert await hostile.send({"origin": "http://127.0.0.1:{port}"}) == 201
        ours: Headers = {"host": "loop.example", "origin": "https://loop.example"}
        assert await hostile.send(ours) == 201
        assert await hostile.send({"sec-fetch-site": "same-origin"}) == 201
        assert await hostile.send({"sec-fetch-site": "none"}) == 201
        assert await hostile.send({"authorization": "bearer {token}"}) == 201
        assert await hostile.send({"content-type": "Application/JSON; charset=utf-8"}) == 201


async def test_without_the_guard_a_page_of_another_site_adds_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site(tmp_path) as found:
        hostile = Hostile(found)
        attack: Headers = {
            "host": "evil.example",
            "origin": "http://evil.example",
            "sec-fetch-site": "cross-site",
            "authorization": "",
        }
        assert await hostile.send(attack) == 421
        with monkeypatch.context() as patch:
            patch.setattr(guarding.Guard, "_check", lambda *_: None)
            assert await hostile.send(attack) == 201
        assert await hostile.added() == 1


async def test_nothing_is_shown_to_who_has_no_token_but_that_it_lives(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        for path in ("/", "/healthz", "/readyz"):
            answer = await found.client.get(path, headers={"authorization": ""})
            assert answer.status_code == 200
            assert str(tmp_path) not in answer.text
        for path in ("/metrics", "/openapi.json", "/api/v1/events", "/docs", "/x"):
            answer = await found.client.get(path, headers={"authorization": ""})
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_every_answer_bears_the_headers_of_a_safe_one_and_none_opens_it_to_others(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found:
        answers = [
            await found.client.get("/"),
            await found.client.get("/api/v1/lifecycles"),
            await found.client.get("/nothing"),
            await found.client.get("/api/v1/lifecycles", headers={"host": "evil.example"}),
            await found.client.post("/hooks/github"),
            await found.client.options(
                "/api/v1/lifecycles",
                headers={"origin": "http://evil.example", "access-control-request-method": "POST"},
            ),
        ]
        for answer in answers:
            for name, value in guarding.HEADERS:
                assert answer.headers[name.decode()] == value.decode()
            assert not [name for name in answer.headers if name.startswith("access-control")]
        assert answers[-1].status_code == 403


async def test_a_body_that_is_too_long_is_refused_and_its_sender_reads_why(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found:
        path = "/api/v1/lifecycles"
        json = {"content-type": "application/json"}
        large = b" " * (guarding.MOST_BODY + 1)
        answer = await found.client.post(path, content=large, headers=json)
        assert answer.status_code == 413

        async def pieces() -> object:
            for _ in range(40):
                yield b" " * 65_536

        answer = await found.client.post(path, content=pieces(), headers=json)  # type: ignore[arg-type]  # it is a stream
        assert answer.status_code == 413
        assert answer.json()["error"]["code"] == "too_large"


async def test_when_too_much_is_asked_for_at_once_the_rest_is_told_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site(tmp_path) as found:
        gate = asyncio.Event()
        listing = found.store.list

        async def slow(*args: object, **more: object) -> object:
            await gate.wait()
            return await listing(*args, **more)  # type: ignore[arg-type]  # passed on

        # The store itself cannot be made slow at will; what is tested is the connection before it.
        monkeypatch.setattr(found.store, "list", slow)
        waiting = [
            asyncio.create_task(found.client.get("/api/v1/lifecycles"))
            for _ in range(guarding.MOST_AT_ONCE + 5)
        ]
        await until(lambda: sum(each.done() for each in waiting) == 5, "as many wait as may")
        answer = await found.client.get("/api/v1/statistics")
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert (await found.client.get("/healthz")).status_code == 200
        hook = await found.client.post("/hooks/github", content=b"{}")
        assert hook.json()["error"]["code"] == "closed"
        gate.set()
        answers = [each.status_code for each in await asyncio.gather(*waiting)]
        assert sorted(answers) == [200] * guarding.MOST_AT_ONCE + [503] * 5


async def test_a_defect_is_told_without_a_trace_and_the_log_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site(tmp_path) as found:

        async def broken(*_: object, **__: object) -> object:
            raise RuntimeError("sesame")

        monkeypatch.setattr(found.store, "list", broken)
        answer = await found.client.get("/api/v1/lifecycles")
        assert answer.status_code == 500
        assert answer.json()["error"]["code"] == "internal"
        assert "sesame" not in answer.text
        ((event, fields),) = [each for each in found.reports if each[0].startswith("api")]
        assert event == "api_request_failed"
        assert "sesame" in str(fields["trace"])
