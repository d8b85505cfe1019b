"""A browser for tests of pages: keeps the cookie, sends forms with their guard, reads HTML."""

from __future__ import annotations

import html
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx

from orchestrator.web.edge.passes import LINK_LASTS, PassKind, VisitorRole
from tests.orchestrator.web.webkit import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.orchestrator.web.webkit import Site

HTML = {"accept": "text/html,application/xhtml+xml"}
_GUARD = re.compile(r'name="csrf" value="([0-9a-f]+)"')
_TAGS = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL)


def link_of(found: Site, role: VisitorRole = VisitorRole.ADMIN, name: str = "Ada") -> str:
    """Return the path of a link that signs in once."""
    door = found.services.door
    token = door.office.issue(PassKind.LINK, name, role, door.now() + LINK_LASTS)
    return f"/login?token={token}"


@asynccontextmanager
async def anyone(found: Site) -> AsyncIterator[httpx.AsyncClient]:
    """Give a browser that nobody is signed in with."""
    async with httpx.AsyncClient(
        base_url=found.server.url,
        headers=HTML,
        timeout=PATIENCE,
        trust_env=False,
        verify=False,  # noqa: S501  # there is no TLS; to prepare for it takes longer than to ask
    ) as client:
        yield client


@asynccontextmanager
async def browser(
    found: Site, role: VisitorRole = VisitorRole.ADMIN, name: str = "Ada"
) -> AsyncIterator[Browser]:
    """Give a browser that somebody is signed in with."""
    async with anyone(found) as client:
        token = link_of(found, role, name).partition("=")[2]
        answer = await client.post("/login", data={"link": token, "name": name, "next": "/"})
        assert answer.status_code == 303, answer.text
        yield Browser(client)


class Browser:
    """Reads pages and sends their forms."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.guard = ""

    async def page(self, path: str, status: int = 200) -> str:
        """Return the HTML of a page."""
        answer = await self.client.get(path)
        assert answer.status_code == status, (answer.status_code, text_of(answer.text))
        if found := _GUARD.search(answer.text):
            self.guard = found[1]
        return answer.text

    async def text(self, path: str, status: int = 200) -> str:
        """Return what a page says, without its tags."""
        return text_of(await self.page(path, status))

    async def send(
        self, path: str, fields: dict[str, str | list[str]] | None = None, status: int = 303
    ) -> httpx.Response:
        """Send a form as the page would, after it was looked at."""
        if not self.guard:
            await self.page("/")
        told = {"csrf": self.guard, **(fields or {})}
        answer = await self.client.post(path, data=told)
        assert answer.status_code == status, (answer.status_code, text_of(answer.text))
        return answer


def text_of(page: str) -> str:
    """Return the words of a page."""
    return " ".join(html.unescape(_TAGS.sub(" ", page)).split())
