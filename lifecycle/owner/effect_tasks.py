"""Performs the orders of one lifecycle as tasks, so that a stop is never queued behind a spawn."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lifecycle.machine import effects as do

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lifecycle.record import PendingEffect

SETTLING = (do.StopAgent, do.TakeSnapshot, do.MergeBranch, do.RemoveWorkspace)
"""Orders that are finished also by a loop that shuts down; others wait for the next runner."""


class EffectTasks:
    """The orders that are being performed now."""

    def __init__(
        self,
        *,
        carry_out: Callable[[PendingEffect], Awaitable[None]],
        ended: Callable[[BaseException | None], None],
    ) -> None:
        self._carry_out = carry_out
        self._ended = ended
        """Called whenever a task ends, with what it failed from."""
        self._tasks: dict[asyncio.Task[None], bool] = {}
        """And whether a shutdown waits for it."""

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def begin(self, orders: tuple[PendingEffect, ...], *, draining: bool) -> None:
        """Perform orders one after the other; a loop that shuts down leaves most to the next."""
        settles = all(isinstance(order.effect, SETTLING) for order in orders)
        if draining and not settles:
            return
        task = asyncio.get_running_loop().create_task(self._one_by_one(orders))
        self._tasks[task] = settles
        task.add_done_callback(self._over)

    def cancel(self, *, settling: bool) -> tuple[asyncio.Task[None], ...]:
        """Break off what is performed, with or without what a shutdown would wait for."""
        tasks = tuple(task for task, settles in self._tasks.items() if settling or not settles)
        for task in tasks:
            task.cancel()
        return tasks

    async def break_off(self) -> bool:
        """Cancel everything and wait until it is gone; tells whether there was anything."""
        tasks = self.cancel(settling=True)
        await asyncio.gather(*tasks, return_exceptions=True)
        return bool(tasks)

    async def _one_by_one(self, orders: tuple[PendingEffect, ...]) -> None:
        for order in orders:
            await self._carry_out(order)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        self._ended(None if task.cancelled() else task.exception())
