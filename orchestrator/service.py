"""Runs loops in one process until each has ended: one task, or all of a plan.

Owns who is run, what a person's signal or request starts and ends, and what comes out of it. One
loop that ends, however it ends, never disturbs the others.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lifecycle.case import load
from lifecycle.machine.states import Suspended
from lifecycle.result import LoopResult, LoopResultType, broken
from orchestrator.cli import exits
from orchestrator.heed import Heed
from orchestrator.prdesk import Desk

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from ci.local import LocalCIProvider
    from lifecycle.engine import Engine
    from lifecycle.loop import AgentLifecycleLoop
    from lifecycle.plan import Agent, Task
    from lifecycle.record import AgentLifecycle
    from orchestrator.view import View

WORST_FIRST = (
    exits.INTERNAL_ERROR,
    exits.FAILED,
    exits.LIMIT_REACHED,
    exits.BLOCKED,
    exits.WAITING_OUTSIDE,
    exits.COMPLETE,
)
"""Of several loops the first of these counts that any of them has; a signal comes before all."""

_CODES = {
    LoopResultType.TASK_COMPLETE: exits.COMPLETE,
    LoopResultType.BLOCKED: exits.BLOCKED,
    LoopResultType.PR_CREATED: exits.WAITING_OUTSIDE,
    LoopResultType.MAX_RETRIES: exits.LIMIT_REACHED,
    LoopResultType.ERROR: exits.FAILED,
    # Without a signal a loop is shut down only by a person who stopped or paused it.
    LoopResultType.SHUTDOWN: exits.BLOCKED,
}


@dataclass(frozen=True, slots=True)
class Job:
    """One loop to run."""

    agent: Agent
    task: Task


@dataclass(frozen=True, slots=True)
class Work:
    """What to run, and which lifecycles a person holds."""

    jobs: tuple[Job, ...]
    held: tuple[AgentLifecycle, ...] = ()


@dataclass(slots=True)
class Ending:
    """How all of it ended."""

    results: dict[str, LoopResult] = field(default_factory=dict)
    records: dict[str, AgentLifecycle] = field(default_factory=dict)
    held: tuple[AgentLifecycle, ...] = ()
    defects: dict[str, str] = field(default_factory=dict)
    signal_code: int = 0

    @property
    def exit_code(self) -> int:
        """What the shell is told."""
        if self.signal_code:
            return self.signal_code
        codes = {code_of(result) for result in self.results.values()}
        if self.held:
            codes.add(exits.BLOCKED)
        if self.defects:
            codes.add(exits.INTERNAL_ERROR)
        return next((code for code in WORST_FIRST if code in codes), exits.COMPLETE)


def code_of(result: LoopResult) -> int:
    """Return the exit code of one loop."""
    return _CODES[result.result_type]


class Service:
    """The loops of one call of `run` or `up`."""

    def __init__(self, engine: Engine, view: View, heed: Heed, *, revives: bool) -> None:
        self._engine = engine
        self._view = view
        self._heed = heed
        self._running: dict[asyncio.Task[LoopResult], str] = {}
        self._changed = asyncio.Event()
        self.ending = Ending()
        if revives:
            engine.revive = self._revive

    async def run(self, jobs: Sequence[Job]) -> None:
        """Run them all to their ends, and what people revive meanwhile."""
        for job in jobs:
            self._start(job.agent.agent_id, self._engine.run(job.agent, job.task))
        try:
            while self._running:
                await self._changed.wait()
                self._changed.clear()
                for running in [each for each in self._running if each.done()]:
                    await self._settle(self._running.pop(running), running)
        finally:
            # What is asked for from now on is for the next runner.
            self._engine.revive = None

    def _start(self, agent_id: str, loop: Coroutine[object, object, LoopResult]) -> None:
        running = asyncio.get_running_loop().create_task(loop, name=f"loop of {agent_id}")
        running.add_done_callback(lambda _: self._changed.set())
        self._running[running] = agent_id

    async def _settle(self, agent_id: str, running: asyncio.Task[LoopResult]) -> None:
        record = await self._engine.parts.store.get(agent_id)
        if record is None and running.exception() is None:
            # Accepted long ago, and retired just now.
            self.ending.results[agent_id] = running.result()
            return
        if record is None:
            self.ending.defects[agent_id] = f"{running.exception() or 'its record is gone'}"
            self._view.note(f"its loop could not run: {self.ending.defects[agent_id]}", agent_id)
            return
        problem = running.exception()
        if problem is None:
            self.ending.defects.pop(agent_id, None)
            self.ending.results[agent_id] = running.result()
        else:
            text = f"{type(problem).__name__}: {problem}"
            self.ending.defects[agent_id] = text
            self.ending.results[agent_id] = broken(record, text)
            self._view.note(f"its loop was ended by an error of the runner: {text}", agent_id)
        self.ending.records[agent_id] = record
        self._view.over(record)

    def _revive(self, record: AgentLifecycle) -> None:
        if self._heed.number or isinstance(record.work, Suspended):
            return
        if any(name == record.agent_id and not task.done() for task, name in self._running.items()):
            # An earlier request revived it a moment ago.
            return
        self._start(record.agent_id, self._run_again(record))

    async def _run_again(self, record: AgentLifecycle) -> LoopResult:
        case = await load(self._engine.parts.store, record)
        return await self._engine.run(case.agent, case.task)


async def conduct(
    loop: AgentLifecycleLoop,
    work: Callable[[Engine], Awaitable[Work]],
    *,
    view: View,
    provider: LocalCIProvider,
    revives: bool,
) -> Ending:
    """Open the repository, run what there is to run, and leave nothing behind.

    `work` is asked once the repository is ours. RepositoryBusyError names another runner.
    """
    with Heed(view.note) as heed:
        try:
            async with loop.opened() as engine:
                view.attach(engine)
                heed.attach(engine)
                service = Service(engine, view, heed, revives=revives)
                given = await work(engine)
                async with Desk(engine.parts.store, provider, view.note):
                    await service.run(given.jobs)
                # What a person asked for at the last moment shows in the records.
                ending = service.ending
                for agent_id in ending.results:
                    record = await engine.parts.store.get(agent_id)
                    if record is not None:
                        ending.records[agent_id] = record
                ending.held = tuple(
                    record for record in given.held if record.agent_id not in ending.results
                )
        finally:
            await view.close()
        shut_down = any(
            result.result_type is LoopResultType.SHUTDOWN for result in ending.results.values()
        )
        if heed.number and (shut_down or not ending.results):
            ending.signal_code = heed.exit_code
        return ending
