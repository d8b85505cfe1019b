"""Where an agent works: its workspace, made again when needed, and its mailbox."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from communication.mailbox import Mailbox
from lifecycle.machine.states import ITS_BASE
from lifecycle.working_copy import BranchHead, uncommitted
from runtime.errors import RuntimeFault, ShortageError
from runtime.git.porcelain import some_of

if TYPE_CHECKING:
    from lifecycle.ports import Branches, Workspaces
    from lifecycle.services import MachineServices
    from lifecycle.working_copy import LocalCopy
    from runtime.git.porcelain import TreeStatus
    from runtime.process import ProcessIdentity
    from runtime.workspace import Workspace
    from runtime.workspaces.begun_merge import BegunMerge

COMMITS_READ = 50
TOO_LARGE = (
    "beyond save_limit_mb, so not saved, and in the workspace alone: {files}; commit what belongs "
    "to the work and remove the rest"
)
GONE_EVERY = 1.0
"""Seconds between two looks at a process that not even KILL ends."""
COMM_FILE = "communications.json"


async def opened(machine: MachineServices, local: LocalCopy) -> Workspace | None:
    """Return the workspace if there is one; ShortageError where nobody can tell just now."""
    if local.workspace is None:
        try:
            local.workspace = await machine.workspaces.open(local.agent_id)
        except ShortageError:
            raise
        except RuntimeFault:
            return None
    return local.workspace


async def whole(machine: MachineServices, local: LocalCopy) -> Workspace:
    """Return the workspace; make it again when somebody destroyed it."""
    workspace = await opened(machine, local)
    if workspace is None or not await machine.workspaces.is_whole(workspace):
        base = local.record.facts.get("base_commit")
        workspace = await machine.workspaces.prepare(
            local.agent_id, base=str(base) if base else None
        )
        local.workspace = workspace
    return workspace


async def look_up(
    workspaces: Workspaces,
    branches: Branches,
    local: LocalCopy,
    workspace: Workspace,
    status: TreeStatus,
) -> None:
    """Remember where the workspace stands; git is asked about a new head, once."""
    local.dirty = uncommitted(status)
    local.hidden = status.hidden
    if local.head.sha != status.head:
        bases = await _bases(branches, local) if status.head != workspace.base_commit else ()
        known = tuple(each for each in bases if each is not None)
        local.head = BranchHead(
            sha=status.head,
            commits=await workspaces.recent_commits(
                workspace, limit=COMMITS_READ, head=status.head
            ),
            files=await workspaces.changed_files(workspace, head=status.head, bases=known),
        )


async def look_once(machine: MachineServices, local: LocalCopy, workspace: Workspace) -> None:
    """Look where the workspace stands if this runner has not seen it yet."""
    if not local.head.sha:
        status = await machine.workspaces.status(workspace)
        await look_up(machine.workspaces, machine.branches, local, workspace, status)


async def begin(
    machine: MachineServices, local: LocalCopy, workspace: Workspace, wanted: tuple[str, ...]
) -> tuple[BegunMerge, ...]:
    """Begin the first merge of these that is not done; return those that are not."""
    merges = []
    for name in wanted:
        commit = await _to_merge(machine, local) if name == ITS_BASE else name
        if commit is None or not await machine.branches.commit_exists(commit):
            continue
        begun = await machine.workspaces.begin_merge(workspace, commit)
        if begun is not None:
            merges.append(begun)
            # What is uncommitted now is that merge, and no work of an earlier attempt.
            local.head = BranchHead()
    return tuple(merges)


async def _to_merge(machine: MachineServices, local: LocalCopy) -> str | None:
    """Return the newest commit of the branch that the work goes into, a forge's before ours."""
    here, there = await _bases(machine.branches, local)
    if here is None or there is None or await machine.branches.history.holds(here, there):
        return here or there
    return there


async def _bases(branches: Branches, local: LocalCopy) -> tuple[str | None, str | None]:
    """Return where the branch is that the work goes into, here and at a forge when last fetched."""
    base = str(local.record.facts.get("base_branch", ""))
    if not base:
        return None, None
    return await branches.head(base), await branches.fetched(base)


def mailbox_of(machine: MachineServices, local: LocalCopy, workspace: Workspace) -> Mailbox:
    """Return the mailbox of the agent: the shared one, or the one in its workspace."""
    if local.mailbox is None or local.mailbox[0] is not workspace:
        local.mailbox = workspace, Mailbox(machine.comm_file or workspace.path / COMM_FILE)
    return local.mailbox[1]


async def end(machine: MachineServices, identity: ProcessIdentity) -> None:
    """End what an earlier runner left of a process; return only when nothing of it is alive."""
    grace = machine.shared.settings().stop_grace
    while True:
        report = await machine.terminals.stop_identity(identity, grace)
        if not report.survivors:
            return
        # It hangs in the kernel; nothing may start beside it.
        await asyncio.sleep(GONE_EVERY)


async def save(
    machine: MachineServices, workspace: Workspace, attempt: int, reason: str
) -> tuple[str, tuple[str, ...]]:
    """Keep uncommitted work; return the ref it is under, or nothing, and what was left out."""
    saved = await machine.workspaces.save_dirty(workspace, attempt, reason=reason)
    if saved is None:
        return "", ()
    notes = (TOO_LARGE.format(files=some_of(saved.too_large)),) if saved.too_large else ()
    return saved.ref, notes
