"""A token goes to its forge and nowhere else: no text, no log and no object shows it."""

from __future__ import annotations

import base64
import logging
import traceback
from typing import TYPE_CHECKING

import pytest

from ci.errors import CIError, ForgeError, UnauthorizedError
from ci.http.client import HttpClient
from tests.ci.forge_server import (
    Reply,
    answers,
    closed_port,
    cut_off,
    fails,
    forge_server,
    hangs,
    moved,
    raw,
    text,
)
from tests.ci.http.http_world import TOKEN, asking, signed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.ci.forge_server import Asked


PAIR = base64.b64encode(f"me:{TOKEN}".encode()).decode()
WAYS: tuple[dict[str, str], ...] = (
    {"Authorization": f"Bearer {TOKEN}"},
    {"Authorization": f"token {TOKEN}"},
    {"PRIVATE-TOKEN": TOKEN},
    {"Authorization": f"Basic {PAIR}"},
)


def echoes(status: int, *, kind: str = "application/json") -> Callable[[Asked], Reply]:
    """Answer with what was sent, as proxies and debug pages do."""

    def reply(asked: Asked) -> Reply:
        heard = f"{'.' * 460}{TOKEN} {asked.headers}"
        if kind != "application/json":
            return Reply(status, f"{'.' * 50}{heard[460:]}".encode(), {"content-type": kind})
        return answers({"message": f"{TOKEN} {asked.headers}", "errors": [heard]},
                       status=status)  # fmt: skip

    return reply


FAULTS: tuple[Reply | Callable[[Asked], Reply], ...] = (
    *(echoes(status) for status in (400, 401, 403, 404, 409, 422, 429, 500)),
    echoes(400, kind="text/plain"),
    echoes(200, kind="text/html"),
    echoes(200, kind="application/json-no"),
    text(f"not json: {TOKEN}", kind="application/json"),
    cut_off(text(TOKEN, kind="application/json")),
    moved(f"http://127.0.0.1:1/{TOKEN}?t={TOKEN}"),
    raw(f"{TOKEN}\r\n\r\n".encode()),
    raw(b""),
    hangs(),
)


@pytest.mark.parametrize("way", WAYS)
async def test_no_error_and_no_log_shows_the_token(
    way: Mapping[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    shown: list[str] = []

    async def sign() -> Mapping[str, str]:
        return way

    async def fault(url: str) -> None:
        async with asking(url, sign=sign, timeout=0.1) as web:
            for ask in (
                lambda: web.get("/x", params={"private_token": TOKEN}),
                lambda: web.send("POST", "/x", json={"secret": TOKEN}),
                lambda: web.tail(f"/log?private_token={TOKEN}"),
            ):
                try:
                    await ask()
                except CIError as error:
                    shown.append(repr(error))
                    shown.extend(traceback.format_exception(error))
                    shown.append(repr(vars(error)))
            shown.extend([repr(web), str(web), repr(web.budget)])

    async with forge_server() as server:
        for each in FAULTS:
            for method, path in (("GET", "/x"), ("POST", "/x"), ("GET", "/log")):
                server.route(method, path, each)
            await fault(server.url)
        assert any(TOKEN in str(asked.headers) or PAIR in str(asked.headers)
                   for asked in server.requests)  # fmt: skip
    await fault(await closed_port())
    assert len(shown) > 100
    everything = "\n".join([*shown, caplog.text, *(repr(each.args) for each in caplog.records)])
    for secret in (TOKEN, PAIR, TOKEN[:12], PAIR[:12]):
        assert secret not in everything


async def test_the_library_below_would_log_signed_addresses(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its level it would: the headers of an answer hold where we are sent on to."""
    caplog.set_level(logging.DEBUG)
    async with forge_server() as server, forge_server() as other, asking(server.url) as web:
        server.route("GET", "/log", moved(f"{other.url}/blob?sig={TOKEN}"))
        other.route("GET", "/blob", text("a log"))
        await web.tail("/log")
        assert TOKEN not in caplog.text
        monkeypatch.setattr(logging.getLogger("httpcore"), "level", logging.DEBUG)
        logging.getLogger("httpcore").manager._clear_cache()  # type: ignore[attr-defined]
        await web.tail("/log")
        assert TOKEN in caplog.text
    logging.getLogger("httpcore").manager._clear_cache()  # type: ignore[attr-defined]


@pytest.mark.parametrize("bad", [f"{TOKEN}\n", f"{TOKEN}\r\nX-Evil: 1", f"{TOKEN}ä", f"{TOKEN}\0"])
async def test_a_token_with_a_line_break_is_told_and_not_shown(bad: str) -> None:
    async def sign() -> Mapping[str, str]:
        return {"Authorization": f"Bearer {bad}"}

    async with forge_server() as server, asking(server.url, sign=sign) as web:
        with pytest.raises(UnauthorizedError, match="invalid characters") as raised:
            await web.get("/x")
        assert TOKEN not in "".join(traceback.format_exception(raised.value))
        assert server.requests == []


async def test_what_signing_raises_is_told_as_it_is() -> None:
    async def sign() -> Mapping[str, str]:
        raise UnauthorizedError("no token: set GITHUB_TOKEN")

    async with forge_server() as server, asking(server.url, sign=sign) as web:
        for _ in range(5):
            with pytest.raises(UnauthorizedError, match="no token"):
                await web.get("/x")
        assert server.requests == []


@pytest.mark.parametrize(
    "base", ["http://me:pw@127.0.0.1", "ftp://h", "h", "http://", "http://[::1"]
)
def test_a_base_url_that_is_none_is_refused_without_showing_it(base: str) -> None:
    with pytest.raises(ForgeError, match="not a valid address") as raised:
        HttpClient(base, sign=signed, now=lambda: 0.0)
    assert "pw" not in str(raised.value)


async def test_a_limit_on_the_words_does_not_leave_half_a_token() -> None:
    async with forge_server() as server, asking(server.url) as web:
        for filler in range(470, 520):
            server.route("GET", "/x", fails(422, "." * filler + TOKEN))
            with pytest.raises(ForgeError) as raised:
                await web.get("/x")
            assert "ghp_" not in str(raised.value)
