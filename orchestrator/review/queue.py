"""What waits for a person's decision, in the order in which a person should take it.

What holds up others comes first, dependencies before what builds on them, flagged work before
plain, and what was given up last. Changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from lifecycle.base_commits import is_done, needs
from lifecycle.machine.rules.blocks import tasks_of
from lifecycle.machine.states import (
    AwaitingHuman,
    Blocked,
    Completed,
    Queued,
    Rejected,
    Suspended,
    attempt_of,
)
from lifecycle.needs_person import asked, only_a_person
from lifecycle.record import Filter
from lifecycle.state_words import (
    GIVEN_UP_NEED,
    LIMIT_FIRST,
    TRY_AGAIN,
    UNBLOCK,
    needs_of,
    spelled,
    word_on,
)
from lifecycle.state_words import ways_of as ways_of_state
from orchestrator.review.own_work import OPEN
from orchestrator.terminal.text import span
from orchestrator.wording.possible_actions import why_not
from orchestrator.wording.states import since, waiting_for

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from lifecycle.machine.states import State
    from lifecycle.record import AgentLifecycle
    from lifecycle.settings import Settings
    from lifecycle.store.sqlite.store import SqliteStore
    from orchestrator.wording.json_types import StateWord


class WaitingForm(TypedDict):
    """Something that waits for a person's decision."""

    agent_id: str
    task_id: str
    task: str
    title: str
    needs: str
    """answer, approve, unblock, review, conflict or given_up"""
    state: StateWord
    asked: str
    """the question, or what it waits for, in words"""
    since: float
    attempt: int
    """the one under way, else the latest"""
    summary: str
    """the agent's last words about its work"""
    head: str
    """the commit that would be merged; empty where nothing is"""
    verified: bool
    """whether verify commands passed on exactly this commit"""
    flagged: list[str]
    depends_on: list[str]
    """tasks"""
    holds_up: list[str]
    """tasks that cannot go on before this is decided"""
    commands: list[str]
    """what may be typed"""
    why_not_again: str
    """of what was given up, why it cannot be tried again as it is; empty where it can"""


