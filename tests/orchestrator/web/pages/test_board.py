"""The board: what needs a person first, one sentence each, filters in the address, live."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from orchestrator.web.edge.passes import VisitorRole
from orchestrator.web.live.page_news import KEPT
from tests.orchestrator.loopkit import ASK, DONE
from tests.orchestrator.web.pages.browsing import browser, text_of
from tests.orchestrator.web.webkit import SSE, site
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    import httpx
    import pytest

ASKS = {"attempts": {"1": [ASK], "default": [DONE]}}
WAITS = {"attempts": {"default": [{"sleep": 60}]}}


async def test_a_first_start_shows_how_to_begin_and_its_form_starts_a_task(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        assert "Nothing runs yet" in await visit.text("/")
        command = found.world.script("first", {"attempts": {"default": [DONE]}})
        fields = {
            "text": "Do it\nwell",
            "title": "Good work",
            "acceptance": "one\n\ntwo",
            "command": command,
            "issue": "12",
            "attempts": "3",
        }
        answer = await visit.send("/new", dict(fields))
        agent_id = f"agent-{answer.headers['location'].rpartition('/')[2]}"
        told = await found.get(f"/lifecycles/{agent_id}")
        task = told["lifecycle"]["facts"]["task"]
        assert task["acceptance"] == ["one", "two"]
        assert task["issue"] == "12"
        assert (task["title"], task["budget"]["attempts"]) == ("Good work", 3)
        assert "Good work" in await visit.text("/")


async def test_what_was_typed_stays_when_a_task_is_refused(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        sent: dict[str, str | list[str]] = {"text": "Do <it>", "command": "true"}
        answer = await visit.send("/new", {**sent, "usd": "-1"}, 422)
        assert "Do &lt;it&gt;" in answer.text
        answer = await visit.send("/new", {**sent, "dependencies": "T999"}, 422)
        for name in ("text", "title", "verify"):
            await visit.send("/new", {**sent, name: "a\0b"}, 422)
        await visit.send("/new", {**sent, "title": "x" * 201}, 422)
        wrong = await visit.send("/new", {**sent, "issue": "JIRA-1"}, 422)
        assert "does not name an issue: give its number" in wrong.text
        assert "there is no task" in answer.text


async def test_the_board_says_what_needs_a_person_first_and_answers_in_place(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        asker = await found.add("asker", ASKS)
        worker = await found.add("worker", WAITS)
        await found.comes_to("AwaitingHuman", asker)
        await found.comes_to("Working", worker)
        words = await visit.text("/")
        assert "1 task needs you" in words
        assert words.index("Question") < words.index("Do worker")
        told = await found.get("/board")
        assert told["counts"] == {"me": 1, "working": 1, "waiting": 0, "queued": 0, "done": 0}
        assert told["groups"][0]["rows"][0]["needs"] == "answer"
        assert "Do worker" not in await visit.text("/?needs=me")
        answer = await visit.send("/t/asker/answer", {"text": "Blue.", "next": "/?needs=me"})
        assert answer.headers["location"] == "/?needs=me"
        await found.comes_to("Completed", asker)
        assert "Ready to review" in await visit.text("/")


async def test_a_refused_action_says_so_and_keeps_what_was_typed(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        agent = await found.add("done", {"attempts": {"default": [DONE]}})
        await found.comes_to("Completed", agent)
        answer = await visit.send("/t/done/answer", {"text": "A long answer"}, 409)
        assert "A long answer" in answer.text
        answer = await visit.send("/t/done/reject", {"why": ""}, 422)
        assert "needs a reason" in answer.text
        answer = await visit.send("/t/done/accept", {"expect_head": "0" * 40}, 409)
        assert "moved on while you looked" in answer.text
        assert (await found.store.get(agent)).state == "completed"  # type: ignore[union-attr]  # it is there
        await visit.send("/t/don/pause", status=404)


async def test_several_are_accepted_in_the_order_of_their_dependencies(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        names = []
        for name in ("one", "two"):
            work = [{"write": f"{name}.txt"}, {"commit": name}, DONE]
            names.append(await found.add(name, {"attempts": {"default": work}}))
        for name in names:
            await found.comes_to("Completed", name)
        answer = await visit.send("/accept", {"agent": names}, 200)
        assert "2 of 2 merged" in answer.text
        told = await found.post("/accept", {"agents": names})
        assert [each["merged"] for each in told["items"]] == [True, True]


async def test_only_green_and_unflagged_work_has_a_tick_and_each_result_is_told(
    tmp_path: Path,
) -> None:
    files = {"one": "a.txt", "two": "a.txt", "flagged": "tests/test_a.py", "open": "b.txt"}
    async with site(tmp_path) as found, browser(found) as visit:
        for name, file in files.items():
            steps = [{"run": ["sh", "-c", f"mkdir -p tests; echo {name} > {file}"]}]
            work = [*steps, {"commit": name}, DONE]
            verify = [] if name == "open" else ["true"]
            await found.add(name, {"attempts": {"default": work}}, verify=verify)
        for name in files:
            await found.comes_to("Completed", name)
        assert 'href="/accept"' in await visit.page("/")
        page = await visit.page("/accept")
        ticks = re.findall(r'type="checkbox"[^>]* value="([^"]+)"', page)
        heads = dict(re.findall(r'name="(head-[^"]+)" value="([^"]+)"', page))
        assert sorted(ticks) == ["one", "two"]
        answer = await visit.send("/accept", {"agent": ticks, **heads}, 200)
        assert "1 of 2 merged" in answer.text
        assert "Not merged" in text_of(answer.text)


async def test_a_viewer_sees_the_board_without_buttons_that_change(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found, VisitorRole.VIEWER) as visit:
        asker = await found.add("asker", ASKS)
        await found.comes_to("AwaitingHuman", asker)
        page = await visit.page("/")
        assert "Question" in page
        assert "Add a task" not in page
        assert f"/t/{asker}/answer" not in page


async def _first(answer: httpx.Response) -> dict[str, Any]:
    async with aclosing(_pieces(answer)) as pieces:
        return (await anext(pieces))[1]


async def _pieces(answer: httpx.Response) -> AsyncGenerator[tuple[str, dict[str, Any]]]:
    number = ""
    async for line in answer.aiter_lines():
        if line.startswith("id: "):
            number = line[4:]
        elif line.startswith("data: "):
            yield number, json.loads(line[6:])


async def test_a_page_is_told_of_each_change_and_catches_up_where_it_left(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        asker = await found.add("asker", ASKS)
        await found.comes_to("AwaitingHuman", asker)
        await visit.page("/")
        async with (
            asyncio.timeout(20),
            visit.client.stream("GET", "/ui/events", headers=SSE) as one,
        ):
            async with aclosing(_pieces(one)) as pieces:
                last, told = await anext(pieces)
                assert told["name"] == "hello"
                await visit.send("/t/asker/pause")
                async for _, piece in pieces:
                    told = piece
                    if told["name"] == "row:asker":
                        break
            assert 'id="row-asker"' in told["html"]
        await visit.send("/t/asker/resume")
        address = f"/ui/events?last={last}"
        async with asyncio.timeout(20), visit.client.stream("GET", address, headers=SSE) as two:
            assert (await _first(two))["name"] == "row:asker"
        address = f"/ui/events?last=ffffffff-{KEPT}"
        async with asyncio.timeout(20), visit.client.stream("GET", address, headers=SSE) as three:
            assert (await _first(three))["name"] == "reset"


async def test_many_pages_with_one_view_cost_one_making_of_each_piece(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        agent = await found.add("worker", WAITS)
        await found.comes_to("Working", agent)
        streams = [asyncio.create_task(_heard(visit.client, agent)) for _ in range(10)]
        await until(lambda: found.services.pages.pages == 10, "all listen")
        await visit.send("/t/worker/pause")
        heard = await asyncio.gather(*streams)
        assert len(set(heard)) == 1


async def _heard(client: httpx.AsyncClient, agent: str) -> str:
    async with (
        asyncio.timeout(20),
        client.stream("GET", "/ui/events", headers=SSE) as answer,
        aclosing(_pieces(answer)) as pieces,
    ):
        async for _, told in pieces:
            if told["name"] == f"row:{agent}":
                return str(told["html"])
    return ""


async def test_a_board_that_keeps_only_the_newest_says_so_and_leads_to_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.web.live.board_state.MOST_ENDED", 1)
    older = 'href="/history?q=one"'
    async with site(tmp_path) as found, browser(found) as visit:
        for name in ("one", "two"):
            work: list[object] = [{"write": {"path": name, "text": "x"}}, {"commit": name}, DONE]
            agent = await found.add(name, work, verify=["true"])
            await found.comes_to("Completed", agent)
            assert older not in await visit.page("/?group=done&q=one")
            await visit.send(f"/t/{name}/accept", {})
            await found.comes_to("Accepted", agent)
        assert older in await visit.page("/?group=done&q=one")
