"""The walk through what waits: what is shown is what is merged, and one's own marks count."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from orchestrator.web.edge.passes import VisitorRole
from tests.orchestrator.loopkit import ASK, DONE, SETTINGS
from tests.orchestrator.web.pages.browsing import browser, text_of
from tests.orchestrator.web.webkit import site

if TYPE_CHECKING:
    from pathlib import Path

    from tests.orchestrator.web.pages.browsing import Browser
    from tests.orchestrator.web.webkit import Site

TEST = "tests/test_new.py"
HOSTILE = "<img src=x onerror=alert(1)> \u202e"
WORK: list[object] = [
    {"write": {"path": "new.py", "text": f"one\n{HOSTILE}\nthree\n"}},
    {"write": {"path": TEST, "text": "def test_it():\n    assert 1\n"}},
    {"commit": "new"},
    DONE,
]


async def done(found: Site, name: str = "work") -> str:
    agent = await found.add(name, WORK, verify=["true"])
    await found.comes_to("Completed", agent)
    return agent


async def head_of(visit: Browser, agent: str) -> str:
    found = re.search(r'name="head" value="(\w+)"', await visit.page(f"/review/{agent}"))
    assert found
    return found[1]


async def test_the_walk_begins_with_what_comes_first_and_is_empty_without_anything(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        assert "Nothing needs you" in await visit.text("/review")
        agent = await done(found)
        answer = await visit.client.get("/review")
        assert answer.headers["location"] == f"/review/{agent}"
        asks = await found.add("asks", [{"say": "hm"}, ASK])
        await found.comes_to("AwaitingHuman", asks)
        words = await visit.text(f"/review/{asks}")
    assert "of 2" in words
    assert "Blue or green?" in words


async def test_flagged_files_come_first_and_nothing_of_an_agent_is_html(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        agent = await done(found)
        for view in ("", "?view=split", "?of=all", "?file=new.py"):
            page = await visit.page(f"/review/{agent}{view}")
            assert "<img" not in page
            assert "\u202e" not in page
            assert page.count("<h1") == 1
        page = await visit.page(f"/review/{agent}")
    assert page.index('id="f-tests-test-new-py"') < page.index('id="f-new-py"')
    assert "1 flagged file not seen" in text_of(page)
    assert "Its word, not checked." in text_of(page)


async def test_one_click_merges_what_the_page_shows_whole_and_nothing_else(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        agent = await done(found)
        at_once = '<button class="btn l main" data-key="a">'
        assert at_once not in await visit.page(f"/review/{agent}"), "a flagged file is not seen"
        head = await head_of(visit, agent)
        await visit.send(f"/review/{agent}/seen", {"file": TEST, "seen": "1", "head": head})
        page = await visit.page(f"/review/{agent}")
        assert at_once in page
        assert f'name="expect_head" value="{head}"' in page
        for view in ("?file=new.py", "?of=since:1"):
            assert at_once not in await visit.page(f"/review/{agent}{view}"), view


async def test_the_main_button_follows_ones_own_marks(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        agent = await done(found)
        page = await visit.page(f"/review/{agent}")
        assert 'class="btn l main" href="#gd"' in page
        head = await head_of(visit, agent)
        await visit.send(f"/review/{agent}/seen", {"file": TEST, "seen": "1", "head": head})
        page = await visit.page(f"/review/{agent}")
        assert 'class="btn l" href="#gd"' in page
        assert "flagged file not seen" not in text_of(page)
        told: dict[str, str | list[str]] = {
            "file": "new.py",
            "side": "new",
            "line": "3",
            "text": "Why three?",
            "head": head,
        }
        await visit.send(f"/review/{agent}/comment", told)
        page = await visit.page(f"/review/{agent}")
        assert 'class="btn l main" href="#gd"' in page
        assert "Send back , 1 comment" in text_of(page)
        async with browser(found, name="Bob") as other:
            words = await other.text(f"/review/{agent}")
            assert "Ada line 3" in words
        await visit.send(f"/review/{agent}/uncomment", told)
        assert "Why three?" not in await visit.page(f"/review/{agent}")


async def test_a_line_is_commented_on_without_scripts_and_sent_back_with_that(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        agent = await done(found)
        page = await visit.page(f"/review/{agent}")
        [link] = re.findall(r'href="(\?c=1n3)#c1n3"', page)
        form = await visit.page(f"/review/{agent}{link}")
        fields: dict[str, str | list[str]] = dict(
            re.findall(r'name="(file|side|line|head|back)" value="([^"]*)"', form)
        )
        answer = await visit.send(f"/review/{agent}/comment", {**fields, "text": "Make it four."})
        assert answer.headers["location"].startswith(f"/review/{agent}")
        await visit.send(f"/review/{agent}/back", {"text": "Nearly."})
        entries = (await found.get(f"/lifecycles/{agent}/events?limit=1000"))["items"]
        [told] = [each["event"] for each in entries if "Nearly" in str(each)]
        assert told["by"] == "Ada"
        assert told["text"] == "Nearly.\n\nnew.py, line 3: Make it four."


async def test_only_what_was_shown_is_merged(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        agent = await done(found)
        page = await visit.page(f"/review/{agent}")
        [head] = re.findall(r'name="expect_head" value="(\w+)"', page)
        answer = await found.client.post(
            f"/api/v1/lifecycles/{agent}/accept", json={"expect_head": "0" * 40}
        )
        assert answer.status_code == 409
        assert head == (await found.get(f"/lifecycles/{agent}"))["lifecycle"]["work"]["head"]
        assert "merges into" in await visit.text(f"/review/{agent}/merge")
        for path in ("seen", "comment"):
            told: dict[str, str | list[str]] = {
                "file": "new.py",
                "line": "1",
                "text": "x",
                "seen": "1",
                "head": "0" * 40,
            }
            await visit.send(f"/review/{agent}/{path}", told, 409)


async def test_a_viewer_reads_and_decides_nothing(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        agent = await done(found)
        async with browser(found, VisitorRole.VIEWER) as visit:
            page = await visit.page(f"/review/{agent}")
            assert not re.findall(r'method="post" action="/(?:t|review)/', page)
            assert "?c=" not in page


async def test_five_thousand_lines_in_sixty_files_are_bounded(tmp_path: Path) -> None:
    code = "".join(f"line_{number} = {number}\n" for number in range(84))
    script: list[object] = [
        {"write": {"path": f"src/m{file}.py", "text": code}} for file in range(60)
    ]
    script += [{"commit": "many"}, DONE]
    async with site(tmp_path) as found, browser(found) as visit:
        agent = await found.add("many", script)
        await found.comes_to("Completed", agent)
        await visit.page(f"/review/{agent}")
        begun = time.process_time()
        page = await visit.page(f"/review/{agent}")
        took = time.process_time() - begun
        whole = await visit.page(f"/review/{agent}?file=src/m59.py")
    assert len(page) < 400_000
    assert "the page is long already" in page
    assert "line_83" in whole
    assert took < 3.0


async def test_what_does_not_go_together_is_shown_with_both_sides_and_no_blind_second_try(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        found.world.settings(f'{SETTINGS}on_conflict = "ask"\n')
        for name in ("first", "second"):
            text = f"top\n<b>{name}</b> \u202e\nend\n"
            steps = [{"write": {"path": "same.py", "text": text}}, {"commit": name}, DONE]
            await found.add(name, steps)
        for name in ("first", "second"):
            await found.comes_to("Completed", name)
        await found.post("/lifecycles/first/accept")
        merge = await found.get("/lifecycles/second/merge")
        (conflict,) = merge["conflicts"]
        (place,) = conflict["places"]
        assert [line[:5] for line in place["base"]] == ["<b>fi"]
        assert [line[:5] for line in place["work"]] == ["<b>se"]
        answer = await visit.send("/t/second/accept", status=409)
        assert "Not merged" in text_of(answer.text)
        assert 'href="/review/second"' in answer.text
        assert "/t/second/accept" not in answer.text
        for path in ("/review/second/merge", "/review/second"):
            page = await visit.page(path)
            assert "<b>first</b>" not in page
            assert "\u202e" not in page
            assert "(rule:" not in page
        words = await visit.text("/review/second/merge")
    assert words.index("main has") < words.index("<b>first</b>")
    assert words.index("this work has") < words.index("<b>second</b>")


async def test_work_that_conflicts_is_sent_back_without_typing(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        found.world.settings(f'{SETTINGS}on_conflict = "ask"\n')
        for name in ("one", "two"):
            work: list[object] = [
                {"write": {"path": "same", "text": f"{name}\n"}},
                {"commit": name},
                DONE,
            ]
            await found.add(name, work, verify=["true"])
        for name in ("one", "two"):
            await found.comes_to("Completed", name)
        await visit.send("/t/one/accept", {})
        await visit.send("/t/two/accept", {}, 409)
        page = await visit.page("/review/two")
        assert "Merge main into your branch, and resolve what conflicts.</textarea>" in page
