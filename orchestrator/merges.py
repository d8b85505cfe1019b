"""What a merge of completed work would bring with it, for commands that only look.

Must not change a record or a branch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lifecycle.judging.along import Along, ComesAlong, Pull
from lifecycle.machine.states import Completed
from orchestrator.scene import Standing
from runtime.branches import BranchManager
from runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ci.interface import PullRequest
    from lifecycle.record import AgentLifecycle
    from lifecycle.store.port import LifecycleStore

OURS = "agent/"
"""How the branches of agents begin."""


async def standing(repo: Path, store: LifecycleStore, record: AgentLifecycle) -> Standing:
    """Return what an accept of this lifecycle would meet."""
    work, into = record.work, str(record.facts.get("base_branch", ""))
    if not isinstance(work, Completed) or not work.head or not into:
        return Standing()
    branches = BranchManager(repo)
    try:
        if work.head != record.facts.get("base_commit"):
            merged = await branches.history.merged_as(work.head, into)
            if merged is not None:
                return Standing(merged_as=merged)
        along = await ComesAlong(store, branches).of_record(record)
        if not work.resolves:
            return Standing(along=along)
        commits, files = await branches.history.work(work.resolves, work.head, into)
        names = tuple(f"{sha[:12]} {subject}" for sha, subject in commits)
        return Standing(along=along, resolution=names, resolved_files=files)
    except RuntimeFault:
        return Standing()  # what is wrong with the repository is told by whoever merges


async def with_along(
    repo: Path, store: LifecycleStore, pulls: Iterable[PullRequest]
) -> list[PullRequest]:
    """Return the pull requests, the open ones with what would come along."""
    listed = list(pulls)
    branches = BranchManager(repo)
    wanted: dict[int, Pull] = {}
    for pull in listed:
        base = await branches.head(pull.base) if pull.state == "open" else None
        if base is not None:
            wanted[pull.number] = Pull(pull.branch.removeprefix(OURS), pull.head_sha, base)
    if not wanted:
        return listed
    answers = await ComesAlong(store, branches).of(tuple(wanted.values()))
    along = dict(zip(wanted, answers, strict=True))
    return [
        pull.model_copy(update={"comes_along": tuple(map(str, along.get(pull.number, ())))})
        for pull in listed
    ]


def form(along: Iterable[Along]) -> list[dict[str, Any]]:
    """Return it for programs."""
    return [
        {"agent_id": each.agent_id, "task_id": each.task_id, "state": each.state} for each in along
    ]
