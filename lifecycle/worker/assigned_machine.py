"""What a machine has, for one assignment: what all machines share comes by value.

Settings, dependencies and names of tasks are those of the assignment. The store is the worker's
own, for what only a machine needs to remember. Must not ask the coordinator for anything.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lifecycle.base_commits import BaseCommits, StartingPoint
from lifecycle.errors import LifecycleError
from lifecycle.judging.code_origin import finder
from lifecycle.launch.sandbox import SandboxedCommands
from lifecycle.plan import PlanMark
from lifecycle.setup.plans import APPROVED
from runtime.process import TerminalManager

if TYPE_CHECKING:
    from lifecycle.plan import Task
    from lifecycle.services import MachineServices
    from lifecycle.worker.assignment import Assignment


class AssignedCommits(BaseCommits):
    """The commits to start from, as the coordinator found them in other lifecycles."""

    def __init__(self, machine: MachineServices, assignment: Assignment) -> None:
        super().__init__(machine.shared.store, machine.branches)
        self._assignment = assignment

    async def task_named(self, name: str) -> str:
        """Return the task that this names; nothing for a word of which we were not told."""
        told = self._assignment.tasks
        return name if name in told.values() else told.get(name, "")

    async def start_of(self, task: Task) -> StartingPoint:
        """Return where to start from; LifecycleError where work had begun when it was assigned."""
        facts = self._assignment.copy.record.facts
        if (start := self._assignment.start) is not None:
            return start
        if base := facts.get("base_commit"):
            return StartingPoint(str(base))
        raise LifecycleError(f"the assignment of {task.id} does not say where its work starts from")

    async def work_of(self, task_id: str, into: str) -> str:
        """Return the commit that brings the work of a completed task; nothing if there is none."""
        del into
        return self._assignment.work.get(task_id, "")

    async def target_of(self, task: Task) -> str:
        """Return the branch that the work goes into at the end."""
        del task
        return self._assignment.target


async def assigned(machine: MachineServices, assignment: Assignment) -> MachineServices:
    """Return what the machine has, for this assignment."""
    settings = assignment.read_settings()
    for key, commit in assignment.approved.items():
        await machine.shared.store.put(APPROVED, key, {"commit": commit})
    shared = replace(
        machine.shared,
        settings=lambda: settings,
        base_commits=AssignedCommits(machine, assignment),
        completed=dict(assignment.completed),
        plans=dict.fromkeys(assignment.tasks.values(), PlanMark()),
        running={},
        ci=None,
    )
    mine = replace(machine, shared=shared)
    if isinstance(machine.commands, SandboxedCommands):
        mine.commands = machine.commands.going_by(shared.settings)
    if isinstance(machine.terminals, TerminalManager):
        mine.other_code = finder(machine.repo, machine.paths, machine.terminals, shared.settings)
    return mine
