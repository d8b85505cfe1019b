"""Fixtures of the tests in a browser: one Chromium and one whole night for each worker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.orchestrator.web.browser.chromium import chromium
from tests.orchestrator.web.browser.hostile import hostile_night
from tests.orchestrator.web.browser.scene import november_night

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from playwright.async_api import Browser

    from tests.orchestrator.web.browser.scene import Scene


HERE = Path(__file__).parent
WAITS_MS = 90_000
"""For what a page is to show: as long as a busy machine may take."""
LONGEST = 480.0
"""Seconds for a test that looks at all pages of a night, on a busy machine."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run them in the one event loop that the browser lives in, and before all others.

    What comes first goes to one worker, of several: only that makes a browser and its scenes.
    """
    items.sort(key=lambda item: not item.path.is_relative_to(HERE))
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
            item.add_marker(pytest.mark.timeout(LONGEST))


@pytest_asyncio.fixture(scope="session", loop_scope="session", autouse=True)
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    """Return the browser of this worker."""
    expect.set_options(timeout=WAITS_MS)
    async with chromium(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="session")
def night(tmp_path_factory: pytest.TempPathFactory, clean_home: object) -> Iterator[Scene]:
    """Return the morning after a whole night; tests must only look at it."""
    del clean_home
    with november_night(tmp_path_factory.mktemp("night")) as found:
        yield found


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory, clean_home: object) -> Iterator[Scene]:
    """Return a repository in which everything that is shown is an attack; only to look at."""
    del clean_home
    with hostile_night(tmp_path_factory.mktemp("hostile")) as found:
        yield found
