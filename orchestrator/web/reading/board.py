"""The board: one row for each lifecycle, in groups by who moves it on, and the sums above them.

What a row says comes from the one table of states and the record; nothing is read from the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from lifecycle.machine.states import (
    AwaitingHuman,
    BackingOff,
    Completed,
    PrPending,
    Suspended,
)
from lifecycle.record import worker_of
from lifecycle.state_words import spelled, word_on
from orchestrator.review.queue import in_order, of_records
from orchestrator.terminal.text import one_line, span
from orchestrator.web.operator import found
from orchestrator.web.reading.record_words import plan_of, program_of, says_of, since_of
from orchestrator.wording.states import waiting_for, with_trouble
from orchestrator.wording.workers import WorkerForm, unplaced_in, with_silence

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lifecycle.record import AgentLifecycle
    from orchestrator.web.live.board_state import BoardState

Need = Literal["answer", "approve", "review", "conflict", "unblock", "given_up", "repair", ""]
Group = Literal["me", "working", "waiting", "queued", "done"]
GROUPS: tuple[Group, ...] = ("me", "working", "waiting", "queued", "done")
SHOWN: dict[str, int] = {"me": 30, "working": 12, "waiting": 8, "queued": 8, "done": 8}
"""Rows of each group that are shown at first."""
WIDEST = 160
UNLIMITED = 1_000_000
UNLIMITED_RETRIES = 100
"""What they are by default."""
_GROUP_OF: dict[str, Group] = {
    "starting": "working",
    "working": "working",
    "stopping": "working",
    "verifying": "working",
    "waiting": "waiting",
    "queued": "queued",
    "paused": "queued",
    "stopped": "queued",
    "done": "waiting",  # it is being merged
    "accepted": "done",
    "rejected": "done",
    "given up": "done",
}
"""By the word for its state, of what needs no person."""


class AwaitedPullForm(TypedDict):
    """The pull request that a lifecycle waits for."""

    url: str
    number: int | None


class BoardRowForm(TypedDict):
    """A lifecycle on the board."""

    agent_id: str
    task_id: str
    title: str
    state: str
    work_state: str
    group: Group
    """whose move it is: `me` is a person's"""
    needs: Need
    """what a person is needed for; empty if for nothing"""
    says: str
    """one sentence: what it waits for, or how it ended; of work that is done its agent's words"""
    question: str
    """what its agent asks"""
    doing: str
    """what its agent does at the moment"""
    since: float
    attempts: int
    most_attempts: int | None
    """how many there can be, where the task or the settings limit them"""
    program: str
    worker: str
    """the worker that has it, or had it last; empty where one machine does all the work"""
    tokens: int | None
    """null where no program told them"""
    cost_usd: float | None
    """null where no program named a cost"""
    flagged: int
    """files that were changed and that judge it"""
    files: int
    gates: int
    """verify commands that passed on its work"""
    pull: AwaitedPullForm | None
    plan: str
    builds_on: list[str]
    """tasks that it depends on"""
    holds_up: list[str]
    """tasks that wait for it"""
    resting: bool
    """it waits because its program has no quota"""
    version: int


class BoardGroupForm(TypedDict):
    """The rows of one group, in their order."""

    group: Group
    total: int
    rows: list[BoardRowForm]


class CountsForm(TypedDict):
    """How many rows fit the filters, by group."""

    me: int
    working: int
    waiting: int
    queued: int
    done: int


class SlotsForm(TypedDict):
    """Places for agents that are alive."""

    used: int
    most: int | None
    """null where there is no limit"""


class SpendForm(TypedDict):
    """What was used today."""

    tokens: int
    cost_usd: float
    budget_usd: float | None


class BoardForm(TypedDict):
    """The board."""

    groups: list[BoardGroupForm]
    counts: CountsForm
    slots: SlotsForm
    workers: list[WorkerForm]
    """the machines that take work, where there are others than this one"""
    spend: SpendForm
    newest: float
    """when the newest decision was made"""
    version: int
    """counts what changed since the server started"""
    plans: list[str]
    programs: list[str]


