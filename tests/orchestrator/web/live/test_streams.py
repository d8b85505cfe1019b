"""Streams: every entry once and in order, over any number of connections, and an end."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest

from tests.orchestrator.loopkit import ASK, DONE
from tests.orchestrator.web.webkit import SSE, Event, Options, Site, events, site
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

OFTEN = {"attempts": {**{str(n): [ASK] for n in range(1, 5)}, "default": [DONE]}}


async def read(found: Site, path: str, last: str = "", most: int = 1000) -> list[Event]:
    """Read events until the stream ends, or so many of them."""
    seen: list[Event] = []
    headers = {**SSE, **({"last-event-id": last} if last else {})}
    async with (
        asyncio.timeout(20),
        found.client.stream("GET", f"/api/v1{path}", headers=headers) as answer,
    ):
        if answer.status_code == 204:
            return [Event("over")]
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        async with aclosing(events(answer)) as stream:  # type: ignore[type-var]  # it is a generator
            async for event in stream:
                seen.append(event)
                if len(seen) == most:
                    break
    return seen


async def whole_journal(found: Site, agent: str) -> list[Any]:
    items: list[Any] = (await found.get(f"/lifecycles/{agent}/events?limit=1000"))["items"]
    return items


async def test_a_journal_in_pieces_is_whole(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        agent = await found.add("done", [DONE])
        await found.comes_to("Completed", agent)
        seen: list[Any] = []
        after: int | None = 0
        while after is not None:
            page = await found.get(f"/lifecycles/{agent}/events?limit=2&after={after}")
            seen += page["items"]
            after = page["next"]
        assert seen == await whole_journal(found, agent)
        assert [each["seq"] for each in seen] == list(range(1, len(seen) + 1))


async def test_nothing_is_lost_or_doubled_over_reconnections_and_the_stream_ends(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found:
        agent = await found.add("often", OFTEN)

        async def person() -> None:
            for number in range(1, 5):

                async def asked(number: int = number) -> bool:
                    record = await found.store.get(agent)
                    work = record.work if record else None
                    asks = type(work).__name__ == "AwaitingHuman"
                    return asks and work is not None and work.tally.spawn_count == number

                await until(asked, f"question {number} is asked")
                await found.post(f"/lifecycles/{agent}/answer", {"text": "x"})
            await found.comes_to("Completed", agent)
            await found.post(f"/lifecycles/{agent}/accept")

        acting = asyncio.create_task(person())
        seen: list[Event] = []
        last = ""
        while not seen or seen[-1].name not in ("end", "over"):
            seen += await read(found, f"/lifecycles/{agent}/events", last, most=3)
            last = next((each.id for each in reversed(seen) if each.id), "")
        await acting
        *entries, end = seen
        assert end.name == "over" or end.data == {"state": "accepted"}
        # What is written down after the end, its cleaning, may follow.
        journal = await whole_journal(found, agent)
        assert [each.data for each in entries] == journal[: len(entries)]
        assert [each.id for each in entries] == [str(each["seq"]) for each in journal][
            : len(entries)
        ]
        assert any(each.data["after"] == "Accepted" for each in entries)
        over = await found.client.get(
            f"/api/v1/lifecycles/{agent}/events",
            headers={**SSE, "last-event-id": str(journal[-1]["seq"])},
        )
        assert (over.status_code, over.content) == (204, b"")


async def test_an_entry_is_told_when_it_is_decided_and_not_by_the_clock(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        agent = await found.add("asks", {"attempts": {"1": [ASK], "default": [{"hang": {}}]}})
        await found.comes_to("AwaitingHuman", agent)
        last = str((await whole_journal(found, agent))[-1]["seq"])
        reading = asyncio.create_task(read(found, f"/lifecycles/{agent}/events", last, most=1))
        await until(lambda: found.services.hub.listeners == 1, "the stream is open")
        loop = asyncio.get_running_loop()
        began = loop.time()
        await found.post(f"/lifecycles/{agent}/guide", {"text": "mind the gap"})
        (event,) = await reading
        assert event.data["event"]["kind"] == "Guided"
        assert loop.time() - began < found.services.streams.beat
        await until(lambda: found.services.hub.listeners == 0, "a client that left is forgotten")


async def test_a_quiet_stream_shows_that_it_lives(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        object.__setattr__(found.services.streams, "beat", 0.05)
        agent = await found.add("hangs", [{"hang": {}}])
        await found.comes_to("Working", agent)
        last = str((await whole_journal(found, agent))[-1]["seq"])
        beats = 0
        async with found.client.stream(
            "GET", f"/api/v1/lifecycles/{agent}/events", headers={**SSE, "last-event-id": last}
        ) as answer:
            async for line in answer.aiter_lines():
                beats += line == ": alive"
                if beats == 3:
                    break
        assert beats == 3


async def test_all_news_goes_on_after_the_last_or_says_that_some_is_missing(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found:
        first = asyncio.create_task(read(found, "/events", most=4))
        await until(lambda: found.services.hub.listeners == 1, "the stream is open")
        agent = await found.add("done", [DONE])
        await found.comes_to("Completed", agent)
        reset, *news = await first
        assert reset.name == "reset"
        assert {each.data["agent_id"] for each in news} == {agent}
        # The record says so a moment before those who watch are told.
        await until(
            lambda: found.services.hub.latest[-1].body["state"] == "done", "all of it is told"
        )
        told = [each.body for each in found.services.hub.latest]
        rest = await read(found, "/events", news[-1].id, most=len(told) - 3)
        events_ = [each.data["event"] for each in (*news, *rest)]
        assert events_ == [each["event"] for each in told]
        for strange in ("ffff-1", "1", "-", news[-1].id.partition("-")[0] + "-99999"):
            (only,) = await read(found, "/events", strange, most=1)
            assert only.name == "reset"


async def test_streams_have_a_limit_of_their_own(tmp_path: Path) -> None:
    async with site(tmp_path, Options(most_streams=2)) as found:
        agent = await found.add("hangs", [{"hang": {}}])
        path = f"/api/v1/lifecycles/{agent}/events"
        async with (
            found.client.stream("GET", path, headers=SSE) as one,
            found.client.stream("GET", path, headers=SSE) as two,
        ):
            assert {one.status_code, two.status_code} == {200}
            three = await found.client.get(path, headers=SSE)
            assert three.status_code == 503
            assert three.headers["retry-after"] == "1"
            await found.get(f"/lifecycles/{agent}")


@pytest.mark.parametrize("last", ["x", "-1", "9" * 30, "1e3", "\u0661"])
async def test_a_number_that_is_none_begins_at_the_beginning(tmp_path: Path, last: str) -> None:
    async with site(tmp_path) as found:
        agent = await found.add("hangs", [{"hang": {}}])
        headers = [(b"accept", b"text/event-stream"), (b"last-event-id", last.encode())]
        async with found.client.stream(
            "GET", f"/api/v1/lifecycles/{agent}/events", headers=headers
        ) as answer:
            async for event in events(answer):
                assert event.id == "1"
                break
