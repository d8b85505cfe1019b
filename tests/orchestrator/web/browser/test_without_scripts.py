"""Every page without JavaScript: it can be read, and its forms do what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.orchestrator.web.browser.every_page import PAGES
from tests.orchestrator.web.browser.visit import visit

if TYPE_CHECKING:
    from playwright.async_api import Browser

    from tests.orchestrator.web.browser.scene import Scene


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_says_the_same_without_scripts(
    browser: Browser, night: Scene, path: str
) -> None:
    async with (
        visit(browser, night, java_script_enabled=False) as plain,
        visit(browser, night) as full,
    ):
        await plain.goto(path)
        await full.goto(path)
        assert (
            await plain.page.locator("h1").all_inner_texts()
            == await full.page.locator("h1").all_inner_texts()
        )
        assert len(await plain.page.locator("h1").all()) == 1
