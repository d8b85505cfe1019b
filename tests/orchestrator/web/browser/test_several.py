"""The board of several repositories: whose task it is, the filter, and the way into one of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from tests.orchestrator.loopkit import ASK
from tests.orchestrator.web.browser.visit import visit
from tests.orchestrator.web.repositories.several import several, worlds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.async_api import Browser

    from tests.orchestrator.web.repositories.several import Several

WIDE, NARROW = 1400, 390


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, clean_home: object) -> Iterator[Several]:
    """Return a server where one task asks in each of two repositories; a third one is gone."""
    del clean_home
    folder = tmp_path_factory.mktemp("several")
    app, site = worlds(folder, "app", "site")
    agent = app.script("agent", [ASK])
    for each in (app, site):
        each.settings(f"command = {json.dumps(agent.split())}\nbaseline = false\n")
    home = {f"XDG_{each}_HOME": str(folder / each.lower()) for each in ("CONFIG", "STATE")}
    with several(app, app.repo, site.repo, folder / "gone", env=home) as serve:
        serve.does(app="ok", site="ok", gone="folder")
        for name in ("app", "site"):
            serve.order(name, "/lifecycles", {"text": f"Paint the {name}", "name": "paint"})
            serve.comes_to(name, "AwaitingHuman", "paint")
        yield serve


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_person_finds_a_task_by_its_repository(
    browser: Browser, both: Several, scheme: str
) -> None:
    async with visit(browser, both, color_scheme=scheme) as found:
        await found.goto("/")
        page = found.page
        await expect(page.locator("h1")).to_have_text("2 tasks need you")
        await expect(page.get_by_role("region", name="Not served")).to_contain_text(
            "does not exist"
        )
        for width in (WIDE, NARROW):
            await found.size(width)
            assert await found.sideways() == []
            assert await found.axe() == []
        await found.size(WIDE)
        await page.get_by_role("navigation", name="Repositories").get_by_text("site").click()
        await expect(page.locator("#board .row")).to_have_count(1)
        await expect(page.locator("h1")).to_have_text("1 task needs you")
        await page.get_by_role("link", name="Paint the site").click()
        await page.wait_for_url(f"{both.url}/r/site/t/paint")
        await page.keyboard.press("b")
        await page.wait_for_url(f"{both.url}/r/site/")
        await expect(page.locator("#live")).to_contain_text("live")
        await page.get_by_role("link", name="All repositories").click()
        await expect(page.locator("#board .row")).to_have_count(2)


async def test_what_is_decided_in_one_is_soon_on_the_board_of_all(
    browser: Browser, both: Several
) -> None:
    async with visit(browser, both) as found:
        await found.goto("/")
        await expect(found.page.locator("#live")).to_contain_text("live")
        both.order("app", "/lifecycles/paint/answer", {"text": "green"})
        both.comes_to("app", "AwaitingHuman", "paint")
        row = found.page.locator("#row-app-paint .att")
        await expect(row).to_contain_text("2")
