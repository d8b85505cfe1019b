"""Makes a plan of what a list holds: ids, order, dependencies, and where each task came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from lifecycle.errors import PlanError
from lifecycle.plan import Plan, Task
from orchestrator.config.plans import TITLE_LENGTH, too_long
from orchestrator.tasks.ids import task_id_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchestrator.tasks.found import FoundTask, FoundTasks


DEFERRED = "deferred"
WAITING = "waiting for deferred ones"


@dataclass(frozen=True, slots=True)
class PlannedTasks:
    """A plan that was made of a list, and what there is to say about it."""

    plan: Plan
    form: str
    left_out: Mapping[str, int]
    """How many tasks are not in it, by why."""
    branch: str = ""
    """The branch that the list names for its work."""
    lines: Mapping[str, int] | None = None
    """Where the tasks stand, by their ids."""

    @property
    def said(self) -> str:
        """What was read, in one line."""
        count = len(self.plan.tasks)
        over = [f"{many} {why} and left out" for why, many in sorted(self.left_out.items())]
        return ", ".join([f"{count} {'task' if count == 1 else 'tasks'} to do", *over])


def plan_of(  # noqa: PLR0913  # the last by name
    found: FoundTasks,
    *,
    name: str,
    where: str,
    sources: Sequence[str],
    base: str | None = None,
    in_order: bool = False,
) -> PlannedTasks:
    """Return the plan of all that is open; PlanError says what cannot be planned.

    `sources` says of each task where it came from.
    """
    ids = _ids(found.tasks, where)
    origin = dict(zip(ids.values(), sources, strict=True))
    open_ones = [each for each in found.tasks if not each.left_out]
    if any(each.priority is not None for each in open_ones) and not in_order:
        last = max((each.priority for each in open_ones if each.priority is not None), default=0.0)
        open_ones.sort(key=lambda each: last if each.priority is None else each.priority)
    waits = _waits(open_ones, in_order=in_order, by_priority=found.by_priority)
    closed = {each.key for each in found.tasks if each.left_out}
    held = _held(found.tasks, waits)
    open_ones = [each for each in open_ones if each.key not in held]
    tasks = []
    for each in open_ones:
        needed = waits[each.key]
        if unknown := [key for key in needed if key not in ids]:
            raise PlanError(
                f"{where}:{each.line}: {each.key} depends on {unknown[0]}, which is not in the list"
            )
        after = tuple(dict.fromkeys(ids[key] for key in needed if key not in closed))
        tasks.append(_task(each, ids[each.key], after, origin[ids[each.key]], base, where))
    try:
        plan = Plan(tasks=tasks, name=name[:200] or "tasks")
    except ValidationError as problem:
        text = str(problem.errors()[0]["msg"]).removeprefix("Value error, ")
        raise PlanError(f"{where}: {text}") from problem
    left_out: dict[str, int] = {}
    for each in found.tasks:
        if each.left_out:
            left_out[each.left_out] = left_out.get(each.left_out, 0) + 1
    if held:
        left_out[WAITING] = len(held)
    lines = {ids[each.key]: each.line for each in open_ones}
    return PlannedTasks(plan, found.form, left_out, found.branch, lines)


def _held(tasks: Sequence[FoundTask], waits: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Return the keys of the open tasks that wait for one which is put off, also by others."""
    held = {each.key for each in tasks if each.left_out == DEFERRED}
    first, count = set(held), -1
    while len(held) != count:
        count = len(held)
        held |= {key for key, needed in waits.items() if held.intersection(needed)}
    return held - first


def _ids(tasks: Sequence[FoundTask], where: str) -> dict[str, str]:
    """Return the id of each task by its key."""
    ids: dict[str, str] = {}
    lines: dict[str, int] = {}
    for task in tasks:
        if task.key in ids:
            raise PlanError(
                f"{where}:{task.line}: {task.key} stands for another task in line "
                f"{lines[task.key]}; give one of them another id"
            )
        made = task_id_of(task.key, is_id=task.has_id)
        number = 2
        while made in ids.values():
            made, number = f"{task_id_of(task.key, is_id=task.has_id)}-{number}", number + 1
        ids[task.key], lines[task.key] = made, task.line
    return ids


def _waits(
    tasks: Sequence[FoundTask], *, in_order: bool, by_priority: bool
) -> dict[str, tuple[str, ...]]:
    """Return the keys that each task waits for."""
    waits = {each.key: each.depends_on for each in tasks}
    if in_order:
        return {
            each.key: tuple(dict.fromkeys((*each.depends_on, *before)))
            for each, before in zip(tasks, [(), *((one.key,) for one in tasks)], strict=False)
        }
    if by_priority and all(each.priority is not None for each in tasks):
        steps = sorted({each.priority for each in tasks if each.priority is not None})
        for each in tasks:
            at = steps.index(each.priority) if each.priority is not None else 0
            waits[each.key] = tuple(
                one.key for one in tasks if at and one.priority == steps[at - 1]
            )
    return waits


def _task(  # noqa: PLR0913, PLR0917  # the parts of a task
    found: FoundTask,
    task_id: str,
    after: tuple[str, ...],
    source: str,
    base: str | None,
    where: str,
) -> Task:
    title = " ".join(found.title.split())
    short = title if len(title) <= TITLE_LENGTH else f"{title[: TITLE_LENGTH - 3].rstrip()}..."
    whole = [title] if short != title else []
    if found.description and found.description != title:
        whole.append(found.description)
    try:
        task = Task(
            id=task_id,
            title=short,
            description="\n\n".join(whole),
            dependencies=after,
            acceptance=found.acceptance,
            tags=found.tags,
            issue=found.issue,
            base=base,
            source=source,
        )
    except ValidationError as problem:
        text = str(problem.errors()[0]["msg"]).removeprefix("Value error, ")
        raise PlanError(f"{where}:{found.line}: {found.key}: {text}") from problem
    if wrong := too_long(task):
        raise PlanError(f"{where}:{found.line}: {wrong}")
    return task
