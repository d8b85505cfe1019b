"""Every page of a whole night: light and dark, wide and narrow, by keyboard, without scripts.

One test goes through all pages: what is dear is the night, and each worker makes its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.orchestrator.web.browser import november
from tests.orchestrator.web.browser.chromium import REBOUND, watched
from tests.orchestrator.web.browser.every_page import OPEN, PAGES
from tests.orchestrator.web.browser.visit import visit

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page, Route

    from tests.orchestrator.web.browser.chromium import Watched
    from tests.orchestrator.web.browser.scene import Scene

WIDTHS = (1024, 320)
"""At which a page must fit; at the widths where it is read with axe it must, too."""
READ_AS = (("light", 1440), ("dark", 390))
"""How the rules of accessibility are checked: wide and narrow, in both colours, each once."""
TABS = 12
STRANGE = "http://strange.example"
BESIDE = "http://127.0.0.1:65001"
"""Another server of this machine; nobody listens there, the browser is told what it says."""


async def test_every_state_is_there_at_once(night: Scene) -> None:
    assert night.states() == november.IN_THE_MORNING


async def test_pages_are_whole_within_their_window_and_readable_by_eye_ear_and_keyboard(
    browser: Browser, night: Scene
) -> None:
    faults: list[str] = []
    async with watched(browser, night.url) as found:
        for path in OPEN:
            faults += [f"{path} {each}" for each in await _faults(found, path)]
    async with visit(browser, night) as found:
        for path in PAGES:
            faults += [f"{path} {each}" for each in await _faults(found, path)]
    assert faults == [], "\n".join(faults)


async def _faults(found: Watched, path: str) -> list[str]:
    await found.size(1440)
    await found.page.emulate_media(color_scheme="light", reduced_motion="reduce")
    await found.goto(path)
    faults = [f"reached unseen: {each}" for each in await _reached_unseen(found.page)]
    for scheme, width in READ_AS:
        await found.page.emulate_media(
            color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce"
        )
        await found.size(width)
        faults += [f"{scheme} {width}: {each}" for each in await found.axe()]
        faults += [f"{width}: sideways: {each}" for each in await found.sideways()]
    for width in WIDTHS:
        await found.size(width)
        faults += [f"{width}: sideways: {each}" for each in await found.sideways()]
    return faults + found.noticed + await found.violations()


async def _reached_unseen(page: Page) -> list[str]:
    """Return what the keyboard reaches without a mark that it is there."""
    await page.evaluate("document.activeElement?.blur()")
    unseen = []
    for _ in range(TABS):
        await page.keyboard.press("Tab")
        if told := await page.evaluate(_UNSEEN):
            unseen.append(told)
    return unseen


_UNSEEN = """() => {
  const on = document.activeElement;
  if (!on || on === document.body) return "";
  const box = on.getBoundingClientRect();
  const marks = [on, on.closest("label, li, .row, summary, .find")].filter(Boolean).some((each) => {
    const looks = getComputedStyle(each);
    return (looks.outlineStyle !== "none" && parseFloat(looks.outlineWidth) >= 1.5) ||
      looks.boxShadow !== "none";
  });
  if (marks && box.width > 0) return "";
  return on.outerHTML.slice(0, 160);
}"""


async def test_pages_say_the_same_without_scripts(browser: Browser, night: Scene) -> None:
    async with (
        visit(browser, night, java_script_enabled=False) as plain,
        visit(browser, night) as full,
    ):
        for path in PAGES:
            await plain.goto(path)
            await full.goto(path)
            headings = await plain.page.locator("h1").all_inner_texts()
            assert headings == await full.page.locator("h1").all_inner_texts(), path
            assert len(headings) == 1, path


async def test_a_form_of_another_origin_is_refused(browser: Browser, night: Scene) -> None:
    async with visit(browser, night, clean=False) as found:
        await found.goto("/review/T03")
        guard = await found.page.locator("input[name=csrf]").first.input_value()
        form = (
            f'<form method="post" action="{night.url}/t/T03/reject">'
            f'<input name="csrf" value="{guard}"><input name="text" value="no"><button>Win</button>'
        )

        async def serve(route: Route) -> None:
            await route.fulfill(body=form, content_type="text/html")

        # The cookie goes with a form of this machine only, whatever its port.
        for origin, status in ((STRANGE, 303), (BESIDE, 403)):
            await found.page.route(f"{origin}/**", serve)
            await found.page.goto(f"{origin}/")
            async with found.page.expect_response(f"{night.url}/t/**") as answered:
                await found.page.get_by_role("button", name="Win").click()
            answer = await answered.value
            assert (origin, answer.status) == (origin, status)
            assert status == 403 or "/login" in answer.headers["location"]
    assert night.states()["T03"] == "done"


async def test_another_name_for_this_machine_is_no_way_in(browser: Browser, night: Scene) -> None:
    async with visit(browser, night, clean=False) as found:
        answer = await found.page.goto(f"http://{REBOUND}:{night.port}/login")
        assert answer is not None
        assert answer.status == 421
        assert "Sign in" not in await found.page.inner_text("body")
