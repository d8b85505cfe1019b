"""Brings the completed work of tasks that an agent was blocked on into its branch.

As for dependencies of the plan: what goes together is merged by the runner, what does not goes to
the agent or to a person, as `on_conflict` says. Doing it again changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.errors import PlanError, StoreError
from lifecycle.machine import events as on
from lifecycle.machine.events import Fault
from lifecycle.setup.agent_workspace import whole
from lifecycle.shortage_retry import fault_of, text_of
from lifecycle.working_copy import BranchHead
from runtime.errors import CheckedOutError, RuntimeFault, WorkspaceError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lifecycle.machine.events import Event
    from lifecycle.services import MachineServices
    from lifecycle.working_copy import LocalCopy


async def join(
    machine: MachineServices, local: LocalCopy, attempt: int, tasks: tuple[str, ...]
) -> Event:
    """Merge the work of those of these tasks that are complete into the agent's branch."""
    try:
        return await _join(machine, local, attempt, tasks)
    except (RuntimeFault, PlanError, StoreError, OSError) as error:
        users = isinstance(error, WorkspaceError) and not isinstance(error, CheckedOutError)
        return on.WorkspaceFailed(
            at=machine.shared.clock.now(),
            attempt=attempt,
            text=text_of(error),
            fault=fault_of(error, Fault.USER if users else Fault.ENVIRONMENT),
        )


async def _join(
    machine: MachineServices, local: LocalCopy, attempt: int, tasks: tuple[str, ...]
) -> Event:
    workspace = await whole(machine, local)
    branches = machine.branches
    base = began = str(local.record.facts.get("base_commit") or workspace.base_commit)
    head = (await machine.workspaces.status(workspace)).head
    held: list[str] = []
    new: dict[str, str] = {}
    apart: dict[str, str] = {}
    files: list[str] = []
    why = ""
    for task in tasks:
        commit = await _work_of(machine, local, task)
        if not commit or not head:
            continue
        below = await _below(machine, base, commit, task)
        if await branches.history.holds(head, commit):
            held.append(task)
            base = below or base
            continue
        message = f"Merge the work of {task}, which {local.task.id} was blocked on"
        made = await branches.join((head, below or commit), message=message)
        if made.commit is None:
            apart[task] = commit
            files += made.conflicts
            why = why or made.reason
        else:
            new[task] = commit
            head, base = made.commit, below or base
    if files and machine.shared.settings().on_conflict == "ask":
        return _refused(machine, local, attempt, apart, files, why)
    moved = await machine.workspaces.move_on(workspace, head, base)
    if moved is None:  # something uncommitted is in the way: the agent knows what it is
        moved, base = workspace, began
        apart, new = {**apart, **new}, {}
    local.workspace, local.head = moved, BranchHead()
    status = await machine.workspaces.status(moved)
    return on.WorkJoined(
        at=machine.shared.clock.now(),
        attempt=attempt,
        tasks=(*held, *new),
        merge=tuple(apart.values()),
        apart=tuple(apart),
        head=status.head,
        base=base,
        tree=status.fingerprint,
    )


async def _work_of(machine: MachineServices, local: LocalCopy, task: str) -> str:
    """Return what a task's completed work is; nothing if there is none, or not yet."""
    if task == local.record.task_id or task not in machine.shared.completed:
        return ""
    return await machine.shared.base_commits.work_of(
        task, str(local.record.facts.get("base_branch", ""))
    )


async def _below(machine: MachineServices, base: str, commit: str, task: str) -> str | None:
    """Return where the agent's own work begins on top of its base and this; None: they conflict."""
    if await machine.branches.history.holds(base, commit):
        return base
    if await machine.branches.history.holds(commit, base):
        return commit
    joined = await machine.branches.join((base, commit), message=f"Join the work of {task}")
    return joined.commit


def _refused(  # noqa: PLR0913, PLR0917  # what was found, in this order
    machine: MachineServices,
    local: LocalCopy,
    attempt: int,
    apart: dict[str, str],
    files: Iterable[str],
    why: str,
) -> on.WorkspaceFailed:
    agent = local.agent_id
    text = (
        f"the work of {', '.join(apart)}, which {local.task.id} was blocked on, does not go "
        f"together with its own: {why}; merge it there by hand and `loopwright resume {agent}`, "
        f"or let an agent do that with `loopwright unblock {agent}`"
    )
    return on.WorkspaceFailed(
        at=machine.shared.clock.now(),
        attempt=attempt,
        text=text,
        fault=Fault.USER,
        conflicts=tuple(dict.fromkeys(files)),
        merge=tuple(apart.values()),
    )
