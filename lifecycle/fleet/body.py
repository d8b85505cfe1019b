"""What lives behind an instance, as the spawner sees it: a program's tree, or a Python object."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from lifecycle.clock import Clock
    from runtime.activity import Activity


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a body ended by itself."""

    text: str
    """'' when it ended as it should."""
    exception: BaseException | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stopped:
    """What came of stopping a body."""

    gone: bool
    """Nothing of it is left."""
    graceful: bool
    problems: tuple[str, ...] = ()
    abandoned: bool = False
    """What is left of it cannot be ended, and is not reckoned with any more."""


@dataclass(frozen=True, slots=True)
class Signs:
    """Signs of life of a body."""

    moved: bool
    """It did something since it was last looked at."""
    memory_bytes: int = 0
    cpu_seconds: float = 0.0
    processes: int = 0
    output_bytes: int = 0
    tasks_running: int = 0
    tasks_done: int = 0
    tasks_failed: int = 0


class Body(Protocol):
    """A living agent."""

    mark: str
    """Under which its processes are measured; '' if it has none."""

    @property
    def containment(self) -> str:
        """What keeps it in, in words."""
        ...

    async def start(self) -> None:
        """Bring it up until it is ready; whoever cancels this stops the body next."""
        ...

    async def stop(self, grace: float, *, force: bool) -> Stopped:
        """End it. May be called again, with less grace, while it is under way."""
        ...

    async def suspend(self) -> None:
        """Hold it still."""
        ...

    async def resume(self) -> None:
        """Let it go on."""
        ...

    def look(self, activity: Activity | None) -> Signs:
        """Return its signs of life; `activity` is what was measured of its processes."""
        ...

    async def check(self, command: tuple[str, ...], seconds: float) -> str:
        """Run a health check beside it; '' when it exits with 0, else the problem."""
        ...

    def details(self) -> dict[str, Any]:
        """Return what the record shall say of it."""
        ...

    async def keep_state(self) -> dict[str, Any]:
        """Keep what it worked with for later, before it is stopped; return where."""
        ...

    def clean(self, *, everything: bool) -> None:
        """Remove the files it worked with, or all it ever wrote."""
        ...


async def within(clock: Clock, task: asyncio.Future[Any], seconds: float) -> bool:
    """Wait for a task until so many seconds have passed; says whether it is done."""
    if seconds > 0 and not task.done():
        alarm: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def ring() -> None:
            if not alarm.done():
                alarm.set_result(None)

        timer = clock.call_at(clock.now() + seconds, ring)
        try:
            await asyncio.wait({task, alarm}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            alarm.cancel()
    return task.done()


class Errands:
    """Tasks that somebody must hold on to until they are done."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Start a task and keep it."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def settle(self) -> None:
        """Wait for all of them, also for those begun meanwhile."""
        while self._tasks:
            await asyncio.wait(self._tasks)