@dataclass(frozen=True, slots=True)
class BoardFilter:
    """Which rows are wanted; nothing given is any."""

    group: str = ""
    plan: str = ""
    program: str = ""
    words: str = ""
    everything: bool = False
    """All rows of a group, not only its first."""

    def fits(self, row: BoardRowForm) -> bool:
        """Tell whether a row is wanted, whatever its group."""
        if self.plan and row["plan"] != self.plan:
            return False
        if self.program and row["program"] != self.program:
            return False
        said = f"{row['task_id']} {row['agent_id']} {row['title']} {row['says']}".lower()
        return all(word in said for word in self.words.lower().split())


def _kept(state: BoardState, record: AgentLifecycle, limit: int | None) -> BoardRowForm:
    """Return what does not depend on the present instant; made once for each version."""
    found: tuple[tuple[int, str, str], BoardRowForm] | None = state.kept.get(record.agent_id)
    need = state.need_of(record)
    key = record.version, record.birth, need
    if found is None or found[0] != key:
        found = key, _still(record, limit, cast("Need", need))
        state.kept[record.agent_id] = found
    return found[1]


async def board(state: BoardState, asked: BoardFilter) -> BoardForm:
    """Return the board."""
    await state.look()
    settings, present = state.runner.settings(), state.runner.now()
    limit, records = most_attempts(state), dict(state.records)
    rows = [_kept(state, record, limit) for record in records.values()]
    rows += [
        _damaged(each.agent_id, each.task_id, each.updated_at) for each in state.damaged.values()
    ]
    wanted = [row for row in rows if asked.fits(row)]
    queue = in_order(of_records(records.values(), state.stuck, state.held_up()))
    places = {each.record.agent_id: place for place, each in enumerate(queue)}

    def now(row: BoardRowForm) -> BoardRowForm:
        record = records.get(row["agent_id"])
        return row if record is None else _present(state, record, row, present)

    spent = state.runner.engine.shared.accounts.spent()
    counts = CountsForm(me=0, working=0, waiting=0, queued=0, done=0)
    groups: list[BoardGroupForm] = []
    for group in GROUPS:
        mine = sorted((row for row in wanted if row["group"] == group), key=_place(group, places))
        total = (
            len(mine)
            if group != "done" or asked.words or asked.plan or asked.program
            else (state.accepted + sum(row["state"] != "accepted" for row in mine))
        )
        counts[group] = total
        most = None if asked.everything and asked.group == group else SHOWN[group]
        if not asked.group or asked.group == group:
            groups.append(
                {"group": group, "total": total, "rows": [now(row) for row in mine[:most]]}
            )
    used = sum(row["group"] == "working" for row in rows)
    most_live = settings.max_live_agents
    return {
        "groups": groups,
        "counts": counts,
        "slots": {"used": used, "most": most_live if most_live < UNLIMITED else None},
        "workers": state.workers_now(),
        "spend": {
            "tokens": spent.tokens,
            "cost_usd": round(spent.cost_usd, 6),
            "budget_usd": settings.day_budget_usd,
        },
        "newest": state.newest,
        "version": state.version,
        "plans": sorted({row["plan"] for row in rows if row["plan"]}),
        "programs": sorted({row["program"] for row in rows if row["program"]}),
    }


async def one_row(state: BoardState, agent_id: str) -> BoardRowForm:
    """Return the row of one lifecycle."""
    record = await found(state.runner, agent_id)
    await state.look()
    return present_row(state, record)


def most_attempts(state: BoardState) -> int | None:
    """Return how many attempts the settings allow, where somebody limited them."""
    most = state.runner.settings().max_retries
    return most + 1 if most < UNLIMITED_RETRIES else None


def present_row(state: BoardState, record: AgentLifecycle) -> BoardRowForm:
    """Return the row of a record as it is at this instant."""
    still = _kept(state, record, most_attempts(state))
    return _present(state, record, still, state.runner.now())


def present_rows(state: BoardState, records: Sequence[AgentLifecycle]) -> list[BoardRowForm]:
    """Return the rows of some records."""
    limit, present = most_attempts(state), state.runner.now()
    return [_present(state, each, _kept(state, each, limit), present) for each in records]


