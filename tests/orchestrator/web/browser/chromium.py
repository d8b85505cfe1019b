"""The browser that the pages are tested in, and what is noticed while it shows them."""

from __future__ import annotations

import shutil
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]  # has none
from playwright.async_api import async_playwright

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 30_000.0
REBOUND = "rebound.example"
"""A name that leads to this machine, as an attacker can make one do."""
MISSING = (
    "the pages are tested in Chromium, and there is none; install it: apt-get install chromium"
)
_COUNT_VIOLATIONS = """
window.policyViolations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.policyViolations.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`);
});
"""
AXE = {"resultTypes": ["violations"], "elementRef": False}
"""All rules, as they come."""


@asynccontextmanager
async def chromium(home: Path) -> AsyncIterator[Browser]:
    """Start the browser of the machine; it writes to `home` and nowhere else."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise AssertionError(MISSING)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=found,
            args=[
                *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
                f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1",
            ],
            env={
                "HOME": str(home),
                "TMPDIR": str(home),
                "PATH": "/usr/bin:/bin",
                "LANG": "C.UTF-8",
            },
        )
        try:
            yield browser
        finally:
            await browser.close()


@dataclass
class Watched:
    """A page, and all that went wrong in it."""

    page: Page
    context: BrowserContext
    home: str
    """The one address that it may ask."""
    noticed: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()
    """What a test provokes on purpose: console lines that hold one of these are in order."""

    def watch(self) -> None:
        """Notice from now on."""
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.noticed.append(f"error: {error}"))
        self.page.on("request", self._request)
        self.page.set_default_timeout(PATIENCE_MS)

    def _console(self, message: ConsoleMessage) -> None:
        if not any(each in message.text for each in self.expected):
            self.noticed.append(f"console {message.type}: {message.text}")

    def _request(self, request: Request) -> None:
        found = urlsplit(request.url)
        if found.scheme in ("data", "blob"):
            return
        if f"{found.scheme}://{found.netloc}" != self.home:
            self.noticed.append(f"another host is asked: {request.url}")

    async def goto(self, path: str, status: int = 200) -> None:
        """Show a page of the server."""
        answer = await self.page.goto(f"{self.home}{path}", wait_until="load")
        assert answer is not None
        assert answer.status == status, f"{path}: {answer.status} {(await answer.text())[:200]}"

    async def size(self, width: int, height: int = 900) -> None:
        """Make the window so large."""
        await self.page.set_viewport_size({"width": width, "height": height})

    async def axe(self) -> list[str]:
        """Return what axe finds: rule, element and why."""
        if not await self.page.evaluate("Boolean(window.axe)"):
            await self.page.evaluate(Axe().axe_script)
        found: list[str] = await self.page.evaluate(
            """async (options) => (await axe.run(document, options)).violations.flatMap((rule) =>
              rule.nodes.map((node) => `${rule.id}: ${node.html.slice(0, 200)}` +
                ` (${node.failureSummary.slice(0, 300)})`))""",
            AXE,
        )
        return found

    async def sideways(self) -> list[str]:
        """Return what makes the page wider than its window."""
        found: list[str] = await self.page.evaluate(
            """() => {
              const most = document.documentElement.clientWidth;
              if (document.documentElement.scrollWidth <= most) return [];
              return [...document.body.querySelectorAll("*")]
                .filter((each) => each.getBoundingClientRect().right > most + 1)
                .slice(0, 5)
                .map((each) => each.outerHTML.slice(0, 160));
            }"""
        )
        wide: bool = await self.page.evaluate(
            "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        )
        return found or (["something"] if wide else [])

    async def violations(self) -> list[str]:
        """Return what the page's policy had to stop."""
        found: list[str] = await self.page.evaluate("window.policyViolations || []")
        return found

    async def is_clean(self) -> None:
        """Check that nothing went wrong so far."""
        assert not self.noticed, self.noticed
        assert await self.violations() == []

    async def top_of(self, selector: str) -> float:
        """Return how far down an element is."""
        box = await self.page.locator(selector).first.bounding_box()
        assert box is not None, f"{selector} is not shown"
        return box["y"]


@asynccontextmanager
async def watched(
    browser: Browser, home: str, *, clean: bool = True, **options: Any
) -> AsyncIterator[Watched]:
    """Open a window of its own, with its own cookies; in the end nothing may have gone wrong."""
    options = {"viewport": {"width": 1440, "height": 900}, "locale": "en-GB"} | options
    context = await browser.new_context(**options)
    try:
        if options.get("java_script_enabled", True):
            await context.add_init_script(_COUNT_VIOLATIONS)
        page = await context.new_page()
        found = Watched(page, context, home)
        found.watch()
        yield found
        if clean:
            assert not found.noticed, found.noticed
    finally:
        await context.close()
