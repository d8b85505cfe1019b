"""Heeds the signals that end a runner: the first cleanly, the second at once.

Must not know what runs beyond the crew it is given.
"""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from orchestrator.crew import Crew

HEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ONE_PRESS = 0.2
"""Seconds; programs such as `timeout` and some wrappers deliver one wish twice within these."""
KILL_AGAIN_EVERY = 0.1
"""Seconds; a process that was being started during the first kill is met by the next."""


class Heed:
    """Listens while it is entered; `tell` is what the person who sent a signal reads."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._crew: Crew | None = None
        self._ending: list[asyncio.Task[None]] = []
        self._first_at = 0.0
        self.number = 0
        """The first signal that came; 0 if none did."""

    def attach(self, crew: Crew) -> None:
        """Know what to end; a signal that came before is heeded now."""
        self._crew = crew
        if self.number:
            self._begin(crew.shutdown())

    @property
    def exit_code(self) -> int:
        """What a shell is told about a program that such a signal ended."""
        return 128 + self.number

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in HEEDED:
            loop.add_signal_handler(number, self._heard, number)
        return self

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number in HEEDED:
            loop.remove_signal_handler(number)
        for task in self._ending:
            task.cancel()

    def _heard(self, number: int) -> None:
        present = asyncio.get_running_loop().time()
        if not self.number:
            self.number, self._first_at = number, present
            self._tell("stopping: agents are asked to end, work is saved; once more kills")
            if self._crew is not None:
                self._begin(self._crew.shutdown())
        elif present - self._first_at < ONE_PRESS:
            return
        elif len(self._ending) == 1 and self._crew is not None:
            self._tell("killing the agents; what is being saved is finished")
            self._begin(self._kill(self._crew))

    def _begin(self, ending: Coroutine[object, object, None]) -> None:
        self._ending.append(asyncio.get_running_loop().create_task(ending))

    async def _kill(self, crew: Crew) -> None:
        while True:
            await crew.kill()
            await asyncio.sleep(KILL_AGAIN_EVERY)
