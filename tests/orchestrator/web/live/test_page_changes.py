"""Pages are told when what they show has changed, also before they listened."""

from __future__ import annotations

import asyncio
import html
import itertools
import re
from typing import TYPE_CHECKING

from tests.orchestrator.loopkit import ASK, SETTINGS
from tests.orchestrator.web.pages.browsing import browser
from tests.orchestrator.web.routes.test_deliveries import keep
from tests.orchestrator.web.webkit import PATIENCE, site

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.orchestrator.web.pages.browsing import Browser


async def told_of(
    visit: Browser, path: str, change: Callable[[], Awaitable[object]], *, late: bool = False
) -> list[str]:
    """Return the names of what a page is told, up to `changed` or the second sign of life."""
    [address] = re.findall(r'data-live="([^"]+)"', await visit.page(path))
    if late:
        await change()
    names = list[str]()
    async with (
        asyncio.timeout(PATIENCE),
        visit.client.stream("GET", html.unescape(address)) as answer,
    ):
        async for line in answer.aiter_lines():
            told = re.findall(r'"name": ?"(\w+)"', line)
            names += told
            if told == ["hello"] and not late:
                await change()
            if "changed" in names or names.count("beat") > 1:
                break
    return names


async def test_each_is_told_once_something_changed_and_not_before(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        agent = await found.add("asks", {"attempts": {"default": [{"say": "hm"}, ASK]}})
        await found.comes_to("AwaitingHuman", agent)
        numbers, verbs = itertools.count(1), itertools.cycle(("pause", "resume"))

        async def webhook() -> None:
            await keep(found, f"github:{next(numbers)}", state="ignored", settled_at=6.0)

        async def setting() -> None:
            found.world.settings(f"{SETTINGS}wall_limit = {60 + next(numbers)}\n")

        async def pause() -> None:
            await found.post(f"/lifecycles/{agent}/{next(verbs)}")

        async def edit() -> None:
            attempt = (await found.get(f"/lifecycles/{agent}/summaries"))["next_attempt"]
            body = {"text": f"No. {next(numbers)}"}
            answer = await found.client.put(
                f"/api/v1/lifecycles/{agent}/summaries/{attempt}", json=body
            )
            assert answer.status_code == 200, answer.text

        pages: dict[str, Callable[[], Awaitable[object]]] = {
            "/hooks": webhook,
            "/settings": setting,
            "/plans/run": pause,
            f"/t/{agent}/summaries/2": edit,
        }
        for path, change in pages.items():
            assert await told_of(visit, path, change) == ["hello", "changed"], path
            assert "changed" in await told_of(visit, path, change, late=True), path


async def test_a_page_that_still_shows_what_is_hears_nothing(tmp_path: Path) -> None:
    async def nothing() -> None:
        """Change nothing."""

    async with site(tmp_path) as found, browser(found) as visit:
        for path in ("/hooks", "/settings"):
            told = await told_of(visit, path, nothing)
            assert set(told) == {"hello", "beat"}, path


async def test_the_list_of_plans_is_told_of_the_first_task(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        told = await told_of(visit, "/plans", lambda: found.add("asks", [ASK]))
        assert told == ["hello", "changed"]


async def test_the_board_and_a_task_are_told_what_they_missed_before_they_listened(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        agent = await found.add("asks", {"attempts": {"default": [{"say": "hm"}, ASK]}})
        await found.comes_to("AwaitingHuman", agent)
        verbs = itertools.cycle(("pause", "resume"))
        for path in ("/", f"/t/{agent}"):
            [address] = re.findall(r'data-live="([^"]+)"', await visit.page(path))
            assert await first_of(visit, address) == "hello", path
            await found.post(f"/lifecycles/{agent}/{next(verbs)}")
            assert await first_of(visit, address) == "reset", path


async def first_of(visit: Browser, address: str) -> str:
    """Return the name of the first that a stream tells."""
    async with (
        asyncio.timeout(PATIENCE),
        visit.client.stream("GET", html.unescape(address)) as answer,
    ):
        async for line in answer.aiter_lines():
            for name in re.findall(r'"name": ?"(\w+)"', line):
                return str(name)
    return ""
