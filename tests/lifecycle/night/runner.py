"""One runner of a night: whose loops it runs, and whose again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lifecycle.machine.states import About, AwaitingHuman
from lifecycle.result import ended

if TYPE_CHECKING:
    from lifecycle.clock import SteppedClock
    from lifecycle.engine.engine import LocalEngine
    from lifecycle.record import AgentLifecycle
    from lifecycle.result import LoopResult
    from lifecycle.services import MachineServices
    from lifecycle.store.sqlite.store import SqliteStore
    from tests.lifecycle.night.script import Job, Night


class Runner:
    """One runner's loops: who is run, and again."""

    def __init__(self, engine: LocalEngine, night: Night) -> None:
        self.engine, self._night = engine, night
        self.runs: dict[str, asyncio.Task[LoopResult]] = {}
        self._jobs = {job.agent.agent_id: job for job in night.jobs}
        self._revived: list[str] = []
        engine.revive = lambda record: self._revived.append(record.agent_id)

    async def begin(self, store: SqliteStore) -> None:
        """Run everybody who is not at the end."""
        await self.engine.start()
        for job in self._night.jobs:
            record = await store.get(job.agent.agent_id)
            if record is None or _goes_on(record):
                self.run(job)
            elif _is_given_up(record):
                # So that those that depend on it hear of it, once they listen.
                self._revived.append(job.agent.agent_id)

    def run(self, job: Job, *, resume: bool = False) -> None:
        """Run the loop of one agent."""
        run = self.engine.run(job.agent, job.task, resume=resume)
        self.runs[job.agent.agent_id] = asyncio.get_running_loop().create_task(run)

    def let_go(self) -> None:
        """Close what the system closes of a process that died."""
        for agent_id in self._jobs:
            watch = self.engine.performer.attempt_watch(agent_id)
            if watch is not None:
                watch.close()

    def collect(self) -> bool:
        """Let go of the loops that ended; tell whether one that was given up runs again."""
        for agent_id, run in tuple(self.runs.items()):
            if run.done() and not run.cancelled() and run.exception() is None:
                del self.runs[agent_id]
        again = [agent_id for agent_id in self._revived if agent_id not in self.runs]
        self._revived.clear()
        for agent_id in again:
            self.run(self._jobs[agent_id])
        return bool(again)


def _goes_on(record: AgentLifecycle) -> bool:
    work = record.work
    waits = isinstance(work, AwaitingHuman) and work.about is About.DEPENDENCY
    return waits or ended(record) is None


def _is_given_up(record: AgentLifecycle) -> bool:
    return isinstance(record.work, AwaitingHuman) and not _goes_on(record)


def left_over(machine: MachineServices, clock: SteppedClock, night: Night) -> list[str]:
    """Say what a runner holds after its end: places, or attempts that its accounts count on."""
    found = []
    for job in night.jobs:
        agent_id = job.agent.agent_id
        if machine.shared.slots.holds(agent_id) or machine.shared.slots.waiting(agent_id):
            found.append(f"{agent_id} holds a place, or waits for one, after the end")
    names = {job.plan.name for job in night.jobs}
    before = {name: machine.shared.accounts.spent(plan=name).seconds for name in names}
    clock.advance(1000.0)
    return found + [
        f"the accounts count on an attempt of plan {name} after the end"
        for name in sorted(names)
        if machine.shared.accounts.spent(plan=name).seconds != before[name]
    ]
