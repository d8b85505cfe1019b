"""The whole morning in a browser: what needs me, answers, review, decisions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from tests.orchestrator.web.browser.chromium import watched
from tests.orchestrator.web.browser.scene import Scene
from tests.orchestrator.web.browser.visit import visit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.async_api import Browser, Page

TASKS = ("T01", "T02", "T03", "T04", "T05", "T11")
"""The last one works on: `up` ends, and with it the pages, when all is complete."""
READY = {"T01": "done", "T02": "done", "T03": "done", "T04": "done", "T05": "needs you"}
WAITS_MS = 90_000
_LINK = re.compile(r"http://\S+/login\?\S+")


@pytest.fixture
def morning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Return a repository after a short night, of its own."""
    with Scene(tmp_path_factory.mktemp("morning")) as found:
        found.up(TASKS)
        found.comes_to(**READY)
        yield found


async def test_a_morning_from_the_link_to_the_last_decision(
    browser: Browser, morning: Scene
) -> None:
    said = morning.run("serve", "--link")
    link = _LINK.search(said)
    assert link is not None, said
    async with watched(browser, morning.url) as found:
        page = found.page
        await page.goto(link[0])
        await page.get_by_label("Your name").fill("Ada")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.locator("h1")).to_have_text("5 tasks need you")
        # The question is on top; its answer makes it work on.
        await page.locator("#answer-T05").fill("Skip the row, and report it.")
        await page.get_by_role("button", name="Answer and go on").click()
        await expect(page.locator("#row-T05")).to_contain_text("Ready to review", timeout=WAITS_MS)
        # A test was changed: look at it, say what is wrong on its line, and send it back.
        await found.goto("/review/T03")
        diff = page.locator("#f-tests-test-carriers-py")
        await expect(diff).to_contain_text("client.calls")
        await _comment(page, "self.assertEqual(client.calls, 1)", "Count the calls: four.")
        await page.locator("form[action$='/back'] button").click()
        await found.goto("/t/T03")
        await expect(page.locator("main")).to_contain_text(
            "Both tests count the calls", timeout=WAITS_MS
        )
        assert "Count the calls: four." in morning.run("summary", "T03", "2")
        # Two are merged; the one that does not go with them says so.
        for task in ("T01", "T02"):
            await _accept(page, morning, task)
            morning.comes_to(**{task: "accepted"})
        found.expected = ("409",)
        await _accept(page, morning, "T04")
        await expect(page.locator("main")).to_contain_text("parcel/quotes.py")
    assert morning.states()["T04"] == "done"
    assert "parcel/http.py" in morning.git("ls-tree", "-r", "--name-only", "main")


async def _comment(page: Page, line: str, text: str) -> None:
    row = page.locator(".diff tr", has_text=line).first
    await row.locator("a").first.click()
    await page.locator("textarea[name=text]").first.fill(text)
    await page.locator("form[action$='/comment'] button").first.click()
    await expect(page.locator(".mycmts")).to_contain_text(text)


async def _accept(page: Page, scene: Scene, task: str) -> None:
    await page.goto(f"{scene.url}/review/{task}")
    await page.locator("summary[data-key=a]").click()
    await page.locator("form[action$='/accept'] button").click()


async def test_a_head_that_moved_is_not_merged_and_the_page_says_so(
    browser: Browser, morning: Scene
) -> None:
    async with visit(browser, morning, clean=False) as found:
        await found.goto("/review/T03")
        seen = await found.page.locator("input[name=expect_head]").first.input_value()
        morning.post("/lifecycles/agent-T03/guide", text="count them")
        morning.comes_to(T03="done")
        with morning.api as api:
            now = api.get("/lifecycles/agent-T03").json()["lifecycle"]["work"]["head"]
        assert now != seen
        await found.page.locator("summary[data-key=a]").click()
        await found.page.locator("form[action$='/accept'] button").click()
        await expect(found.page.locator("main")).to_contain_text(re.compile("moved|now"))
    assert morning.states()["T03"] == "done"


async def test_two_tabs_that_accept_merge_once(browser: Browser, morning: Scene) -> None:
    async with (
        visit(browser, morning, clean=False) as one,
        visit(browser, morning, clean=False) as two,
    ):
        for tab in (one, two):
            await tab.goto("/review/T02")
            await tab.page.locator("summary[data-key=a]").click()
        for tab in (one, two):
            await tab.page.locator("form[action$='/accept'] button").click()
        morning.comes_to(T02="accepted")
    merges = morning.git("log", "--oneline", "--merges", "main").splitlines()
    assert len([each for each in merges if "T02" in each]) == 1


async def test_the_walk_goes_by_keyboard_alone(browser: Browser, morning: Scene) -> None:
    async with visit(browser, morning) as found:
        press = found.page.keyboard.press
        await found.goto("/")
        await press("v")
        await found.page.wait_for_url("**/review/*")
        first = found.page.url
        await press("s")
        await found.page.wait_for_function(f"location.href !== {first!r}")
        await found.goto("/review/T02")
        await press("a")
        await expect(found.page.locator("form[action$='/accept'] button")).to_be_visible()
        await found.page.locator("form[action$='/accept'] button").focus()
        await press("Enter")
        morning.comes_to(T02="accepted")


async def test_several_are_ticked_and_merged_without_scripts(
    browser: Browser, morning: Scene
) -> None:
    async with visit(browser, morning, java_script_enabled=False) as found:
        page = found.page
        await found.goto("/")
        await page.get_by_role("link", name="Accept several").click()
        await expect(page.get_by_label("Merge T03")).to_have_count(0)
        for task in ("T01", "T02"):
            await page.get_by_label(f"Merge {task}").check()
        await page.get_by_role("button", name="Merge what is ticked").click()
        await expect(page.locator("h1")).to_have_text("2 of 2 merged")
    morning.comes_to(T01="accepted", T02="accepted")


async def test_decisions_are_made_without_scripts(browser: Browser, morning: Scene) -> None:
    async with visit(browser, morning, java_script_enabled=False) as found:
        page = found.page
        await found.goto("/")
        await page.locator("#answer-T05").fill("Skip the row.")
        await page.get_by_role("button", name="Answer and go on").click()
        morning.comes_to(T05="done")
        await _accept(page, morning, "T02")
        morning.comes_to(T02="accepted")
        await found.goto("/review/T01")
        await page.locator("summary[data-key=r]").click()
        await page.get_by_label("Why").fill("not now")
        await page.locator("form[action$='/reject'] button").click()
        morning.comes_to(T01="rejected")