def _present(
    state: BoardState,
    record: AgentLifecycle,
    still: BoardRowForm,
    present: float,
) -> BoardRowForm:
    engine = state.runner.engine
    spent = engine.shared.accounts.spent(agent_id=record.agent_id)
    past = state.used.get(record.agent_id, (0, 0.0))
    doing = ""
    if still["group"] == "working":
        doing = state.activity.doing(record.agent_id).text
    work = record.work
    says = still["says"]
    if work is not None and not says:
        kind, ci = type(work).__name__, engine.shared.ci
        troubles = "; ".join(each.text for each in ci.troubles()) if ci is not None else ""
        says = with_trouble(kind, waiting_for(kind, vars(work), present, span), troubles)
    silent = state.silent_workers()
    if still["worker"] in silent:
        kind, doing = still["work_state"], ""
        says = with_silence(says, still["worker"], kind, silent, lambda at: span(present - at))
    if unplaced := unplaced_in(state.unplaced, record.agent_id):
        doing, says = "", "; ".join(filter(None, (unplaced, says)))
    says = says.removeprefix("you; ")  # that it waits for a person, its group says
    if still["needs"] == "conflict":
        says = says.removeprefix("not merged: ")  # as the word before it says
    return {
        **still,
        "says": one_line(says, WIDEST),
        "doing": doing,
        "tokens": max(spent.tokens, past[0]) or None,
        "cost_usd": max(spent.cost_usd, past[1]) or None,
        "holds_up": list(state.held_up().get(record.task_id, ())),
    }


def _group_of(record: AgentLifecycle, word: str) -> Group:
    """Return where a lifecycle belongs that needs nobody."""
    # One that no loop drives has no work state; nothing can be done about it here.
    return "done" if record.work is None and word == "done" else _GROUP_OF[word]


def _still(record: AgentLifecycle, limit: int | None, need: Need) -> BoardRowForm:
    work = record.work
    task: dict[str, Any] = record.facts.get("task") or {}
    agent: dict[str, Any] = record.facts.get("agent") or {}
    word = word_on(record)
    inner = work.inner if isinstance(work, Suspended) else work
    tally = work.tally if work is not None else None
    own = task.get("max_retries")
    done = work if isinstance(work, Completed) else None
    pull = inner if isinstance(inner, (PrPending, AwaitingHuman)) else None
    return {
        "agent_id": record.agent_id,
        "task_id": record.task_id or record.agent_id,
        "title": one_line(str(task.get("title") or record.task), WIDEST),
        "state": spelled(word),
        "work_state": type(work).__name__ if work is not None else "",
        "group": "me" if need else _group_of(record, word),
        "needs": need,
        "says": says_of(record),
        "question": work.text if isinstance(work, AwaitingHuman) else "",
        "doing": "",
        "since": since_of(work, record),
        "attempts": (tally.begun or tally.spawn_count) if tally is not None else 0,
        "most_attempts": own + 1 if own is not None else limit,
        "program": program_of(agent, tally.program if tally is not None else ""),
        "worker": worker_of(record),
        "tokens": None,
        "cost_usd": None,
        "flagged": len(done.flagged) if done else 0,
        "files": len(done.changed_files) if done else 0,
        "gates": len(done.passed) if done else 0,
        "pull": {"url": pull.url, "number": pull.number} if pull and pull.url else None,
        "plan": plan_of(record),
        "builds_on": [str(each) for each in task.get("dependencies") or ()],
        "holds_up": [],
        "resting": bool(tally and tally.resting and isinstance(inner, BackingOff)),
        "version": record.version,
    }


def _place(group: str, places: dict[str, int]) -> Callable[[BoardRowForm], tuple[Any, ...]]:
    """Return how a group is sorted; what needs a person as the review queue is."""

    def key(row: BoardRowForm) -> tuple[Any, ...]:
        if group == "me":
            return (places.get(row["agent_id"], -1), row["task_id"])
        if group == "done":
            return (-row["since"], row["task_id"])
        return (row["task_id"],)

    return key


def _damaged(agent_id: str, task_id: str, at: float) -> BoardRowForm:
    return {
        "agent_id": agent_id,
        "task_id": task_id or agent_id,
        "title": agent_id,
        "state": "needs-you",
        "work_state": "",
        "group": "me",
        "needs": "repair",
        "says": "its record cannot be read; `loopwright doctor` says how to repair it",
        "question": "",
        "doing": "",
        "since": at,
        "attempts": 0,
        "most_attempts": None,
        "program": "",
        "worker": "",
        "tokens": None,
        "cost_usd": None,
        "flagged": 0,
        "files": 0,
        "gates": 0,
        "pull": None,
        "plan": "",
        "builds_on": [],
        "holds_up": [],
        "resting": False,
        "version": 0,
    }
