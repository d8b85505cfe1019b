"""A person at the browser: signs in with the token, and looks at pages."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from tests.orchestrator.web.browser.chromium import watched

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Browser, BrowserContext, StorageState

    from tests.orchestrator.web.browser.chromium import Watched

NAME = "Ada"


class Served(Protocol):
    """A server that runs."""

    @property
    def url(self) -> str:
        """Where it is."""
        ...

    @property
    def token(self) -> str:
        """What it asks for."""
        ...


_signed_in: dict[str, StorageState] = {}
"""What the browser keeps after the sign-in, by the token of the server."""


@asynccontextmanager
async def visit(
    browser: Browser, scene: Served, *, clean: bool = True, **options: Any
) -> AsyncIterator[Watched]:
    """Open a window in which a person is signed in."""
    kept = await _cookies(browser, scene)
    async with watched(browser, scene.url, clean=clean, storage_state=kept, **options) as found:
        yield found


async def _cookies(browser: Browser, scene: Served) -> StorageState:
    if scene.token not in _signed_in:
        async with watched(browser, scene.url) as found:
            await sign_in(found, scene)
            await found.is_clean()
            _signed_in[scene.token] = await _state_of(found.context)
    return _signed_in[scene.token]


async def _state_of(context: BrowserContext) -> StorageState:
    return await context.storage_state()


async def sign_in(found: Watched, scene: Served, name: str = NAME) -> None:
    """Sign in with the token, as somebody does who has no link."""
    await found.goto("/login")
    await found.page.get_by_label("Token").fill(scene.token)
    await found.page.get_by_label("Your name").fill(name)
    await found.page.get_by_role("button", name="Sign in").click()
    await found.page.wait_for_url(f"{scene.url}/")
