"""A board with a long past opens: 500 open tasks of 10,000.

The bounds are generous: they catch what grows with the whole record, not a busy machine.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest_asyncio
from playwright.async_api import expect

from bench.finished import finish
from bench.pages import ALL, OPEN, work_of
from lifecycle.paths import Paths
from tests.orchestrator.web.browser.scene import Scene
from tests.orchestrator.web.browser.visit import visit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest
    from playwright.async_api import Browser

SECONDS = 45.0
MOST_BYTES = 2_000_000


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def large(
    tmp_path_factory: pytest.TempPathFactory, clean_home: object
) -> AsyncIterator[Scene]:
    """Return a repository with a long past."""
    del clean_home
    with Scene(tmp_path_factory.mktemp("large")) as found:
        await finish(Paths.of(found.repo).database, ALL, work_of)
        found.begin("serve")
        yield found


async def test_a_board_of_500_open_of_10_000_tasks_opens(browser: Browser, large: Scene) -> None:
    async with visit(browser, large) as found:
        began = time.monotonic()
        await found.goto("/")
        await expect(found.page.locator("h1")).to_contain_text("need you")
        assert time.monotonic() - began < SECONDS
        assert len(await found.page.content()) < MOST_BYTES
        assert 0 < await found.page.locator("li[id^=row-]").count() <= OPEN
        await found.is_clean()
