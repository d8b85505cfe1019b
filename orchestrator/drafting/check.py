"""Whether a draft is a plan that can be run: its form, its ids, its dependencies, its gates.

A draft holds tasks and their words. Programs, limits and types of agents are a person's to choose.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.errors import PlanError
from orchestrator.config.plans import plan_in
from orchestrator.drafting.draft_task import FILE
from orchestrator.drafting.gate_programs import cannot_start
from orchestrator.terminal.text import one_line

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from lifecycle.plan import Plan, Task

_OF_PLAN = frozenset({"name", "tasks"})
_OF_TASK = frozenset({"id", "title", "description", "dependencies", "acceptance", "verify", "tags"})


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a draft has to fit."""

    files: Collection[str] = ()
    """Of the commit that it was drafted on."""
    taken: Collection[str] = ()
    """Ids that stand for other tasks."""
    has_setup: bool = False
    """Whether a set-up may bring programs that are not there yet."""

    def has(self, program: str) -> bool:
        """Tell whether a gate can find a program."""
        if "/" not in program:
            return shutil.which(program) is not None or self.has_setup
        if program.startswith("/"):
            return shutil.which(program) is not None
        return program.removeprefix("./") in self.files or self.has_setup


@dataclass(frozen=True, slots=True)
class CheckedDraft:
    """A draft, the plan that it is, and what is wrong with it."""

    text: str
    plan: Plan | None = None
    """None where it is no plan."""
    problems: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether it can be run as it is."""
        return self.plan is not None and not self.problems


def checked(text: str, around: Surroundings) -> CheckedDraft:
    """Check a draft; problems name the line, the task or the command."""
    try:
        plan = plan_in(Path(FILE), text)
    except PlanError as problem:
        return CheckedDraft(text, None, (str(problem),))
    foreign = tuple(_foreign(plan))
    if foreign:
        return CheckedDraft(text, None, foreign)
    return CheckedDraft(text, plan, tuple(_unfit(plan, around)))


def _foreign(plan: Plan) -> Iterator[str]:
    """Return what a draft may not say."""
    for name in sorted(plan.model_fields_set - _OF_PLAN):
        yield f"`{name}` is not for a draft: it holds [[tasks]] and a name"
    for task in plan.tasks:
        for name in sorted(task.model_fields_set - _OF_TASK):
            yield f"task {task.id}: `{name}` is not for a draft"


def _unfit(plan: Plan, around: Surroundings) -> Iterator[str]:
    for task in plan.tasks:
        if task.id in around.taken:
            yield f"task {task.id}: this id stands for another task here; give it another one"
        if not (task.title or task.description):
            yield f"task {task.id}: it has neither a title nor a description"
        yield from _gates_of(task, around)


def _gates_of(task: Task, around: Surroundings) -> Iterator[str]:
    for command in task.verify:
        if problem := cannot_start(command, around.has):
            yield f"task {task.id}, verify `{one_line(command, 80)}`: {problem}"
