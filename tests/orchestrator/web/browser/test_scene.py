"""The scene itself, and the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.orchestrator.web.browser import november
from tests.orchestrator.web.browser.chromium import watched

if TYPE_CHECKING:
    from playwright.async_api import Browser

    from tests.orchestrator.web.browser.scene import Scene


async def test_every_state_is_there_at_once(night: Scene) -> None:
    assert night.states() == november.IN_THE_MORNING


async def test_the_browser_shows_what_is_served(night: Scene, browser: Browser) -> None:
    async with watched(browser, night.url) as found:
        await found.goto("/healthz")
        assert "ok" in await found.page.inner_text("body")
        await found.is_clean()
