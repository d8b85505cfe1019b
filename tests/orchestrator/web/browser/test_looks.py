"""Every page, light and dark, wide and narrow: whole, quiet, readable and within its window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.orchestrator.web.browser.chromium import watched
from tests.orchestrator.web.browser.every_page import EVERY, OPEN
from tests.orchestrator.web.browser.visit import visit

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from playwright.async_api import Browser

    from tests.orchestrator.web.browser.chromium import Watched
    from tests.orchestrator.web.browser.scene import Scene

WIDTHS = (1440, 1024, 390, 320)
READ_AT = (1440, 390)
"""Widths at which the rules of accessibility are checked; each takes as long as a page."""
TABS = 12


def _window(browser: Browser, scene: Scene, path: str) -> AbstractAsyncContextManager[Watched]:
    return watched(browser, scene.url) if path in OPEN else visit(browser, scene)


@pytest.mark.parametrize("path", EVERY)
async def test_a_page_is_whole_within_its_window_and_readable_for_everybody(
    browser: Browser, night: Scene, path: str
) -> None:
    faults: list[str] = []
    async with _window(browser, night, path) as found:
        await found.goto(path)
        for scheme in ("light", "dark"):
            await found.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            for width in WIDTHS:
                await found.size(width)
                if wide := await found.sideways():
                    faults.append(f"{scheme} {width}: wider than its window: {wide}")
                if width in READ_AT:
                    faults += [f"{scheme} {width}: {each}" for each in await found.axe()]
        await found.is_clean()
    assert faults == [], "\n".join(faults)


@pytest.mark.parametrize("path", EVERY)
async def test_what_the_keyboard_reaches_is_seen_to_be_reached(
    browser: Browser, night: Scene, path: str
) -> None:
    async with _window(browser, night, path) as found:
        await found.goto(path)
        await found.page.evaluate("document.activeElement?.blur()")
        unseen = []
        for _ in range(TABS):
            await found.page.keyboard.press("Tab")
            if told := await found.page.evaluate(_UNSEEN):
                unseen.append(told)
        assert unseen == []


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
