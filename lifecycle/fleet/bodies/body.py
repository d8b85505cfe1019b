"""What runs behind an instance, as the spawner sees it: a process tree, or a Python object."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from lifecycle.clock import Clock
    from runtime.processes.activity import Activity


@dataclass(frozen=True, slots=True)
class BodyFailure:
    """Why a body ended by itself."""

    text: str
    """Empty when it ended normally."""
    exception: BaseException | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StopResult:
    """The result of stopping a body."""

    gone: bool
    """Nothing of it is left."""
    graceful: bool
    problems: tuple[str, ...] = ()
    abandoned: bool = False
    """What is left of it cannot be ended, and is not tracked any longer."""


@dataclass(frozen=True, slots=True)
class BodyActivity:
    """The activity of a body in one sample."""

    active: bool
    """It did something since the sample before."""
    memory_bytes: int = 0
    cpu_seconds: float = 0.0
    processes: int = 0
    output_bytes: int = 0
    tokens: int = 0
    over_limit: str = ""
    """The limit that it is beyond without being ended for it, and what that means; else empty."""
    tasks_running: int = 0
    tasks_done: int = 0
    tasks_failed: int = 0


class Body(Protocol):
    """A living agent."""

    mark: str
    """Identifies its processes when they are measured; empty if it has none."""

    @property
    def containment(self) -> str:
        """What isolates it, in words."""
        ...

    async def start(self) -> None:
        """Start it and wait until it is ready; a caller that cancels this must then call `stop`."""
        ...

    async def cancel_work(self, seconds: float) -> None:
        """Take no more work, cancel what is under way, and wait so long at most until it ended."""
        ...

    async def stop(self, grace: float, *, force: bool) -> StopResult:
        """End it. May be called again during a stop, with less grace, to hurry it."""
        ...

    async def suspend(self) -> None:
        """Suspend it."""
        ...

    async def resume(self) -> None:
        """Resume it."""
        ...

    def sample(self, activity: Activity | None) -> BodyActivity:
        """Return its signs of life; `activity` is what was measured of its processes.

        Of a Python object: of the process that it runs in.
        """
        ...

    async def check(self, command: tuple[str, ...], seconds: float) -> str:
        """Run a health check beside it; '' when it exits with 0, else the problem."""
        ...

    def details(self) -> dict[str, Any]:
        """Return the details for its record."""
        ...

    async def keep_state(self, seconds: float) -> dict[str, Any]:
        """Keep its state for later, before it is stopped; return where it is kept, or why not."""
        ...

    def clean(self, *, everything: bool) -> None:
        """Remove the files it worked with, or everything it ever wrote."""
        ...


async def within(clock: Clock, task: asyncio.Future[Any], seconds: float) -> bool:
    """Wait for a task at most so many seconds; return whether it is done."""
    if seconds > 0 and not task.done():
        timeout: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def expire() -> None:
            if not timeout.done():
                timeout.set_result(None)

        timer = clock.call_at(clock.now() + seconds, expire)
        try:
            await asyncio.wait({task, timeout}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            timeout.cancel()
    return task.done()


class BackgroundTasks:
    """Holds references to tasks until they are done."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Start a task and hold a reference to it."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def cancel(self, grace: float = 0.0) -> None:
        """Cancel those that are not done in so many seconds, and wait until all have ended."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=grace)
        for task in tuple(self._tasks):
            task.cancel()
        await self.wait()

    async def wait(self) -> None:
        """Wait for all of them, including those that start meanwhile."""
        while self._tasks:
            await asyncio.wait(self._tasks)
