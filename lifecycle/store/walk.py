"""Walks over all records of a store, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lifecycle.record import AgentLifecycle, Filter
    from lifecycle.store.damage import Listed
    from lifecycle.store.port import LifecycleStore

PAGE = 1000


async def every(
    store: LifecycleStore, which: Filter | None = None
) -> AsyncIterator[AgentLifecycle]:
    """Give all readable records that fit, the newest first."""
    async for page in pages(store, which):
        for record in page.records:
            yield record


async def pages(store: LifecycleStore, which: Filter | None = None) -> AsyncIterator[Listed]:
    """Give all pages, with what of them is damaged."""
    cursor: int | None = None
    while True:
        page = await store.list(which, cursor=cursor, limit=PAGE)
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return
