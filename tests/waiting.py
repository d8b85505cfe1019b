"""How tests wait: until something is so, with much patience, and never for a fixed time.

All waiting is here, so that a busy machine makes tests slower and none of them fail.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.store.sqlite.store import SqliteStore

PATIENCE = 40.0
"""Seconds until a wait fails: fewer than a test may take, many for any busy machine."""
PAUSE = 0.005
SHARE = 5
"""So many times as long as a question took is waited until the next one; others work meanwhile."""
LONGEST = 0.05


async def until(
    asked: Callable[[], Any],
    what: str | Callable[[], object] = "what was waited for",
    patience: float = PATIENCE,
) -> Any:
    """Ask, or await, until the answer is true, and return it; `what` says what did not come."""
    end = time.monotonic() + patience
    while True:
        began = time.monotonic()
        answer = asked()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return answer
        _give_up_after(end, what)
        await asyncio.sleep(_pause(began))


def wait_until(
    asked: Callable[[], Any],
    what: str | Callable[[], object] = "what was waited for",
    patience: float = PATIENCE,
) -> Any:
    """Wait as `until` does, where no event loop runs."""
    end = time.monotonic() + patience
    while True:
        began = time.monotonic()
        if answer := asked():
            return answer
        _give_up_after(end, what)
        time.sleep(_pause(began))


async def answered(store: SqliteStore, request: int) -> str:
    """Wait for a runner's answer to what a person asked; "" is yes, else why it refused."""

    async def answer() -> tuple[str] | None:
        outcome = await store.request_outcome(request)
        return None if outcome is None else (outcome,)

    [problem] = await until(answer, "a runner answers")
    return str(problem)


def _pause(began: float) -> float:
    return min(LONGEST, max(PAUSE, SHARE * (time.monotonic() - began)))


def _give_up_after(end: float, what: str | Callable[[], object]) -> None:
    if time.monotonic() > end:
        raise AssertionError(f"waited too long: {what if isinstance(what, str) else what()}")
