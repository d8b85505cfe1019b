"""Which two commits the work of a lifecycle lies between.

Owns what counts as its own: everything but what is known to be others'. That is the base, where the
work began, and heads of other lifecycles as the records name them; a branch that an agent made and
merged is its own work. It must not change a branch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lifecycle.machine.states import (
    Accepted,
    AgentState,
    Blocked,
    Completed,
    PrPending,
    Verifying,
)
from lifecycle.record import Filter
from orchestrator.errors import OrchestratorError

if TYPE_CHECKING:
    from lifecycle.machine.states import State
    from lifecycle.record import AgentLifecycle
    from lifecycle.store.sqlite.store import SqliteStore
    from runtime.branches import BranchManager
    from runtime.git.history import Unmerged

OPEN = (AgentState.QUEUED, AgentState.RUNNING, AgentState.COMPLETED, AgentState.REJECTED)
"""All but accepted: what may still be looked at."""
OWN, ALL = "own", "all"
OF = r"own|all|since:[1-9][0-9]{0,8}"
"""What may be asked for."""
_SINCE = re.compile(r"since:([1-9][0-9]{0,8})")


class ReviewError(OrchestratorError):
    """What is to be looked at does not exist."""


@dataclass(frozen=True, slots=True)
class WorkSpan:
    """What is compared: from this commit to that one."""

    old: str
    new: str
    against: str
    """What the older one is, in words."""


async def head_of(branches: BranchManager, store: SqliteStore, record: AgentLifecycle) -> str:
    """Return the newest commit of the work; empty if it has none."""
    if isinstance(record.work, Accepted):
        return await _accepted_head(branches, store, record, record.work)
    if found := _known_head(record.work):
        return found
    if (branch := str(record.facts.get("branch", ""))) and (head := await branches.head(branch)):
        return head
    return await _last_head(branches, store, record)


def _known_head(work: State | None) -> str:
    return work.head if isinstance(work, Completed | Verifying | PrPending | Blocked) else ""


async def _accepted_head(
    branches: BranchManager, store: SqliteStore, record: AgentLifecycle, work: Accepted
) -> str:
    head = await _last_head(branches, store, record)
    return head or (work.commit if await branches.commit_exists(work.commit) else "")


async def _last_head(branches: BranchManager, store: SqliteStore, record: AgentLifecycle) -> str:
    for row in reversed(await store.attempts(record.agent_id)):
        if row.head_after and await branches.commit_exists(row.head_after):
            return row.head_after
    return ""


async def span_of(
    branches: BranchManager, store: SqliteStore, record: AgentLifecycle, of: str = OWN
) -> WorkSpan:
    """Return what to compare; ReviewError if there is nothing to look at."""
    agent_id = record.agent_id
    head = await head_of(branches, store, record)
    if not head:
        raise ReviewError(f"{agent_id} has no commit yet, so there is nothing to look at")
    if (since := _SINCE.fullmatch(of)) is not None:
        return await _since(branches, store, record, int(since[1]), head)
    began = str(record.facts.get("base_commit", ""))
    into = await _base_before(branches, record)
    if of == ALL:
        fork = await branches.diff.fork(into or began, head) if into or began else ()
        name = str(record.facts.get("base_branch") or into[:12] or began[:12])
        return WorkSpan(fork[0] if fork else began, head, name)
    return await _own(branches, store, record, Ends(began, into, head))


async def _since(
    branches: BranchManager, store: SqliteStore, record: AgentLifecycle, attempt: int, head: str
) -> WorkSpan:
    rows = {row.attempt: row for row in await store.attempts(record.agent_id)}
    if attempt not in rows:
        raise ReviewError(f"{record.agent_id} has no attempt {attempt}; it has {_listed(rows)}")
    after = rows[attempt].head_after
    if not after or not await branches.commit_exists(after):
        raise ReviewError(f"attempt {attempt} of {record.agent_id} left no commit that is known")
    return WorkSpan(after, head, f"attempt {attempt}")


def _listed(numbers: dict[int, object] | object) -> str:
    return ", ".join(map(str, numbers)) if isinstance(numbers, dict) and numbers else "none yet"


async def _base_before(branches: BranchManager, record: AgentLifecycle) -> str:
    """Return the commit of the base as it is, or was before the work came into it."""
    base = str(record.facts.get("base_branch", ""))
    if isinstance(record.work, Accepted):
        parent = f"{record.work.commit}^1"
        known = await branches.commit_exists(record.work.commit)
        return parent if known else ""
    return (await branches.head(base) if base else None) or ""


@dataclass(frozen=True, slots=True)
class Ends:
    """Where the work began, the base as it is now, and where the work is."""

    began: str
    into: str
    head: str


async def _own(
    branches: BranchManager, store: SqliteStore, record: AgentLifecycle, ends: Ends
) -> WorkSpan:
    if not (ends.into or ends.began):
        raise ReviewError(f"where the work of {record.agent_id} began is not known")
    graph = await branches.history.unmerged([ends.head], ends.into or ends.began)
    if ends.head in graph.parents:
        start = _line_start(graph, ends)
        if start:
            return WorkSpan(start, ends.head, _name_of(record, start, ends))
    tips = dict.fromkeys(await branches.diff.fork(ends.began, ends.head))
    if ends.into and ends.head in graph.parents:
        tips |= dict.fromkeys(await branches.diff.fork(ends.into, ends.head))
    tips |= dict.fromkeys(await _others(store, record, graph.reach(ends.head)))
    foreign = await branches.diff.independent(tuple(tips))
    if len(foreign) > 1:
        joined = await branches.join(foreign, message="What the work builds on")
        foreign = (joined.commit,) if joined.commit is not None else ()
    start = foreign[0] if foreign else ends.began
    if not await branches.commit_exists(start):
        raise ReviewError(
            f"where the work of {record.agent_id} began is not known any more; "
            f"look at it with: git log -p {ends.head}"
        )
    return WorkSpan(start, ends.head, _name_of(record, start, ends))


def _line_start(graph: Unmerged, ends: Ends) -> str:
    """Return where a work without merges began; empty if it has merges."""
    commit = ends.head
    while commit in graph.parents and commit != ends.began:
        if len(graph.parents[commit]) != 1:
            return ""
        (commit,) = graph.parents[commit]
    return commit


async def _others(
    store: SqliteStore, record: AgentLifecycle, coming: frozenset[str]
) -> tuple[str, ...]:
    """Return the heads of other lifecycles, as their records say, that the work holds."""
    found: list[str] = []
    # What was accepted is in the base.
    async for other in store.every(Filter(states=OPEN)):
        if other.agent_id != record.agent_id:
            rows = await store.attempts(other.agent_id)
            heads = (_known_head(other.work), *(row.head_after for row in rows))
            found += [head for head in heads if head in coming]
    return tuple(found)


def _name_of(record: AgentLifecycle, start: str, ends: Ends) -> str:
    base = record.facts.get("base_branch")
    planned = record.facts.get("task", {}).get("dependencies", ())
    if planned and start == ends.began:
        return f"{start[:12]}, with the work of {', '.join(planned)}"
    return f"{base} at {start[:12]}" if base else start[:12]
