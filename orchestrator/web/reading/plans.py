"""Plans: which there are, and of one its tasks, what waits for what, totals and the longest chain.

The rows are those of the board. Edges are those that the plan declares, and those that an agent
named when it was blocked. Must not place anything on a page.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypedDict

from lifecycle.machine.states import Blocked, Suspended
from lifecycle.plan import plan_of
from lifecycle.record import Filter
from lifecycle.state_words import spelled, word_of
from orchestrator.web.reading.board import BoardRowForm, present_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lifecycle.record import AgentLifecycle
    from orchestrator.web.live.board_state import BoardState

OVER = frozenset(("accepted", "done"))
"""States in which the work of a task is complete, so that others can build on it."""
HELD_BY_PERSON = frozenset(("needs-you", "given-up", "paused", "stopped"))
NEED = frozenset(("needs-you", "given-up", "done"))
ENDED = frozenset(("accepted", "rejected", "done", "given-up"))


class PlanRowForm(TypedDict):
    """A plan, shortly."""

    name: str
    tasks: int
    by_state: dict[str, int]
    needs_you: int
    created_at: float
    updated_at: float


class PlansForm(TypedDict):
    """All plans, the newest first."""

    items: list[PlanRowForm]


class EdgeForm(TypedDict):
    """That a task waits for another."""

    task: str
    needs: str
    said: bool
    """an agent said so; else the plan does"""
    hot: bool
    """it waits now, and the other one waits for a person"""


class PlanForm(TypedDict):
    """A plan with its tasks."""

    name: str
    tasks: list[BoardRowForm]
    """in the order of their dependencies"""
    edges: list[EdgeForm]
    by_state: dict[str, int]
    frees: dict[str, int]
    """by task: how many unfinished tasks wait for it, at however many removes"""
    critical_path: list[str]
    """the longest chain of unfinished tasks"""
    attempts: int
    tokens: int | None
    """null where no program told them"""
    cost_usd: float | None
    exact: bool
    """false where an attempt did not tell its cost: it cost more"""
    budget_usd: float | None


async def plans(state: BoardState) -> PlansForm:
    """Return all plans."""
    await state.look()
    stuck = Counter(
        plan_of(state.records[each]).name for each in state.stuck if each in state.records
    )
    found: dict[str, PlanRowForm] = {}
    for (
        name,
        coarse,
        kind,
        reason,
        frozen,
        stopped,
        many,
        first,
        last,
    ) in await state.runner.store.plans():
        fields = {"reason": reason, "frozen": frozen, "stopped": stopped}
        word = spelled(word_of(kind or "", fields, coarse))
        row = found.setdefault(
            name,
            {
                "name": name,
                "tasks": 0,
                "by_state": {},
                "needs_you": 0,
                "created_at": first,
                "updated_at": last,
            },
        )
        row["tasks"] += many
        row["by_state"][word] = row["by_state"].get(word, 0) + many
        row["needs_you"] += many * (word in NEED)
        row["created_at"] = min(first, row["created_at"])
        row["updated_at"] = max(last, row["updated_at"])
    for name, row in found.items():
        row["needs_you"] += stuck[name]
    return {"items": sorted(found.values(), key=lambda row: -row["updated_at"])}


async def plan(state: BoardState, name: str) -> PlanForm | None:
    """Return a plan; None if there is none of this name."""
    runner = state.runner
    records = [record async for record in runner.store.every(Filter(plan=name, current=True))]
    if not records:
        return None
    await state.look()
    rows = present_rows(state, list(reversed(records)))
    edges = _edges(rows, {each.agent_id: each for each in records})
    ordered = in_order(rows, edges)
    used = await runner.store.spendings(plan=name)
    known = [each.cost_usd for each in used if each.cost_usd is not None]
    tokens = sum(each.tokens for each in used)
    by_state: dict[str, int] = {}
    for row in ordered:
        by_state[row["state"]] = by_state.get(row["state"], 0) + 1
    return {
        "name": name,
        "tasks": ordered,
        "edges": edges,
        "by_state": by_state,
        "frees": _frees(ordered, edges),
        "critical_path": longest_chain(ordered, edges),
        "attempts": len(used),
        "tokens": tokens or None,
        "cost_usd": sum(known) if known else None,
        "exact": len(known) == len(used),
        "budget_usd": _budget(records, runner.settings().plan_budget_usd),
    }


def _budget(records: Sequence[AgentLifecycle], usual: float | None) -> float | None:
    own = [mark.budget.usd for each in records if (mark := plan_of(each)).budget is not None]
    return next((each for each in own if each is not None), usual)


def _edges(rows: Sequence[BoardRowForm], records: Mapping[str, AgentLifecycle]) -> list[EdgeForm]:
    by_task = {row["task_id"]: row for row in rows}
    made: list[EdgeForm] = []
    for row in rows:
        declared = dict.fromkeys(row["builds_on"])
        said = dict.fromkeys(_said(records[row["agent_id"]]))
        for needs in (*declared, *(each for each in said if each not in declared)):
            if needs not in by_task or needs == row["task_id"]:
                continue
            waits = row["group"] in {"queued", "waiting"}
            hot = waits and by_task[needs]["state"] in HELD_BY_PERSON
            made.append(
                {
                    "task": row["task_id"],
                    "needs": needs,
                    "said": needs not in declared,
                    "hot": hot,
                }
            )
    return made


def _said(record: AgentLifecycle) -> Iterable[str]:
    """Return the tasks that its agent said it waits for, or builds on since it waited."""
    work = record.work.inner if isinstance(record.work, Suspended) else record.work
    if work is None:
        return ()
    named = work.word.blocked_on if isinstance(work, Blocked) else ()
    return (*work.tally.depends_on, *named)


def in_order(rows: Sequence[BoardRowForm], edges: Sequence[EdgeForm]) -> list[BoardRowForm]:
    """Put first what others wait for; a circle that agents named does no harm."""
    by_task = {row["task_id"]: row for row in rows}
    needs = _needs(edges)
    ordered: dict[str, BoardRowForm] = {}
    begun: set[str] = set()
    for start in by_task:
        stack = [(start, False)]
        while stack:
            task, leaving = stack.pop()
            if leaving:
                ordered.setdefault(task, by_task[task])
            elif task not in begun:
                begun.add(task)
                stack.append((task, True))
                stack += [(each, False) for each in reversed(needs.get(task, []))]
    return list(ordered.values())


def longest_chain(rows: Sequence[BoardRowForm], edges: Sequence[EdgeForm]) -> list[str]:
    """Return the longest chain of unfinished tasks, the first to be done first.

    The rows are in the order of their dependencies.
    """
    needs = _needs(edges)
    length: dict[str, int] = {}
    before: dict[str, str] = {}
    for row in rows:
        task = row["task_id"]
        if row["state"] in ENDED:
            continue
        best = max((each for each in needs.get(task, []) if each in length),
                   key=lambda each: length[each], default="")  # fmt: skip
        length[task] = 1 + length.get(best, 0)
        if best:
            before[task] = best
    chain: list[str] = []
    task = max(length, key=lambda each: length[each], default="")
    while task and task not in chain:
        chain.append(task)
        task = before.get(task, "")
    return chain[::-1]


def _frees(rows: Sequence[BoardRowForm], edges: Sequence[EdgeForm]) -> dict[str, int]:
    """Count for each unfinished task the unfinished ones that wait for it."""
    waiting: dict[str, list[str]] = {}
    for edge in edges:
        waiting.setdefault(edge["needs"], []).append(edge["task"])
    open_tasks = {row["task_id"] for row in rows if row["state"] not in ENDED}
    found: dict[str, int] = {}
    for row in rows:
        if row["state"] in OVER or row["state"] == "rejected":
            continue
        seen: set[str] = set()
        stack = list(waiting.get(row["task_id"], ()))
        while stack:
            task = stack.pop()
            if task not in seen:
                seen.add(task)
                stack += waiting.get(task, ())
        many = len((seen & open_tasks) - {row["task_id"]})
        if many:
            found[row["task_id"]] = many
    return found


def _needs(edges: Iterable[EdgeForm]) -> dict[str, list[str]]:
    made: dict[str, list[str]] = {}
    for edge in edges:
        made.setdefault(edge["task"], []).append(edge["needs"])
    return made
