"""What tests of `Web` share: a clock that is stepped, and a `Web` on a server of our own."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ci.http import Web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

TOKEN = "ghp_canary0123456789"  # noqa: S105  # no real one; tests look for it everywhere
ADVICE = "set GITHUB_TOKEN or run `gh auth login`"


class Clock:
    """Stands still until it is stepped."""

    def __init__(self, at: float = 1_700_000_000.0) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at

    def step(self, seconds: float) -> None:
        self.at += seconds


async def signed() -> Mapping[str, str]:
    return {"Authorization": f"Bearer {TOKEN}"}


@contextlib.asynccontextmanager
async def asking(url: str, clock: Clock | None = None, **settings: Any) -> AsyncIterator[Web]:
    """Return a `Web` without jitter and without the proxies of whoever runs the tests."""
    given = {"sign": signed, "advice": ADVICE, "rng": lambda: 0.5, "env": {}, **settings}
    web = Web(url, now=clock or Clock(), **given)
    try:
        yield web
    finally:
        await web.aclose()
