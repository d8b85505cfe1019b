"""History, audit and costs as pages: what is found, by night, with what is not known said so."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from orchestrator.web.pages.charts import columns, lying, nice
from tests.orchestrator.loopkit import ASK, DONE
from tests.orchestrator.web.pages.browsing import browser
from tests.orchestrator.web.webkit import site

if TYPE_CHECKING:
    from pathlib import Path

WORK = [{"write": "new.txt"}, {"commit": "new"}, DONE]
ASKS = {"attempts": {"1": [ASK], "default": WORK}}
HOSTILE = "<script>alert(1)</script> \u202e mauve"


async def test_the_history_shows_nights_and_what_a_search_finds_marked_and_escaped(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        assert "Nothing was done here yet" in await visit.page("/history")
        agent = await found.add("asks", ASKS)
        await found.comes_to("AwaitingHuman", agent)
        await found.post(f"/lifecycles/{agent}/answer", {"text": HOSTILE})
        await found.comes_to("Completed", agent)
        nights = await visit.page("/history")
        assert "1 task · 1 done" in html.unescape(nights)
        assert 'href="/t/asks"' in nights
        assert "chain whole" in nights
        hits = await visit.page("/history?q=mauve+scri")
        assert "<mark>mauve</mark>" in hits
        assert "&lt;<mark>script</mark>&gt;" in hits
        assert "<script>alert" not in hits
        assert "\u202e" not in hits
        none = await visit.page("/history?q=mauve&state=rejected&kind=checks")
        assert "Nothing has all of these words, narrowed down as it is" in none
        assert 'value="rejected" checked' in none
        assert "No task fits" in await visit.page("/history?state=rejected")


async def test_a_search_that_cannot_be_made_says_why_on_the_page(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        (found.world.repo / ".loopwright" / "search.db").mkdir()
        await found.add("works", {"attempts": {"default": WORK}})
        assert "search.db cannot be written" in await visit.page("/history?q=works")


async def test_the_audit_is_read_by_who_and_whom_page_by_page(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        agent = await found.add("works", {"attempts": {"default": WORK}})
        await found.comes_to("Completed", agent)
        text = await visit.page("/history/audit?action=spawn")
        assert "attempt 1 of task" in text
        assert "chain whole" in text
        assert "No entry fits" in await visit.page("/history/audit?actor=nobody")


async def test_costs_say_what_is_not_known_and_refuse_a_time_that_is_none(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        assert "No attempt ended since" in await visit.page("/costs")
        agent = await found.add("works", {"attempts": {"default": WORK}})
        await found.comes_to("Completed", agent)
        text = await visit.page("/costs?since=7d")
        assert "1 of 1 attempts told no cost" in text
        assert '<span class="big">not told</span>' in text
        assert "Time of agents per day" in text
        assert "No budget is set" in text
        answer = await visit.client.get("/costs?since=soon", headers={"accept": "text/html"})
        assert answer.status_code == 422


def test_bars_stand_on_the_floor_and_fit_the_chart() -> None:
    made = columns([("22h", {"well": 3.0, "badly": 1.0}), ("23h", {"well": 0.0})], str)
    assert [each.kind for each in made.rects] == ["bar-green", "bar-red"]
    green, red = made.rects
    assert green.y + green.height <= 282.0
    assert red.y + red.height <= green.y
    assert [each.text for each in made.lines] == ["0.0", "1.25", "2.5", "3.75", "5.0"]
    bars = lying([("T1", [("attempt 1", "well", 2.0), ("attempt 2", "badly", 0.0)], "$2")])
    [(key, _, rects, said)] = bars.rows
    assert (key, len(rects), said.text) == ("T1", 1, "$2")
    assert rects[0].x + rects[0].width < 640
    assert not columns([], str).rects
    assert [nice(each) for each in (0, 0.03, 1, 7, 1200)] == [1.0, 0.05, 1.0, 10.0, 2000.0]
