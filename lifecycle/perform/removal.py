"""Removes all that a lifecycle has on this machine; what is in no commit is saved before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.judging.mutation_check import CANARIES

if TYPE_CHECKING:
    from lifecycle.services import MachineServices
    from runtime.workspaces.saved_work import SavedCommit

REVIEW_MARKS = "review.marks"
"""Documents: what reviewers marked of the work of each lifecycle."""


async def remove_all(machine: MachineServices, agent_id: str, attempt: int) -> SavedCommit | None:
    """Remove workspace, branch, checkout, ports and notes about them; return what was saved."""
    saved = await machine.workspaces.remove(agent_id, drop_branch=True, attempt=attempt)
    await machine.checkouts.remove(agent_id)
    await machine.shared.store.remove(CANARIES, agent_id)
    await machine.shared.store.remove(REVIEW_MARKS, agent_id)
    machine.ports.give_back(agent_id)
    return saved
