"""Runs builds: the test command in a clean checkout of a commit, a few at a time.

Owns the running tasks and their checkouts. Must not know branches, pull requests or records: it
reports when a build starts and how it ended.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ci.errors import RedSetUpError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from pathlib import Path

    from ci.ports import CommandOutcome, ProviderPorts


T = TypeVar("T")


@dataclass(frozen=True)
class BuildResult:
    """How a build ended; a `broken` one could not be run, which says nothing about the code."""

    passed: bool
    summary: str
    excerpt: str = ""
    broken: bool = False


@dataclass(frozen=True)
class BuildOrder:
    """What to build, and the callbacks for its start and end."""

    build_id: str
    sha: str
    command: str
    started: Callable[[], Awaitable[None]]
    finished: Callable[[BuildResult], Awaitable[None]]


class BuildRunner:
    """Runs at most `max_parallel` builds at once; the others wait in order."""

    def __init__(self, ports: ProviderPorts, *, timeout: float, max_parallel: int) -> None:
        self._repository = ports.repository
        self._commands = ports.commands
        self._logs = ports.folder / "logs"
        self._timeout = timeout
        self._slots: asyncio.LifoQueue[str] = asyncio.LifoQueue()
        for number in range(max_parallel, 0, -1):
            self._slots.put_nowait(f".ci-{number}")
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._closed = False

    async def prepare(self) -> None:
        """Make the folder of the logs."""
        self._logs.mkdir(mode=0o700, parents=True, exist_ok=True)

    def log(self, build_id: str) -> Path:
        """Return the path of a build's log."""
        return self._logs / f"{build_id}.log"

    def start(self, order: BuildOrder) -> None:
        """Run a build in the background; after `aclose` it is left to the next runner."""
        if self._closed:
            return
        task = asyncio.create_task(self._run(order), name=order.build_id)
        self._tasks[order.build_id] = task
        task.add_done_callback(self._forget)

    async def cancel(self, build_id: str) -> None:
        """Stop a build and wait until nothing of it is left; its end is not reported."""
        task = self._tasks.get(build_id)
        if task is not None:
            _cancel_once(task)
            await asyncio.wait((task,))

    async def aclose(self) -> None:
        """Stop all builds and wait until nothing of them is left."""
        self._closed = True
        for task in self._tasks.values():
            _cancel_once(task)
        while self._tasks:
            await asyncio.wait(tuple(self._tasks.values()))

    async def _run(self, order: BuildOrder) -> None:
        slot = await self._slots.get()
        try:
            await order.started()
            # As a value, so that a build whose environment fails still gets an end.
            [outcome] = await asyncio.gather(self._execute(order, slot), return_exceptions=True)
            await order.finished(self._judged(order.command, outcome))
        finally:
            self._slots.put_nowait(slot)

    async def _execute(self, order: BuildOrder, slot: str) -> CommandOutcome:
        folder = await _to_its_end(self._repository.lay_out(order.sha, slot))
        await self._repository.set_up(order.sha, slot)
        return await self._commands.run(
            order.command,
            cwd=folder,
            log=self.log(order.build_id),
            timeout=self._timeout,
            mark=self._mark(order.build_id),
        )

    def _mark(self, build_id: str) -> str:
        # Build ids count from 1 in every repository; the mark has to be unique on the machine.
        place = hashlib.sha256(os.fsencode(self._logs.resolve())).hexdigest()[:16]
        return f"ci-{place}-{build_id}"

    def _judged(self, command: str, outcome: CommandOutcome | BaseException) -> BuildResult:
        if isinstance(outcome, RedSetUpError):
            return BuildResult(passed=False, summary=str(outcome), excerpt=outcome.excerpt)
        if isinstance(outcome, BaseException):
            return BuildResult(
                passed=False,
                broken=True,
                summary=f"the build could not be run ({type(outcome).__name__}: {outcome}); "
                "this says nothing about the commit: fix the cause and rebuild",
            )
        if outcome.timed_out:
            summary = f"`{command}` was stopped after its limit of {self._timeout:g} s"
        elif outcome.code == 0:
            return BuildResult(
                passed=True, summary=f"`{command}` passed in {outcome.seconds:.1f} s"
            )
        else:
            summary = f"`{command}` ended with {outcome.code} after {outcome.seconds:.1f} s"
        return BuildResult(passed=False, summary=summary, excerpt=outcome.excerpt)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks = {key: other for key, other in self._tasks.items() if other is not task}
        if not task.cancelled() and (fault := task.exception()) is not None:
            task.get_loop().call_exception_handler(
                {
                    "message": f"{task.get_name()} could not be brought to its end",
                    "exception": fault,
                    "task": task,
                }
            )


def _cancel_once(task: asyncio.Task[None]) -> None:
    # A second cancellation would interrupt the cleanup of the first one.
    if not task.cancelling():
        task.cancel()


async def _to_its_end(work: Coroutine[Any, Any, T]) -> T:
    # An abandoned thread could still write into the checkout of the next build.
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    finally:
        await asyncio.wait((task,))
