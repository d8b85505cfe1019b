"""Takes the signals that end a runner: the first cleanly, the second at once.

Must not know more of what runs than the runners it is given.
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
        self._runners: list[Stoppable] = []
        self._ending: list[asyncio.Task[None]] = []
        self._killing = False
        self._first_at = 0.0
        self.number = 0
        """The first signal that came; 0 if none did."""
        self.came = asyncio.Event()

    def attach(self, runner: Stoppable) -> None:
        """Add what to end; an earlier signal takes effect now."""
        self._runners.append(runner)
        if self.number:
            self._begin(runner.shutdown())

    def detach(self, runner: Stoppable) -> None:
        """Leave alone what has ended by itself."""
        self._runners.remove(runner)

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
            for runner in self._runners:
                self._begin(runner.shutdown())
            self.came.set()
        elif present - self._first_at < ONE_PRESS:
            return
        elif self._runners and not self._killing:
            self._killing = True
            self._tell("killing the agents; work that is being saved is still finished")
            self._begin(self._kill())

    def _begin(self, ending: Coroutine[object, object, None]) -> None:
        self._ending.append(asyncio.get_running_loop().create_task(ending))

    async def _kill(self) -> None:
        while True:
            await asyncio.gather(*(runner.kill() for runner in self._runners))
            await asyncio.sleep(KILL_AGAIN_EVERY)
