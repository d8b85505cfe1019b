"""How a person gets in, what then counts as that person, and what each role may do."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import httpx

from orchestrator.web.edge.passes import PassKind, VisitorRole
from orchestrator.web.edge.visitors import MOST_WRONG
from tests.orchestrator.loopkit import DONE
from tests.orchestrator.web.pages.browsing import anyone, browser, link_of, text_of
from tests.orchestrator.web.webkit import PATIENCE, TOKEN, client_of, site

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_link_signs_in_once_and_looking_at_it_does_not_spend_it(tmp_path: Path) -> None:
    async with site(tmp_path) as found, anyone(found) as client, anyone(found) as other:
        path = link_of(found)
        for _ in range(3):
            assert "Sign in" in (await client.get(path)).text
        sent = {"link": path.partition("=")[2], "name": "Ada", "next": "/?needs=me"}
        answer = await client.post("/login", data=sent)
        assert (answer.status_code, answer.headers["location"]) == (303, "/?needs=me")
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert "secure" not in cookie
        assert TOKEN not in cookie
        assert (await client.get("/")).status_code == 200
        answer = await other.post("/login", data=sent)
        assert answer.status_code == 401
        assert "used already" in text_of(answer.text)


async def test_the_cookie_is_for_tls_only_where_the_browser_came_by_tls(tmp_path: Path) -> None:
    async with site(tmp_path) as found, anyone(found) as client:
        sent = {"link": link_of(found).partition("=")[2], "name": "Ada"}
        origin = {"origin": f"https://127.0.0.1:{found.port}", "sec-fetch-site": "same-origin"}
        answer = await client.post("/login", data=sent, headers=origin)
        assert "secure" in answer.headers["set-cookie"].lower()


async def test_who_is_not_signed_in_is_sent_there_and_back(tmp_path: Path) -> None:
    async with site(tmp_path) as found, anyone(found) as client:
        answer = await client.get("/t/T1?x=1")
        assert answer.headers["location"] == "/login?next=%2Ft%2FT1%3Fx%3D1"
        strange = await client.get("/login?next=//evil.example/")
        assert "evil.example" not in strange.text
        answer = await client.post("/login", data={"token": TOKEN, "name": "Ada", "next": "/t/T1"})
        assert answer.headers["location"] == "/t/T1"


async def test_a_link_from_a_mail_gets_a_page_that_loads_the_address_once_more(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found, anyone(found) as client:
        answer = await client.get("/t/T1", headers={"sec-fetch-site": "cross-site"})
        assert answer.status_code == 200
        assert '<meta http-equiv="refresh" content="0;url=/t/T1">' in answer.text
        for strange in ("//evil.example/", "///evil.example/?x=1"):
            address = f"http://127.0.0.1:{found.port}{strange}"
            answer = await client.get(address, headers={"sec-fetch-site": "cross-site"})
            assert "evil.example" not in answer.text, strange
        answer = await client.get("/t/T1", headers={"sec-fetch-site": "same-origin"})
        assert answer.status_code == 303


async def test_signing_out_ends_the_session_and_not_only_the_cookie(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        cookie = visit.client.cookies["loopwright"]
        await visit.send("/logout")
        async with anyone(found) as client:
            client.cookies.set("loopwright", cookie)
            assert (await client.get("/")).status_code == 303


async def test_signing_out_ends_what_the_browser_still_reads(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit, anyone(found) as tab:
        tab.cookies = visit.client.cookies
        async with asyncio.timeout(PATIENCE), tab.stream("GET", "/ui/events?view=board") as read:
            told = read.aiter_text()
            assert "hello" in await anext(told)
            await visit.send("/logout")
            await found.add("later", [DONE])
            with suppress(httpx.RemoteProtocolError):  # it is cut off, not finished
                async for each in told:
                    assert "later" not in each
        assert "api_request_failed" not in [name for name, _ in found.reports]


async def test_a_change_with_the_cookie_needs_the_guard_of_a_form(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        answer = await visit.client.post("/logout", data={"csrf": "0" * 40})
        assert answer.status_code == 403
        answer = await visit.client.post("/logout", data={"x": "1"})
        assert answer.status_code == 403
        answer = await visit.client.post(
            "/api/v1/lifecycles", json={"text": "x", "command": "true"}
        )
        assert answer.json()["error"]["code"] == "forged"
        page = await visit.page("/")
        origin = {"origin": "http://evil.example", "x-csrf-token": visit.guard}
        assert visit.guard in page
        assert (
            await visit.client.post("/logout", headers=origin, data={"x": "1"})
        ).status_code == 403
        headers = {"x-csrf-token": visit.guard}
        body = {"text": "x", "name": "by-cookie", "command": "true"}
        answer = await visit.client.post("/api/v1/lifecycles", json=body, headers=headers)
        assert answer.status_code == 201
        trail = await found.store.trail.entries()
        assert ("add", "Ada") in [(each.action, each.actor) for each in trail]


async def test_the_record_names_who_it_was_in_any_script_on_pages_and_in_the_api(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found, browser(found, name="Žofie 小林") as visit:
        await visit.page("/")
        headers = {"x-csrf-token": visit.guard}
        body = {"text": "x", "name": "one", "command": "true"}
        answer = await visit.client.post("/api/v1/lifecycles", json=body, headers=headers)
        assert answer.status_code == 201
        for name in ("Ærø", "小林"):
            told = {"x-loopwright-actor": name.encode()}
            await found.post("/lifecycles", {**body, "name": "two"}, 201, headers=told)
        trail = await found.store.trail.entries()
        acts = [each.actor for each in trail if each.action == "add"]
        assert acts == ["Žofie 小林", "Ærø", "小林"]


async def test_a_viewer_reads_and_changes_nothing_on_pages_and_in_the_api(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found, VisitorRole.VIEWER) as visit:
        await visit.page("/")
        answer = await visit.send("/t/T1/accept", status=403)
        assert "takes the role operator" in text_of(answer.text)
        door = found.services.door
        token = door.office.issue(PassKind.TOKEN, "ci", VisitorRole.VIEWER, door.now() + 60)
        async with client_of(found.server.url, token) as client:
            assert (await client.get("/api/v1/lifecycles")).status_code == 200
            answer = await client.post("/api/v1/lifecycles", json={"text": "x"})
            assert answer.json()["error"]["code"] == "role"


async def test_an_operator_does_not_approve_settings(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found, VisitorRole.OPERATOR) as visit:
        await visit.page("/")
        answer = await visit.send("/settings/approve", status=403)
        assert "takes the role admin" in text_of(answer.text)


async def test_many_wrong_tokens_are_slowed_and_the_right_one_gets_in(tmp_path: Path) -> None:
    async with site(tmp_path) as found, client_of(found.server.url, "wrong" * 5) as client:
        for _ in range(MOST_WRONG):
            assert (await client.get("/api/v1/lifecycles")).status_code == 401
        answer = await client.get("/api/v1/lifecycles")
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")
        await found.get("/lifecycles")


async def test_a_pass_of_another_kind_or_another_token_opens_nothing(tmp_path: Path) -> None:
    async with site(tmp_path) as found, anyone(found) as client:
        office, until = found.services.door.office, found.services.door.now() + 60
        link = office.issue(PassKind.LINK, "Ada", VisitorRole.ADMIN, until)
        for value in (link, TOKEN, "lw1.e30.x", "lw1.." + "x" * 40, ""):
            client.cookies.set("loopwright", value)
            assert (await client.get("/")).status_code == 303
        async with client_of(found.server.url, link) as program:
            assert (await program.get("/api/v1/lifecycles")).status_code == 401
