"""Keeps the search index up to date beside the loops: a little at a time, and before each answer.

Must not disturb a loop: all its work is done in a thread, and what fails is told once.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from lifecycle.errors import StoreError
from orchestrator.control.search import found_form, index_of

if TYPE_CHECKING:
    from lifecycle.store.search.index import IndexProgress, SearchQuestion
    from orchestrator.control.search import SearchForm
    from orchestrator.runner.server_interface import RunnerPort

AGAIN = 60.0
"""Seconds until what changed is taken in, if nobody searches."""
BREATH = 0.3
"""Seconds between two steps while much is to be taken in."""
FIRST = 2.0
"""Seconds after the start of the server: a runner that begins has other work."""
BEFORE_ANSWER = 0.02
"""Seconds that an answer waits at most for what changed lately."""


class SearchKeeper:
    """The search index of one runner."""

    def __init__(self, runner: RunnerPort) -> None:
        self._runner = runner
        self._index = index_of(runner.repo)
        self._task: asyncio.Task[None] | None = None
        self._told = ""

    def begin(self) -> None:
        """Take in what is there, in the background."""
        self._task = asyncio.create_task(self._keep(), name="search index")

    async def aclose(self) -> None:
        """End; nothing is lost."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await asyncio.to_thread(self._index.close)

    async def ask(self, question: SearchQuestion) -> SearchForm:
        """Return what is found, also of what changed a moment ago; SearchError if it cannot be."""
        return await asyncio.to_thread(self._ask, question, self._runner.now())

    async def take_in_again(self, cursor: int) -> None:
        """Have a lifecycle taken in once more, for a summary that came after its record."""
        with contextlib.suppress(StoreError):  # it is searched without
            await asyncio.to_thread(self._index.take_in_again, cursor)

    def _ask(self, question: SearchQuestion, present: float) -> SearchForm:
        progress = self._index.catch_up(BEFORE_ANSWER)
        answer = self._index.ask(question)
        paths: Any = self._runner.engine.machine.paths
        return found_form(paths.database, answer, progress, present, runs=True)

    async def _keep(self) -> None:
        await asyncio.sleep(FIRST)
        while True:
            progress = await asyncio.to_thread(self._step)
            await asyncio.sleep(AGAIN if progress is None or progress.whole else BREATH)

    def _step(self) -> IndexProgress | None:
        try:
            return self._index.catch_up()
        except StoreError as problem:
            if self._told != str(problem):
                self._told = str(problem)
                self._runner.report("search_failed", problem=str(problem))
            return None
