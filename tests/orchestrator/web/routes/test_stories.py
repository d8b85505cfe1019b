"""Windows of logs over HTTP: as a page reads them, and as they come."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from orchestrator.web.edge.access import MOST_AT_ONCE
from tests.orchestrator.loopkit import DONE
from tests.orchestrator.web.webkit import SSE, events, site

if TYPE_CHECKING:
    from pathlib import Path

SAYS = [{"say": "one"}, {"say": "error: two"}, {"say": "<b>three</b>"}, DONE]


async def test_a_log_is_read_in_windows_searched_and_filtered(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        agent = await found.add("says", SAYS)
        await found.comes_to("Completed", agent)
        log = f"/lifecycles/{agent}/attempts/1/log/window"
        whole = await found.get(log)
        lines = [each["text"] for each in whole["lines"]]
        errors = await found.get(f"{log}?errors=true")
        hit = await found.get(f"{log}?q=three")
        first = await found.get(f"{log}?after=0&limit=1")
        missing = await found.get(f"/lifecycles/{agent}/attempts/9/log/window", 404)
        await found.get(f"{log}?limit=0", 422)
        raw = await found.client.get(f"/api/v1/lifecycles/{agent}/attempts/1/log")
    assert lines[:3] == ["one", "error: two", "<b>three</b>"]
    assert (whole["before"], whole["more"], whole["size"]) == (None, False, len(raw.content))
    assert [each["text"] for each in errors["lines"]][:1] == ["error: two"]
    assert hit["found"] == raw.text.index("<b>three")
    assert [each["text"] for each in first["lines"]] == ["one"]
    assert first["more"]
    assert "attempt 9" in missing["error"]["text"]


async def test_a_log_is_followed_until_its_attempt_is_over(tmp_path: Path) -> None:
    go = tmp_path / "go"
    waits = f"echo begun; while [ ! -e {go} ]; do sleep 0.05; done; echo ended"
    async with site(tmp_path) as found:
        body = {"text": "Do it", "name": "waits", "command": f"sh -c '{waits}'"}
        agent = (await found.post("/lifecycles", body, 201))["lifecycle"]["agent_id"]
        await found.comes_to("Working", agent)
        path = f"/api/v1/lifecycles/{agent}/attempts/1/log/window"
        seen, last = list[str](), ""
        async with found.client.stream("GET", path, headers=SSE) as answer:
            async for told in events(answer):
                if told.name == "end":
                    break
                seen += [each["text"] for each in told.data["lines"]]
                last = told.id
                go.touch()
        assert seen == ["begun", "ended"]
        async with found.client.stream(
            "GET", path, headers={**SSE, "last-event-id": last}
        ) as answer:
            assert [told.name async for told in events(answer)] == ["end"]


async def test_logs_that_are_followed_take_no_room_from_other_requests(tmp_path: Path) -> None:
    async with site(tmp_path) as found, AsyncExitStack() as readers:
        agent = await found.add("hangs", [{"hang": {}}])
        await found.comes_to("Working", agent)
        path = f"/api/v1/lifecycles/{agent}/attempts/1/log/window"
        for _ in range(MOST_AT_ONCE + 1):
            reader = found.client.stream("GET", path, headers=SSE)
            assert (await readers.enter_async_context(reader)).status_code == 200
        await found.get(f"/lifecycles/{agent}")
