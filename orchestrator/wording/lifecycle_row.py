"""A lifecycle as lists show it: the one row behind `ps`, its JSON, the API and their schemas.

Made of the columns that `lifecycle.store.plain_queries` reads; a record is turned into columns
first (`json_forms.columns_of`). Imports nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, cast

from lifecycle.state_words import NEEDS_YOU, needs_of, spelled, ways_of, word_of
from orchestrator.terminal.text import span
from orchestrator.wording.states import UNREADABLE, since, waiting_for, with_trouble
from orchestrator.wording.workers import with_silence, worker_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator.wording.json_types import RecordState, StateWord, WorkState

    Columns = dict[str, Any]


class LifecycleRow(TypedDict):
    """A lifecycle as `loopwright ps --json` shows it."""

    agent_id: str
    task_id: str
    task: str
    attempt: int
    attempts: int
    """how many got a process; `attempt` is the one under way, or the next"""
    retry_count: int
    spawn_count: int
    """processes that were started; an attempt that was interrupted has more than one"""
    created_at: float
    updated_at: float
    tags: list[str]
    error: str | None
    cursor: int
    damaged: str
    """what is wrong with a record that cannot be read, of which little else is shown; `loopwright
    doctor` says how to repair it"""
    state: StateWord
    record_state: RecordState
    work_state: WorkState
    since: float
    waiting_for: str
    worker: str
    """the worker that has it, or had it last; empty where one machine does all the work"""
    commands: list[str]
    """what may be typed where it needs a person; else empty"""


def row_of(  # noqa: PLR0913  # all but two by name
    columns: Columns,
    present: float,
    *,
    runs: bool = True,
    stuck: bool = False,
    trouble: str = "",
    silent: Mapping[str, float] | None = None,
    unplaced: str = "",
) -> LifecycleRow:
    """Return the row of a lifecycle; `runs` tells whether a runner is alive.

    `stuck`: it is blocked on what nobody but a person can bring. `trouble`: what is wrong where
    it waits for something outside. `silent`: the workers that are, with when they were heard of
    last. `unplaced`: what is missing that a worker takes it.
    """
    kind, work, damaged = columns["work_kind"], columns["work"], columns["damaged"]
    as_they_are = LifecycleRow.__annotations__.keys() & columns.keys()
    word = word_in(columns, runs=runs)
    runs = runs or stuck  # a runner alone does not move what is stuck
    waits = UNREADABLE if damaged else waiting_for(kind, work, present, span, runs=runs)
    worker = worker_in(columns["facts"])
    if not damaged:
        waits = with_trouble(kind, waits, trouble)
        waits = with_silence(waits, worker, kind, silent or {}, lambda at: span(present - at))
        waits = "; ".join(filter(None, (unplaced, waits)))
    told = {name: columns[name] for name in as_they_are} | {
        "attempts": _attempts(columns),
        "state": spelled(word),
        "record_state": columns["coarse"],
        "work_state": kind,
        "commands": _commands(columns, stuck=stuck),
        "since": since(work, columns["updated_at"]),
        "waiting_for": waits,
        "worker": worker,
    }
    return cast("LifecycleRow", {name: told[name] for name in LifecycleRow.__annotations__})


def word_in(columns: Columns, *, runs: bool) -> str:
    """Return the word for the state."""
    if columns["damaged"]:
        return NEEDS_YOU
    return word_of(columns["work_kind"], columns["work"], columns["coarse"], runs=runs)


def _commands(columns: Columns, *, stuck: bool) -> list[str]:
    if columns["damaged"]:
        return ["loopwright doctor"]
    kind, work = columns["work_kind"], columns["work"]
    if not (stuck or needs_of(kind, work)):
        return []
    return [f"loopwright {way.format(columns['agent_id'])}" for way in ways_of(kind, work)]


def _attempts(columns: Columns) -> int:
    """Count the attempts that got a process; earlier versions had `spawn_count` count these."""
    tally: Any = (columns["work"] or {}).get("tally") or {}
    begun: int = tally.get("begun", 0) if isinstance(tally, dict) else tally.begun
    return begun or columns["spawn_count"]
