"""Reads a plan again while its tasks run: what is new begins, what has begun goes on.

Owns what follows from a changed file. What an agent's commit changed of commands, gates, agents and
budgets does not count before a person approved it, as at the start.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lifecycle.errors import LifecycleError
from lifecycle.machine import events as on
from lifecycle.machine.states import Queued, Suspended
from orchestrator.approval.restricting_values import name_of
from orchestrator.config.plans import agent_for, load_plan
from orchestrator.errors import OrchestratorError
from orchestrator.runner.job_selection import of_plan, within_budgets
from orchestrator.runner.workload import PlanChanges
from runtime.errors import RuntimeFault
from runtime.git.porcelain import some_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from lifecycle.engine.engine import LocalEngine
    from lifecycle.plan import Plan
    from lifecycle.settings import Settings
    from lifecycle.store.damaged_records import Damaged
    from orchestrator.approval.approvals import Approvals
    from orchestrator.runner.workload import Job, PlanLoops

LOOK_EVERY = 0.5
"""Seconds between two looks; a file that changed is read when it is the same at the next one."""
NEW, CHANGED, OUT = "new", "changed", "taken out"
BEGUN = "changed, but has begun and goes on as it was"
LEFT = "not in the plan any more, but has begun and goes on"
PAUSED = "new, but paused by a person"
_TOLD = (LifecycleError, OrchestratorError, RuntimeFault, OSError)
"""What goes wrong in a way that people can do something about."""
_File = tuple[int, int, int] | None
_State = tuple[_File, frozenset[str]]


def changes_of(before: Plan, after: Plan, settings: Settings) -> PlanChanges:
    """Compare two readings of a plan: tasks, who works on each, and what all may use."""
    old = {task.id: (task, agent_for(task, before, settings)) for task in before.tasks}
    new = {task.id: (task, agent_for(task, after, settings)) for task in after.tasks}
    marked = before.mark() != after.mark()
    return PlanChanges(
        added=tuple(each for each in new if each not in old),
        changed=tuple(each for each in new if each in old and (marked or new[each] != old[each])),
        removed=tuple(each for each in old if each not in new),
    )


class PlanReload:
    """One plan file beside the loops that run its tasks."""

    def __init__(self, engine: LocalEngine, path: Path, plan: Plan, approvals: Approvals) -> None:
        self._engine, self._path, self._plan, self._approvals = engine, path, plan, approvals
        self._alone = asyncio.Lock()
        self._seen = self._before = self._state()

    async def watch(self, loops: PlanLoops) -> None:
        """Look again and again, until this is cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            async with self._alone:
                state = self._state()
                is_written = state == self._before
                self._before = state
                if is_written and state != self._seen:
                    await self._read(loops)

    async def look(self, loops: PlanLoops) -> None:
        """Take up what changed since the last look, before the loops end for good."""
        async with self._alone:
            if self._state() != self._seen:
                await self._read(loops)

    def _state(self) -> _State:
        """Return what changes with the file, and with what a person approved of it."""
        self._engine.shared.settings()  # which looks for approvals, too
        held = frozenset(
            cell for cell in self._approvals.held if self._path.match(name_of(cell)[0])
        )
        return self._file(), held

    def _file(self) -> _File:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    async def _read(self, loops: PlanLoops) -> None:
        """Read the file; one that cannot be run is told once, and the loaded one stays."""
        settings = self._engine.shared.settings()
        damaged: dict[str, Damaged] = {}
        file = self._file()
        try:
            plan = load_plan(self._path, self._approvals)
            changes = changes_of(self._plan, plan, settings)
            jobs = await of_plan(self._engine, plan, settings, damaged)
            within_budgets(self._engine, jobs.values(), (), settings, None)
        except _TOLD as problem:
            loops.note(f"{problem}; the plan as it was read before goes on")
            return
        finally:
            self._seen = file, self._state()[1]  # what was written meanwhile is read next
        self._plan = plan
        told = dict[str, list[str]]()
        try:
            async for task_id, what in self._applied(changes, jobs.values(), loops):
                told.setdefault(what, []).append(task_id)
            await loops.plan_read(plan.name, changes)
        except _TOLD as problem:
            loops.note(f"{self._path.name}: {problem}")
        if text := "; ".join(f"{some_of(ids)}: {what}" for what, ids in told.items() if what):
            loops.note(f"{self._path.name} was read again: {text}")

    async def _applied(
        self, changes: PlanChanges, jobs: Iterable[Job], loops: PlanLoops
    ) -> AsyncIterator[tuple[str, str]]:
        """Carry the changes out; yields what became of each task, empty where nothing did."""
        of_task = {job.task.id: job for job in jobs}
        for task_id in changes.removed:
            out = await self._withdrawn(task_id, loops, keeps_words=False)
            yield task_id, OUT if out else LEFT if self._runs(task_id) else ""
        for task_id in changes.changed:
            again = await self._withdrawn(task_id, loops, keeps_words=True)
            if again and task_id in of_task:
                loops.start(of_task[task_id])
            yield task_id, CHANGED if again else BEGUN if self._runs(task_id) else ""
        for task_id in changes.added:
            if (job := of_task.get(task_id)) is not None:
                record = await self._engine.shared.store.get(job.agent.agent_id)
                held = record is not None and isinstance(record.work, Suspended)
                if not held:
                    loops.start(job)
                yield task_id, PAUSED if held else NEW

    def _runs(self, task_id: str) -> bool:
        return task_id in self._engine.shared.running.values()

    async def _withdrawn(self, task_id: str, loops: PlanLoops, *, keeps_words: bool) -> bool:
        """Take back a task that has not begun; False for one that has.

        Its record goes, as nothing was done: unless a person's words to it are to be kept.
        """
        shared, store = self._engine.shared, self._engine.shared.store
        record = await shared.base_commits.of_task(task_id)
        if record is None:
            return task_id not in shared.completed  # else it was accepted long ago
        if not isinstance(record.work, Queued) or not shared.one_machine:
            return False  # of several machines another one may take it this moment
        agent_id = record.agent_id
        ran = await loops.stop(agent_id)
        record = await store.get(agent_id)
        if record is not None and not isinstance(record.work, Queued):  # it began just now
            if ran is not None:
                loops.start(ran)
            return False
        journal = await store.journal(agent_id) if keeps_words else ()
        if not any(isinstance(entry.event, on.PersonEvent) for entry in journal):
            await store.delete(agent_id)
        loops.forget(agent_id)
        return True