class WaitingListForm(TypedDict):
    """The queue, the first to take first."""

    items: list[WaitingForm]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A lifecycle that waits for a decision."""

    record: AgentLifecycle
    needs: str
    depends_on: tuple[str, ...]
    holds_up: tuple[str, ...]

    @property
    def flagged(self) -> tuple[str, ...]:
        """The changed files that belong to tests or gates."""
        return self.record.work.flagged if isinstance(self.record.work, Completed) else ()

    @property
    def head(self) -> str:
        """The commit that would be merged."""
        return self.record.work.head if isinstance(self.record.work, Completed) else ""


async def waiting(store: SqliteStore, *, has_ci: bool = False) -> tuple[Waiting, ...]:
    """Return what waits for a decision, in order."""
    asked_for = Filter(states=OPEN, current=True)
    records = [each async for each in store.every(asked_for)]
    found = await stuck(store, records, has_ci=has_ci)
    return in_order(of_records(records, found, held_up(records)))


def of_records(
    records: Iterable[AgentLifecycle],
    stuck: Collection[str],
    held: Mapping[str, tuple[str, ...]],
) -> list[Waiting]:
    """Return those that wait for a decision; see `stuck` and `held_up`."""
    found = []
    for record in records:
        wanted = need_of(record, stuck)
        if wanted:
            planned = record.facts.get("task", {}).get("dependencies", ())
            on = needs(planned, record.work)
            found.append(Waiting(record, wanted, on, held.get(record.task_id, ())))
    return found


async def moved_by_a_runner(store: SqliteStore) -> tuple[str, ...]:
    """Return the tasks that wait for no person: a runner moves them on."""
    records = [each async for each in store.every(Filter(states=OPEN, current=True))]
    return tuple(each.task_id for each in records if _goes_on(each.work))


def need_of(record: AgentLifecycle, stuck: Collection[str]) -> str:
    """Return what a lifecycle needs of a person: one of `state_words.NEEDS`, or nothing.

    The one rule for all who count, list or show it; a record that cannot be read is no lifecycle
    and is told apart.
    """
    if record.agent_id in stuck and isinstance(record.work, Blocked):
        return UNBLOCK
    return needs_of(type(record.work).__name__, vars(record.work)) if record.work else ""


async def stuck(
    store: SqliteStore, records: Collection[AgentLifecycle], *, has_ci: bool
) -> frozenset[str]:
    """Return the agents that are blocked on what nobody but a person can bring.

    Not those that wait for a task which itself waits for a person: that one is asked about.
    """
    running = {each.task_id for each in records if _goes_on(each.work) or _is_held(each.work)}
    known = await _completed(store, records)

    def alone(record: AgentLifecycle) -> bool:
        work = record.work
        others = running - {record.task_id} if isinstance(work, Blocked) else running
        return isinstance(work, Blocked) and only_a_person(
            work, running=others, completed=known, has_ci=has_ci
        )

    return frozenset(each.agent_id for each in records if alone(each))


def _goes_on(work: State | None) -> bool:
    """Tell whether something still comes of it by itself."""
    over = isinstance(work, Completed | Rejected | Suspended | AwaitingHuman)
    return work is not None and not over


def _is_held(work: State | None) -> bool:
    """Tell whether a person holds it, or is asked about it."""
    return isinstance(work, Suspended | AwaitingHuman) or (
        isinstance(work, Rejected) and bool(needs_of(type(work).__name__, vars(work)))
    )


async def _completed(store: SqliteStore, records: Iterable[AgentLifecycle]) -> set[str]:
    """Return those of the tasks named by blocked agents whose work is done."""
    named = {
        task for each in records if isinstance(each.work, Blocked) for task in tasks_of(each.work)
    }
    done = {each.task_id for each in records if is_done(each.work)}
    for task in named - done:
        page = await store.list(Filter(task_id=task), limit=1)
        if any(is_done(each.work) for each in page.records):
            done.add(task)
    return done


def held_up(records: Iterable[AgentLifecycle]) -> dict[str, tuple[str, ...]]:
    """Return for each task those that cannot go on before it, directly or by others."""
    direct: dict[str, list[str]] = {}
    for record in records:
        for task in _waits_on(record.work):
            direct.setdefault(task, []).append(record.task_id)
    return {task: _reach(task, direct) for task in direct}


def _waits_on(work: State | None) -> tuple[str, ...]:
    match work:
        case Queued(waiting_on=tasks):
            return tasks
        case Blocked():
            return tuple(tasks_of(work))
        case AwaitingHuman(blocked_on=names):
            return names
        case _:
            return ()


def _reach(task: str, direct: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    ways = list(direct.get(task, ()))
    while ways:
        other = ways.pop(0)
        if other not in found and other != task:
            found[other] = None
            ways += direct.get(other, ())
    return tuple(found)


def in_order(found: Sequence[Waiting]) -> tuple[Waiting, ...]:
    """Sort; of what depends on each other the dependency comes first."""
    left = {each.record.agent_id: each for each in sorted(found, key=_urgency)}
    tasks = {each.record.task_id for each in found}
    ordered: list[Waiting] = []
    while left:
        free = (each for each in left.values() if tasks.isdisjoint(each.depends_on))
        following = next(free, None) or next(iter(left.values()))  # a circle has no beginning
        del left[following.record.agent_id]
        tasks.discard(following.record.task_id)
        ordered.append(following)
    return tuple(ordered)


def _urgency(each: Waiting) -> tuple[bool, int, bool, float, str]:
    began = since(vars(each.record.work), each.record.updated_at)
    given_up = each.needs == GIVEN_UP_NEED
    return given_up, -len(each.holds_up), not each.flagged, began, each.record.agent_id


def waiting_form(
    each: Waiting, settings: Settings, present: float, *, runs: bool = True
) -> WaitingForm:
    """Return it as `--json` and the API give it."""
    record, work = each.record, each.record.work
    kind, fields = type(work).__name__, vars(work)
    task = record.facts.get("task", {})
    said = (asked(work) if work is not None else "") or waiting_for(kind, fields, present, span)
    if isinstance(work, Rejected):
        said = work.text
    return {
        "agent_id": record.agent_id,
        "task_id": record.task_id,
        "task": record.task,
        "title": str(task.get("title") or ""),
        "needs": each.needs,
        "state": spelled(word_on(record, runs=runs)),
        "asked": said,
        "since": since(fields, record.updated_at),
        "attempt": attempt_of(work) if work is not None else 0,
        "summary": record.submission_summary or "",
        "head": each.head,
        "verified": isinstance(work, Completed) and bool(work.passed),
        "flagged": list(each.flagged),
        "depends_on": list(each.depends_on),
        "holds_up": list(each.holds_up),
        "commands": [
            f"loopwright {way.format(record.agent_id)}" for way in ways_of(each, settings)
        ],
        "why_not_again": why_not_again(each, settings),
    }


def ways_of(each: Waiting, settings: Settings) -> tuple[str, ...]:
    """Return the commands that decide it; {} stands for the agent."""
    work = each.record.work
    if work is None:
        return ()
    if each.needs == GIVEN_UP_NEED:
        return LIMIT_FIRST if why_not_again(each, settings) else TRY_AGAIN
    return ways_of_state(type(work).__name__, vars(work))


def why_not_again(each: Waiting, settings: Settings) -> str:
    """Return why what was given up cannot be tried again as it is; empty where it can."""
    given_up = each.needs == GIVEN_UP_NEED
    return why_not(each.record, "resume", settings) if given_up else ""
