"""Takes the signals that end a runner: the first cleanly, the second at once.

Must not know more of what runs than the runner it is given.
"""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ONE_PRESS = 0.2
"""Seconds; programs such as `timeout` and some wrappers deliver one signal twice within these."""
KILL_AGAIN_EVERY = 0.1
"""Seconds; a process that was being started during the first kill is killed by the next."""


class Stoppable(Protocol):
    """What a signal ends."""

    async def shutdown(self) -> None:
        """End everything, with its work saved."""
        ...

    async def kill(self) -> None:
        """End what still runs, at once."""
        ...


class SignalHandler:
    """Listens while it is entered; `tell` shows a line to the person who sent a signal."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._runner: Stoppable | None = None
        self._ending: list[asyncio.Task[None]] = []
        self._first_at = 0.0
        self.number = 0
        """The first signal that came; 0 if none did."""

    def attach(self, runner: Stoppable) -> None:
        """Set what to end; an earlier signal takes effect now."""
        self._runner = runner
        if self.number:
            self._begin(runner.shutdown())

    @property
    def exit_code(self) -> int:
        """The exit code of a program that such a signal ended."""
        return 128 + self.number

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in HANDLED:
            loop.add_signal_handler(number, self._heard, number)
        return self

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number in HANDLED:
            loop.remove_signal_handler(number)
        for task in self._ending:
            task.cancel()

    def _heard(self, number: int) -> None:
        present = asyncio.get_running_loop().time()
        if not self.number:
            self.number, self._first_at = number, present
            self._tell(
                "stopping: agents are asked to end and work is saved; a second signal kills them"
            )
            if self._runner is not None:
                self._begin(self._runner.shutdown())
        elif present - self._first_at < ONE_PRESS:
            return
        elif len(self._ending) == 1 and self._runner is not None:
            self._tell("killing the agents; work that is being saved is still finished")
            self._begin(self._kill(self._runner))

    def _begin(self, ending: Coroutine[object, object, None]) -> None:
        self._ending.append(asyncio.get_running_loop().create_task(ending))

    async def _kill(self, runner: Stoppable) -> None:
        while True:
            await runner.kill()
            await asyncio.sleep(KILL_AGAIN_EVERY)
