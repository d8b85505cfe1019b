"""What a merge of completed work would bring with it, for commands that only look.

Must not change a record or a branch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lifecycle.judging.unaccepted_work import Along, MergeCandidate, UnacceptedWork
from lifecycle.machine.states import Completed
from orchestrator.wording.why_facts import MergeStanding
from runtime.branches import BranchManager
from runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ci.interface import PullRequest
    from lifecycle.record import AgentLifecycle
    from lifecycle.store.sqlite.store import SqliteStore

OURS = "agent/"
"""How the branches of agents begin."""


async def standing(repo: Path, store: SqliteStore, record: AgentLifecycle) -> MergeStanding:
    """Return what an accept of this lifecycle would meet."""
    work, into = record.work, str(record.facts.get("base_branch", ""))
    if not isinstance(work, Completed) or not work.head or not into:
        return MergeStanding()
    branches = BranchManager(repo)
    try:
        if work.head != record.facts.get("base_commit"):
            merged = await branches.history.merged_as(work.head, into)
            if merged is not None:
                return MergeStanding(merged_as=merged)
        along = await UnacceptedWork(store, branches).of_record(record)
        if not work.resolves:
            return MergeStanding(along=along)
        commits, files = await branches.history.work(work.resolves, work.head, into)
        names = tuple(f"{sha[:12]} {subject}" for sha, subject in commits)
        return MergeStanding(along=along, resolution=names, resolved_files=files)
    except RuntimeFault:
        return MergeStanding()  # the merge itself reports what is wrong with the repository


async def with_along(
    repo: Path, store: SqliteStore, pulls: Iterable[PullRequest]
) -> list[PullRequest]:
    """Return the pull requests, the open ones with what would come along."""
    listed = list(pulls)
    branches = BranchManager(repo)
    wanted: dict[int, MergeCandidate] = {}
    for pull in listed:
        base = await branches.head(pull.base) if pull.state == "open" else None
        if base is not None:
            wanted[pull.number] = MergeCandidate(
                pull.branch.removeprefix(OURS), pull.head_sha, base
            )
    if not wanted:
        return listed
    answers = await UnacceptedWork(store, branches).of(tuple(wanted.values()))
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
