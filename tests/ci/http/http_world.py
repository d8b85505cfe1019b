"""Shared by tests of `HttpClient`: a stepped clock, and a client of a local test server."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ci.http.client import HttpClient
from lifecycle.clock import SteppedClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

TOKEN = "ghp_canary0123456789"  # noqa: S105  # no real one; tests look for it everywhere
ADVICE = "set GITHUB_TOKEN or run `gh auth login`"


BEGAN = 1_700_000_000.0


async def signed() -> Mapping[str, str]:
    return {"Authorization": f"Bearer {TOKEN}"}


@contextlib.asynccontextmanager
async def asking(
    url: str, clock: SteppedClock | None = None, **settings: Any
) -> AsyncIterator[HttpClient]:
    """Return a `HttpClient` without jitter."""
    given = {"sign": signed, "advice": ADVICE, "rng": lambda: 0.5, **settings}
    web = HttpClient(url, now=(clock or SteppedClock(BEGAN)).now, **given)
    try:
        yield web
    finally:
        await web.aclose()
