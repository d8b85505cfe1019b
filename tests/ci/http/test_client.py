"""Asking a host: what is kept, pages, moves within the host, changes, and what is sent along."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ci.errors import ForgeError, GarbledError, RefusedError, UnreachableError
from ci.http.cache import Cache
from ci.http.client import Response
from tests.ci.contract import until
from tests.ci.forge_server import (
    ForgeServer,
    Reply,
    answers,
    forge_server,
    in_turn,
    moved,
    raw,
    zipped,
)
from tests.ci.http.http_world import TOKEN, asking

if TYPE_CHECKING:
    from tests.ci.forge_server import Asked


async def test_an_unchanged_answer_is_the_kept_one(server: ForgeServer) -> None:
    server.route("GET", "/x", answers({"n": 1}, etag='W/"a"', headers={"x-h": "1"}))
    async with asking(server.url) as web:
        first, second = await web.get("/x"), await web.get("/x")
        assert (first.status, first.body, first.unchanged) == (200, {"n": 1}, False)
        assert (second.status, second.body, second.unchanged) == (200, {"n": 1}, True)
        assert second.headers["x-h"] == "1"
        assert [each.status for each in server.requests] == [200, 304]
        assert web.budget.spent == 1
        server.route("GET", "/x", answers({"n": 2}, etag='W/"b"'))
        third = await web.get("/x")
        assert (third.body, third.unchanged) == ({"n": 2}, False)


async def test_a_date_serves_where_there_is_no_etag(server: ForgeServer) -> None:
    dated = answers([1], headers={"last-modified": "Wed, 18 Nov 2026 08:00:00 GMT"})
    server.route("GET", "/x", dated)
    async with asking(server.url) as web:
        assert [(await web.get("/x")).unchanged for _ in range(2)] == [False, True]


async def test_what_differs_in_query_or_form_is_kept_apart(server: ForgeServer) -> None:
    def reply(asked: Asked) -> Reply:
        return answers([asked.query.get("page"), asked.headers["accept"]], etag='"same"')

    server.route("GET", "/x", reply)
    async with asking(server.url) as web:
        assert (await web.get("/x", params={"page": 1})).body == ["1", "application/json"]
        assert (await web.get("/x", params={"page": 2})).body == ["2", "application/json"]
        raw_form = await web.get("/x", params={"page": 1}, headers={"Accept": "application/x+json"})
        assert raw_form.body == ["1", "application/x+json"]
        assert (await web.get("/x?page=2")).unchanged


async def test_a_304_that_nobody_asked_for_is_garbled(server: ForgeServer) -> None:
    server.route("GET", "/x", Reply(304))
    async with asking(server.url) as web:
        with pytest.raises(GarbledError, match="nothing is cached"):
            await web.get("/x")


def test_kept_answers_are_bounded_in_number_and_size() -> None:
    tagged, cache = Response(200, headers={"etag": '"e"'}), Cache(entries=3, size=100)
    for name in "abc":
        cache.keep((name, ""), tagged, 10)
    assert cache.find(("a", "")) is not None
    cache.keep(("d", ""), tagged, 10)
    assert cache.find(("b", "")) is None
    assert cache.find(("a", "")) is not None
    cache.keep(("e", ""), tagged, 85)
    assert (len(cache), cache.size) == (2, 95)
    cache.keep(("e", ""), tagged, 101)
    assert (len(cache), cache.size) == (1, 10)
    cache.keep(("f", ""), Response(200), 1)
    assert cache.find(("f", "")) is None


def paged(server: ForgeServer, pages: list[list[Any]], *, key: str | None = None) -> None:
    def reply(asked: Asked) -> Reply:
        number = int(asked.query.get("page", "1"))
        following = f"{server.url}/x?per_page=2&page={number + 1}"
        link = f'<{server.url}/x>; rel="first", <{following}>; rel="next"'
        page = pages[number - 1]
        return answers(
            {key: page, "total_count": 5} if key else page,
            etag=f'"{page}"',
            headers={"link": link} if number < len(pages) else {},
        )

    server.route("GET", "/x", reply)


async def test_a_list_is_read_page_by_page_and_each_page_is_conditional(
    server: ForgeServer,
) -> None:
    paged(server, [[1, 2], [3, 4], [5]])
    async with asking(server.url) as web:
        for _ in range(2):
            assert await web.get_all("/x", params={"per_page": 2}) == [1, 2, 3, 4, 5]
        assert [each.status for each in server.requests] == [200, 200, 200, 304, 304, 304]
        assert web.budget.spent == 3


async def test_a_list_inside_an_object_is_picked_by_its_key(server: ForgeServer) -> None:
    paged(server, [[1, 2], [3]], key="check_runs")
    async with asking(server.url) as web:
        assert await web.get_all("/x", key="check_runs") == [1, 2, 3]
        with pytest.raises(GarbledError, match="no list 'jobs'"):
            await web.get_all("/x", key="jobs")


async def test_no_more_pages_are_read_than_wanted(server: ForgeServer) -> None:
    paged(server, [[1, 2], [3, 4], [5]])
    async with asking(server.url) as web:
        assert await web.get_all("/x", most=3) == [1, 2, 3]
    assert len(server.requests) == 2


async def test_a_page_that_begins_after_a_full_one_is_not_missed(server: ForgeServer) -> None:
    pages = [[1, 2]]
    paged(server, pages)
    async with asking(server.url) as web:
        assert await web.get_all("/x", params={"per_page": 2}) == [1, 2]
        pages.append([3])
        assert await web.get_all("/x", params={"per_page": 2}) == [1, 2, 3]


async def test_pages_that_go_round_in_a_circle_end(server: ForgeServer) -> None:
    link = f'<{server.url}/x>; rel="next"'
    server.route("GET", "/x", answers([1], headers={"link": link}))
    async with asking(server.url) as web:
        assert await web.get_all("/x") == [1]


async def test_a_next_page_of_another_host_is_not_asked(server: ForgeServer) -> None:
    async with forge_server() as other, asking(server.url) as web:
        link = f'<{other.url}/x?page=2>; rel="next"'
        server.route("GET", "/x", answers([1], headers={"link": link}))
        with pytest.raises(ForgeError, match="another host"):
            await web.get_all("/x")
        assert other.requests == []


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_renamed_repository_is_found_again(server: ForgeServer, status: int) -> None:
    server.route("GET", "/old", moved("/repositories/1", status=status))
    server.route("GET", "/repositories/1", answers({"id": 1}, etag='"a"'))
    async with asking(server.url) as web:
        assert (await web.get("/old")).body == {"id": 1}
        assert (await web.get("/old")).unchanged


async def test_a_circle_of_moves_ends(server: ForgeServer) -> None:
    server.route("GET", "/x", moved("/x"))
    async with asking(server.url) as web:
        with pytest.raises(ForgeError, match="more than 3 times"):
            await web.get("/x")
    assert len(server.requests) == 4


async def test_a_move_to_another_host_is_not_followed(server: ForgeServer) -> None:
    async with forge_server() as other, asking(server.url) as web:
        server.route("GET", "/x", moved(f"{other.url}/x"))
        with pytest.raises(ForgeError, match=other.url.removeprefix("http://")):
            await web.get("/x")
        with pytest.raises(ForgeError, match="another host"):
            await web.get(f"{other.url}/x")
        assert other.requests == []


@pytest.mark.parametrize(
    "to", ["http://[::1", "javascript:1", "http://me@127.0.0.1/", "http://h:99999/"]
)
async def test_a_move_to_no_address_is_told(server: ForgeServer, to: str) -> None:
    for method in ("GET", "POST"):
        server.route(method, "/x", moved(to))
    async with asking(server.url) as web:
        for ask in (web.get("/x"), web.tail("/x"), web.send("POST", "/x", json={})):
            with pytest.raises(ForgeError, match=r"valid|which is not asked|it has moved"):
                await ask


@pytest.mark.parametrize(
    "address",
    ["http://127.0.0.1@evil.example/x", "http://user:pw@127.0.0.1/x", "http://[::1", "http://"],
)
async def test_an_address_that_only_looks_like_ours_is_not_asked(
    server: ForgeServer, address: str
) -> None:
    async with asking(server.url) as web:
        with pytest.raises(ForgeError, match="not asked"):
            await web.get(address)
    assert server.requests == []


async def test_a_quoted_path_arrives_as_it_was_given(server: ForgeServer) -> None:
    server.route("GET", "/api/v4/projects/{id}", lambda asked: answers(asked.names))
    async with asking(f"{server.url}/api/v4/") as web:
        assert (await web.get("/projects/group%2Fname")).body == {"id": "group%2Fname"}
        whole = f"{server.url}/api/v4/projects/7"
        assert (await web.get(whole)).body == {"id": "7"}


async def test_every_request_says_who_asks(server: ForgeServer) -> None:
    server.route("GET", "/x", answers([]))
    async with asking(server.url) as web:
        await web.get("/x", headers={"X-GitHub-Api-Version": "2022-11-28"})
    sent = server.requests[0].headers
    assert sent["user-agent"] == "loopwright"
    assert sent["authorization"] == f"Bearer {TOKEN}"
    assert sent["x-github-api-version"] == "2022-11-28"


async def test_a_change_is_sent_as_json_and_never_kept(server: ForgeServer) -> None:
    server.route("POST", "/x", lambda asked: answers(asked.json(), status=201, etag='"a"'))
    server.route("DELETE", "/x", Reply(204))
    async with asking(server.url) as web:
        for _ in range(2):
            answer = await web.send("POST", "/x", json={"title": "Ä"})
            assert (answer.status, answer.body, answer.unchanged) == (201, {"title": "Ä"}, False)
        assert (await web.send("DELETE", "/x")).body is None
    assert [each.headers.get("if-none-match") for each in server.requests] == [None] * 3


async def test_a_change_is_not_sent_after_a_move(server: ForgeServer) -> None:
    server.route("POST", "/old", moved("/new", status=307))
    server.route("POST", "/new", answers({}))
    async with asking(server.url) as web:
        with pytest.raises(ForgeError, match="307: it has moved"):
            await web.send("POST", "/old", json={})
    assert server.count("POST", "/new") == 0


async def test_a_refused_change_says_so_in_the_words_of_the_forge(server: ForgeServer) -> None:
    told = {"message": "Validation Failed", "errors": [{"message": "exists\x1b[31m\nalready"}]}
    server.route("POST", "/x", answers(told, status=422))
    server.route("PUT", "/x", answers({"message": {"base": ["is wrong"]}}, status=409))
    server.route("PATCH", "/x", answers({"message": "x" * 10_000}, status=405))
    async with asking(server.url) as web:
        with pytest.raises(RefusedError, match=r"Validation Failed: exists \[31m already$"):
            await web.send("POST", "/x", json={})
        with pytest.raises(RefusedError, match="is wrong") as raised:
            await web.send("PUT", "/x", json={})
        assert raised.value.status == 409
        with pytest.raises(RefusedError) as raised:
            await web.send("PATCH", "/x", json={})
        assert str(raised.value).count("x" * 499) == 1
        assert len(str(raised.value)) < 600


async def test_a_dropped_connection_is_asked_anew_once(server: ForgeServer) -> None:
    server.route("GET", "/x", in_turn(answers([1]), raw(b""), answers([2]), raw(b"")))
    async with asking(server.url) as web:
        assert (await web.get("/x")).body == [1]
        assert (await web.get("/x")).body == [2]
        with pytest.raises(UnreachableError, match="closed the connection"):
            await web.get("/x")
    assert len(server.requests) == 5


async def test_a_change_is_never_sent_twice(server: ForgeServer) -> None:
    server.route("POST", "/x", raw(b""))
    async with asking(server.url) as web:
        with pytest.raises(UnreachableError, match="closed the connection"):
            await web.send("POST", "/x", json={})
    assert len(server.requests) == 1


async def test_a_connection_that_went_idle_and_was_closed_harms_no_change(
    server: ForgeServer,
) -> None:
    server.route("POST", "/x", answers({}, status=201))
    async with asking(server.url) as web:
        await web.send("POST", "/x", json=1)
        server.hang_up()
        await until(lambda: server.open_connections == 0)
        await web.send("POST", "/x", json=2)
    assert [each.json() for each in server.requests] == [1, 2]


async def test_connections_are_few_and_used_again(server: ForgeServer) -> None:
    server.route("GET", "/x", answers([1], etag='"a"'))
    async with asking(server.url) as web:
        await asyncio.gather(*(web.get("/x") for _ in range(40)))
        assert (len(server.requests), server.connections <= 4) == (40, True)


async def test_waiting_for_a_free_connection_is_no_timeout(server: ForgeServer) -> None:
    async def slow(_: Asked) -> Reply:
        await asyncio.sleep(0.1)
        return answers([1])

    server.route("GET", "/x", slow)
    async with asking(server.url, timeout=0.9) as web:
        found = await asyncio.gather(*(web.get("/x") for _ in range(40)))
    assert len(found) == 40


async def test_a_packed_answer_is_unpacked(server: ForgeServer) -> None:
    server.route("GET", "/x", zipped(answers({"text": "ab" * 5000})))
    async with asking(server.url) as web:
        assert (await web.get("/x")).body == {"text": "ab" * 5000}
    assert server.requests[0].headers["accept-encoding"] == "gzip"


async def test_a_closed_web_leaves_no_connection(server: ForgeServer) -> None:
    server.route("GET", "/x", answers([1]))
    async with asking(server.url) as web:
        await web.get("/x")
        await web.aclose()
        await until(lambda: server.open_connections == 0)
