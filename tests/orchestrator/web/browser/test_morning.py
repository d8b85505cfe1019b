"""The whole morning in a browser: what needs me, answers, review, decisions."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from tests.orchestrator.web.browser import programs as p
from tests.orchestrator.web.browser.chromium import watched
from tests.orchestrator.web.browser.scene import PATIENCE, Scene
from tests.orchestrator.web.browser.visit import visit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.async_api import Browser, Page

    from tests.orchestrator.web.browser.chromium import Watched

TASKS = ("T01", "T02", "T03", "T04", "T05", "T11")
"""The last one works on, so that the runner of all tests but the story does not end."""
READY = {"T01": "done", "T02": "done", "T03": "done", "T04": "done", "T05": "needs you"}
FILES = 2000
SECONDS = 45.0
MOST_BYTES = 6_000_000
"""Generous: they catch what grows with the square, not a busy machine."""
_LINK = re.compile(r"http://\S+/login\?\S+")


MORE: dict[str, object] = {
    "moved": {
        "attempts": {
            number: [*p.commits(f"Part {number}", **{f"part{number}.txt": "x\n"}), p.done("Done.")]
            for number in ("1", "2")
        }
    },
    "twice": [*p.commits("Once", **{"once.txt": "x\n"}), p.done("Done.")],
    "keys": [*p.commits("Keys", **{"keys.txt": "x\n"}), p.done("Done.")],
    "plain": [*p.commits("Plain", **{"plain.txt": "x\n"}), p.done("Done.")],
    "many": [
        *p.commits("Many", **{f"many__{n}.txt": "x\n" for n in range(FILES)}),
        p.done("Done."),
    ],
    "asked": {"attempts": {"1": [p.asks("Blue?")], "default": [p.DONE]}},
}
"""Tasks by hand: each test but the story decides about its own."""


@pytest.fixture(scope="module")
def morning(tmp_path_factory: pytest.TempPathFactory, clean_home: object) -> Iterator[Scene]:
    """Return a repository after a short night; each test has tasks of its own in it."""
    del clean_home
    with Scene(tmp_path_factory.mktemp("morning")) as found:
        found.up(TASKS)
        for name, script in MORE.items():
            found.task(name, script)
        found.comes_to(**READY, **dict.fromkeys(MORE, "done") | {"asked": "needs you"})
        yield found


async def test_a_morning_from_the_link_to_the_last_decision(
    browser: Browser, tmp_path: Path
) -> None:
    with Scene(tmp_path) as own:
        own.up(TASKS[:-1])
        own.comes_to(**READY)
        await _decides_all(browser, own)
        # It stayed for this, with no loop left; now nothing waits.
        assert own.runner is not None
        assert own.runner.wait(PATIENCE) == 0


async def _decides_all(browser: Browser, morning: Scene) -> None:
    said = morning.run("serve", "--link")
    link = _LINK.search(said)
    assert link is not None, said
    async with watched(browser, morning.url) as found:
        page = found.page
        await page.goto(link[0])
        await page.get_by_label("Your name").fill("Ada")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.locator("h1")).to_have_text(re.compile(r"^\d+ tasks need you$"))
        # The question is on top; its answer makes it work on.
        await _answer(page, "T05", "Skip the row, and report it.")
        await expect(page.locator("#row-T05")).to_contain_text("Ready to review")
        # A test was changed: look at it, say what is wrong on its line, and send it back.
        await found.goto("/review/T03")
        diff = page.locator("#f-tests-test-carriers-py")
        await expect(diff).to_contain_text("client.calls")
        await _comment(page, "self.assertEqual(client.calls, 1)", "Count the calls: four.")
        await page.locator("form[action$='/back'] button").click()
        await found.goto("/t/T03")
        await expect(page.locator("main")).to_contain_text("Both tests count the calls")
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
        await _reject(found, "T04")
        morning.comes_to(T04="rejected")
        # The second rounds, too: then nothing is left.
        for task in ("T03", "T05"):
            await _accept(page, morning, task)
            morning.comes_to(**{task: "accepted"})
        await expect(page.locator("h1")).to_have_text("Nothing needs you")


async def _reject(found: Watched, task: str) -> None:
    page = found.page
    await found.goto(f"/review/{task}")
    await page.locator("summary[data-key=r]").click()
    await page.get_by_label("Why").fill("not now")
    await page.locator("form[action$='/reject'] button").click()


async def _answer(page: Page, task: str, text: str) -> None:
    field = page.locator(f"#answer-{task}")
    if not await field.is_visible():
        await page.locator(f"#row-{task} summary").first.click()
    await field.fill(text)
    await page.locator(f"#row-{task}").get_by_role("button", name="Answer and go on").click()


async def _comment(page: Page, line: str, text: str) -> None:
    row = page.locator(".diff tr", has_text=line).first
    await row.locator("a").first.click()
    await page.locator("textarea[name=text]").first.fill(text)
    await page.locator("form[action$='/comment'] button").first.click()
    await expect(page.locator(".mycmts")).to_contain_text(text)


async def _accept(page: Page, scene: Scene, task: str) -> None:
    await page.goto(f"{scene.url}/review/{task}")
    if await (apart := page.locator("summary[data-key=a]")).count():
        await apart.click()
    await page.locator("form[action$='/accept'] button").click()


async def test_a_head_that_moved_is_not_merged_and_the_page_says_so(
    browser: Browser, morning: Scene
) -> None:
    async with visit(browser, morning, clean=False) as found:
        await found.goto("/review/moved")
        seen = await found.page.locator("input[name=expect_head]").first.input_value()
        morning.post("/lifecycles/moved/guide", text="count them")
        morning.comes_to(moved="done")
        with morning.api as api:
            now = api.get("/lifecycles/moved").json()["lifecycle"]["work"]["head"]
        assert now != seen
        await found.page.locator("form[action$='/accept'] button").click()
        await expect(found.page.locator("main")).to_contain_text(re.compile("moved|now"))
    assert morning.states()["moved"] == "done"


async def test_two_tabs_that_accept_merge_once(browser: Browser, morning: Scene) -> None:
    async with (
        visit(browser, morning, clean=False) as one,
        visit(browser, morning, clean=False) as two,
    ):
        for tab in (one, two):
            await tab.goto("/review/twice")
        for tab in (one, two):
            await tab.page.locator("form[action$='/accept'] button").click()
        morning.comes_to(twice="accepted")
    merges = morning.git("log", "--oneline", "--merges", "main").splitlines()
    assert len([each for each in merges if "twice" in each]) == 1


async def test_the_walk_goes_by_keyboard_alone(browser: Browser, morning: Scene) -> None:
    async with visit(browser, morning) as found:
        press = found.page.keyboard.press
        await found.goto("/")
        await press("v")
        await found.page.wait_for_url("**/review/*")
        first = found.page.url
        await press("s")
        await found.page.wait_for_function(f"location.href !== {first!r}")
        await found.goto("/review/keys")
        await press("a")
        morning.comes_to(keys="accepted")


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
        await _answer(page, "asked", "Skip the row.")
        morning.comes_to(asked="done")
        await _accept(page, morning, "plain")
        morning.comes_to(plain="accepted")
        await _reject(found, "asked")
        morning.comes_to(asked="rejected")


async def test_a_change_of_2_000_files_opens(browser: Browser, morning: Scene) -> None:
    async with visit(browser, morning) as found:
        began = time.monotonic()
        await found.goto("/review/many")
        await expect(found.page.locator(".diff").first).to_be_attached()
        assert time.monotonic() - began < SECONDS
        assert "many/1999.txt" in await found.page.inner_text("main")
        assert len(await found.page.content()) < MOST_BYTES
