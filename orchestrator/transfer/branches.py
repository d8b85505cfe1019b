"""What an import does to the branches of this clone: found out first, done at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.transfer.document import ImportRefusedError
from runtime.git.ownership import BASE_REFS, BRANCH_REFS, SAVED_REFS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from orchestrator.transfer.document import ExportedLifecycle
    from runtime.git.branch_transfer import BranchTransfer
    from runtime.workspace import WorkspaceManager


@dataclass(slots=True)
class BranchPlan:
    """Which refs change, and what could not come along."""

    changes: dict[str, tuple[str, str]] = field(default_factory=dict)
    """What each was (empty: none), and what it is to be."""
    forward: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Agents with a workspace here, the head it goes on from and where its work began."""
    notes: list[str] = field(default_factory=list)


class BranchImport:
    """The branches that come with lifecycles."""

    def __init__(self, branches: BranchTransfer, workspaces: WorkspaceManager) -> None:
        self._branches, self._workspaces = branches, workspaces

    async def plan(
        self, lifecycles: Sequence[ExportedLifecycle], bundle: Path | None, *, unpacked: bool
    ) -> BranchPlan:
        """Find out what changes; ImportRefusedError if a commit is lacking or in the way."""
        wanted = {commit for each in lifecycles for commit in each.refs.values()}
        lacking = await self._branches.lacking(wanted)
        brought = frozenset[str]()
        if bundle is not None and not unpacked:
            brought = await self._branches.brings(bundle)
        plan, there = BranchPlan(), await self._branches.refs()
        for each in lifecycles:
            here = there.get(each.agent_id, {})
            for ref, commit in each.refs.items():
                if commit in lacking - brought:
                    self._lacks(plan, each.agent_id, ref, commit)
                elif ref not in here:
                    plan.changes[ref] = ("", commit)
                elif here[ref] != commit and commit not in lacking:
                    await self._moves(plan, each, ref, here[ref])
        return plan

    def _lacks(self, plan: BranchPlan, agent_id: str, ref: str, commit: str) -> None:
        if ref.startswith(SAVED_REFS):
            plan.notes.append(
                f"{ref} ({commit[:12]}, uncommitted work that was saved) is not in this clone, and "
                "stays where it is; `loopwright export --with-branches` brings it along"
            )
            return
        branch = BRANCH_REFS.removeprefix("refs/heads/") + agent_id
        raise ImportRefusedError(
            f"commit {commit[:12]} of {ref} is not in this clone: `git push origin {branch}` where "
            "it comes from and `git fetch` here; or export it with --with-branches"
        )

    async def _moves(self, plan: BranchPlan, given: ExportedLifecycle, ref: str, old: str) -> None:
        """Note how a ref that is here goes on to its commit in the file."""
        commit, agent_id = given.refs[ref], given.agent_id
        ahead = await self._branches.holds(commit, old)
        if ref.startswith(BASE_REFS):
            plan.changes[ref] = (old, commit)
        elif ref.startswith(SAVED_REFS):
            # One that is of something else stays, and this goes beside it.
            plan.changes |= (
                {ref: (old, commit)} if ahead else {f"{ref}-{commit[:12]}": ("", commit)}
            )
        elif not ahead:
            raise ImportRefusedError(
                f"{ref} has commits here ({old[:12]}) that the file does not know: rename it (`git "
                f"branch -m agent/{agent_id} NEW-NAME`) to keep them, and import again"
            )
        elif folder := await self._branches.checked_out(agent_id):
            if await self._workspaces.open(agent_id) is None:
                raise ImportRefusedError(
                    f"{ref} is checked out at {folder}: switch that checkout to another branch, "
                    "and import again"
                )
            base = given.refs.get(BASE_REFS + agent_id, "")
            plan.forward[agent_id] = (commit, base)
        else:
            plan.changes[ref] = (old, commit)

    async def carry_out(self, plan: BranchPlan) -> None:
        """Move workspaces that are here on, then set all refs together."""
        for agent_id, (commit, base) in plan.forward.items():
            workspace = await self._workspaces.open(agent_id)
            if workspace is None or not await self._workspaces.move_on(
                workspace, commit, base or workspace.base_commit
            ):
                raise ImportRefusedError(
                    f"the workspace of {agent_id} here has uncommitted files in the way of "
                    f"{commit[:12]}: commit or remove them in "
                    f"{workspace.path if workspace else 'it'}, and import again"
                )
            plan.changes.pop(BASE_REFS + agent_id, None)
        await self._branches.place(plan.changes)

    async def undo(self, plan: BranchPlan) -> None:
        """Set the refs back to what they were."""
        await self._branches.place({ref: (new, old) for ref, (old, new) in plan.changes.items()})
