"""Brings the completed work of tasks that an agent was blocked on into its branch.

As for dependencies of the plan: what goes together is merged by the runner, what does not goes to
the agent or to a person, as `on_conflict` says. Doing it again changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.case import Head
from lifecycle.errors import PlanError, StoreError
from lifecycle.housing import whole
from lifecycle.machine import events as on
from lifecycle.machine.events import Fault
from lifecycle.shortfall import fault_of, text_of
from runtime.errors import CheckedOutError, RuntimeFault, WorkspaceError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lifecycle.case import Case
    from lifecycle.machine.events import Event
    from lifecycle.parts import Parts


async def join(parts: Parts, case: Case, attempt: int, tasks: tuple[str, ...]) -> Event:
    """Merge the work of those of these tasks that are complete into the agent's branch."""
    try:
        return await _join(parts, case, attempt, tasks)
    except (RuntimeFault, PlanError, StoreError, OSError) as error:
        users = isinstance(error, WorkspaceError) and not isinstance(error, CheckedOutError)
        return on.WorkspaceFailed(
            at=parts.clock.now(),
            attempt=attempt,
            text=text_of(error),
            fault=fault_of(error, Fault.USER if users else Fault.ENVIRONMENT),
        )


async def _join(parts: Parts, case: Case, attempt: int, tasks: tuple[str, ...]) -> Event:
    workspace = await whole(parts, case)
    branches = parts.branches
    base = began = str(case.record.facts.get("base_commit") or workspace.base_commit)
    head = (await parts.workspaces.status(workspace)).head
    held: list[str] = []
    new: dict[str, str] = {}
    apart: dict[str, str] = {}
    files: list[str] = []
    why = ""
    for task in tasks:
        commit = await _work_of(parts, case, task)
        if not commit or not head:
            continue
        below = await _below(parts, base, commit, task)
        if await branches.history.holds(head, commit):
            held.append(task)
            base = below or base
            continue
        message = f"Merge the work of {task}, which {case.task.id} was blocked on"
        made = await branches.join((head, below or commit), message=message)
        if made.commit is None:
            apart[task] = commit
            files += made.conflicts
            why = why or made.reason
        else:
            new[task] = commit
            head, base = made.commit, below or base
    if files and parts.settings().on_conflict == "ask":
        return _refused(parts, case, attempt, apart, files, why)
    moved = await parts.workspaces.move_on(workspace, head, base)
    if moved is None:  # something uncommitted is in the way: the agent knows what it is
        moved, base = workspace, began
        apart, new = {**apart, **new}, {}
    case.workspace, case.head = moved, Head()
    status = await parts.workspaces.status(moved)
    return on.WorkJoined(
        at=parts.clock.now(),
        attempt=attempt,
        tasks=(*held, *new),
        merge=tuple(apart.values()),
        apart=tuple(apart),
        head=status.head,
        base=base,
        tree=status.fingerprint,
    )


async def _work_of(parts: Parts, case: Case, task: str) -> str:
    """Return what a task's completed work is; nothing if there is none, or not yet."""
    if task == case.record.task_id or task not in parts.completed:
        return ""
    return await parts.bases.work_of(task, str(case.record.facts.get("base_branch", "")))


async def _below(parts: Parts, base: str, commit: str, task: str) -> str | None:
    """Return where the agent's own work begins on top of its base and this; None: they conflict."""
    if await parts.branches.history.holds(base, commit):
        return base
    if await parts.branches.history.holds(commit, base):
        return commit
    joined = await parts.branches.join((base, commit), message=f"Join the work of {task}")
    return joined.commit


def _refused(  # noqa: PLR0913, PLR0917  # what was found, in this order
    parts: Parts,
    case: Case,
    attempt: int,
    apart: dict[str, str],
    files: Iterable[str],
    why: str,
) -> on.WorkspaceFailed:
    agent = case.agent_id
    text = (
        f"the work of {', '.join(apart)}, which {case.task.id} was blocked on, does not go "
        f"together with its own: {why}; merge it there by hand and `loopwright resume {agent}`, "
        f"or let an agent do that with `loopwright unblock {agent}`"
    )
    return on.WorkspaceFailed(
        at=parts.clock.now(),
        attempt=attempt,
        text=text,
        fault=Fault.USER,
        conflicts=tuple(dict.fromkeys(files)),
        merge=tuple(apart.values()),
    )
