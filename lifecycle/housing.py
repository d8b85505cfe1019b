"""Where an agent of a case works: its workspace, mended when needed, and its mailbox."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from communication.mailbox import Mailbox
from lifecycle.case import Head, uncommitted
from lifecycle.judging.canary import CANARIES
from lifecycle.machine.states import ITS_BASE
from runtime.errors import RuntimeFault, ShortageError
from runtime.tree import some_of

if TYPE_CHECKING:
    from lifecycle.case import Case
    from lifecycle.parts import Parts
    from lifecycle.ports import Workspaces
    from runtime.begun import BegunMerge
    from runtime.process import ProcessIdentity
    from runtime.saving import SavedWork
    from runtime.tree import TreeStatus
    from runtime.workspace import Workspace

COMMITS_READ = 50
TOO_LARGE = (
    "beyond save_limit_mb, so not saved, and in the workspace alone: {files}; commit what belongs "
    "to the work and remove the rest"
)
GONE_EVERY = 1.0
"""Seconds between two looks at a process that not even KILL ends."""
COMM_FILE = "communications.json"


async def opened(parts: Parts, case: Case) -> Workspace | None:
    """Return the workspace if there is one; ShortageError where nobody can tell just now."""
    if case.workspace is None:
        try:
            case.workspace = await parts.workspaces.open(case.agent_id)
        except ShortageError:
            raise
        except RuntimeFault:
            return None
    return case.workspace


async def whole(parts: Parts, case: Case) -> Workspace:
    """Return the workspace; make it again when somebody destroyed it."""
    workspace = await opened(parts, case)
    if workspace is None or not await parts.workspaces.is_whole(workspace):
        base = case.record.facts.get("base_commit")
        workspace = await parts.workspaces.prepare(case.agent_id, base=str(base) if base else None)
        case.workspace = workspace
    return workspace


async def look_up(
    workspaces: Workspaces, case: Case, workspace: Workspace, status: TreeStatus
) -> None:
    """Remember where the workspace stands; git is asked about a new head, once."""
    case.dirty = uncommitted(status)
    case.hidden = status.hidden
    if case.head.sha != status.head:
        case.head = Head(
            sha=status.head,
            commits=await workspaces.recent_commits(
                workspace, limit=COMMITS_READ, head=status.head
            ),
            files=await workspaces.changed_files(workspace, head=status.head),
        )


async def look_once(parts: Parts, case: Case, workspace: Workspace) -> None:
    """Look where the workspace stands if this runner has not seen it yet."""
    if not case.head.sha:
        status = await parts.workspaces.status(workspace)
        await look_up(parts.workspaces, case, workspace, status)


async def begin(
    parts: Parts, case: Case, workspace: Workspace, wanted: tuple[str, ...]
) -> tuple[BegunMerge, ...]:
    """Begin the first merge of these that is not done; return those that are not."""
    merges = []
    for name in wanted:
        commit = await _to_merge(parts, case) if name == ITS_BASE else name
        if commit is None or not await parts.branches.commit_exists(commit):
            continue
        begun = await parts.workspaces.begin_merge(workspace, commit)
        if begun is not None:
            merges.append(begun)
            # What is uncommitted now is that merge, and no work of an earlier attempt.
            case.head = Head()
    return tuple(merges)


async def _to_merge(parts: Parts, case: Case) -> str | None:
    """Return the newest commit of the branch that the work goes into, a forge's before ours."""
    base = str(case.record.facts.get("base_branch", ""))
    here = await parts.branches.head(base) if base else None
    there = await parts.branches.fetched(base) if base else None
    if here is None or there is None or await parts.branches.history.holds(here, there):
        return here or there
    return there


def mailbox_of(parts: Parts, case: Case, workspace: Workspace) -> Mailbox:
    """Return the mailbox of the agent: the shared one, or the one in its workspace."""
    if case.mailbox is None or case.mailbox[0] is not workspace:
        case.mailbox = workspace, Mailbox(parts.comm_file or workspace.path / COMM_FILE)
    return case.mailbox[1]


async def end(parts: Parts, identity: ProcessIdentity) -> None:
    """End what an earlier runner left of a process; return only when nothing of it is alive."""
    grace = parts.settings().stop_grace
    while True:
        report = await parts.terminals.stop_identity(identity, grace)
        if not report.survivors:
            return
        # It hangs in the kernel; nothing may start beside it.
        await asyncio.sleep(GONE_EVERY)


async def leave(parts: Parts, agent_id: str, attempt: int) -> SavedWork | None:
    """Remove all that a lifecycle had on this machine, after saving what is in no commit."""
    saved = await parts.workspaces.remove(agent_id, drop_branch=True, attempt=attempt)
    await parts.checkouts.remove(agent_id)
    await parts.store.remove(CANARIES, agent_id)
    parts.ports.give_back(agent_id)
    return saved


async def save(
    parts: Parts, workspace: Workspace, attempt: int, reason: str
) -> tuple[str, tuple[str, ...]]:
    """Keep uncommitted work; return the ref it is under, or nothing, and what was left out."""
    saved = await parts.workspaces.save_dirty(workspace, attempt, reason=reason)
    if saved is None:
        return "", ()
    notes = (TOO_LARGE.format(files=some_of(saved.too_large)),) if saved.too_large else ()
    return saved.ref, notes
