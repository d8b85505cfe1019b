"""Open pages are told what agents do, however much is decided meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from orchestrator.web.live import page_news
from orchestrator.web.live.page_news import PageNews
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Collection

    import pytest

    from lifecycle.reporting import Committed


class Decided:
    agent_id = "agent-T1"


async def test_what_agents_do_is_looked_at_also_while_much_is_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page_news, "LOOK_EVERY", 0.2)
    looks = list[bool]()

    async def make(changed: Collection[str], look: bool) -> list[tuple[str, str]]:  # noqa: FBT001  # as it is called
        del changed
        looks.append(look)
        return []

    pages = PageNews("boot", lambda *_, **__: None)
    stream = pages.stream("board", make, "")
    await anext(stream)

    def decides() -> bool:
        pages.news(cast("Committed", Decided()))
        return len(looks) > 20

    await until(decides, lambda: looks)
    assert 1 < looks.count(True) < len(looks)
    await stream.aclose()
    await pages.aclose()
    assert not asyncio.all_tasks() - {asyncio.current_task()}
