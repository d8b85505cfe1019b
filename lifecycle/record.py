"""The canonical record of a lifecycle, and the rows around it.

Owns the shapes that the store keeps and that people read. `AgentLifecycle` is the one answer to
"where is this agent?"; its `work` is the machine's state, from which `state` is derived.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from lifecycle.machine.budget import Spent
from lifecycle.machine.effects import Effect  # noqa: TC001  # json_form reads annotations
from lifecycle.machine.events import AgentReport, Event  # noqa: TC001  # as above
from lifecycle.machine.frozen import frozen
from lifecycle.machine.states import ACTIVE, Reason, Rejected, State, coarse
from lifecycle.machine.states import AgentState as AgentState  # noqa: PLC0414  # belongs to the record

LOOSE = "run"
"""The name of the plan to which all tasks belong that came with none."""
EARLIER = "@"
"""Stands between agent and birth in the id of an earlier lifecycle; in no agent's own id."""
MACHINE = "machine"
"""The fact of a record that names the machine which ran it last."""
WORKER = "worker"
"""The fact of a record that names the worker there; not there where one machine works alone."""
ATTEMPT_WORKERS = "attempt_workers"
"""The fact of a record that names the worker of each attempt, by its number."""
_PLACED = 50
"""Attempts of which the worker is remembered."""


@dataclass(slots=True, kw_only=True)
class AgentLifecycle:
    """One agent on one task, from queued to its end."""

    agent_id: str
    task: str
    """What is to be done, in words."""
    state: AgentState = AgentState.QUEUED
    task_id: str = ""
    created_at: float = 0.0
    updated_at: float = 0.0
    generated_code: str | None = None
    """The one file that work consists of which is said to be done, if it is text of up to 32 KiB;
    of other work nothing: its commits and `changed_files` tell of it."""
    submission_summary: str | None = None
    changed_files: list[str] | None = None
    error: str | None = None
    tags: tuple[str, ...] = ()
    work: State | None = None
    """The machine's state; None for records that no loop drives."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What the loop needs to continue after a crash: task, agent, workspace, base commit."""
    birth: str = field(default_factory=lambda: secrets.token_hex(4))
    """Tells this record from an earlier one of the same agent; part of every effect's id."""
    version: int = 0
    """Counts writes; a writer that read an older version is refused."""
    cursor: int = 0
    """Position in listings, given by the store."""

    def derive(self) -> None:
        """Bring the coarse state in line with the work state."""
        if self.work is not None:
            self.state = coarse(self.work)

    @property
    def is_over(self) -> bool:
        """Whether its agent may take up other work: it was accepted, or a person rejected it."""
        by_person = isinstance(self.work, Rejected) and self.work.reason is Reason.PERSON
        return by_person or self.state is AgentState.ACCEPTED

    @property
    def earlier_id(self) -> str:
        """The id that it has once its agent has another lifecycle."""
        return f"{agent_of(self.agent_id)}{EARLIER}{self.birth}"

    def to_json(self) -> str:
        """Return the whole record as text."""
        from lifecycle.json_form import encode  # noqa: PLC0415  # heavy, and who only reads rows needs none

        return encode(self)

    @classmethod
    def from_json(cls, text: str) -> AgentLifecycle:
        """Return the record that has this text; StoreDamagedError where none has."""
        from lifecycle.json_form import decode  # noqa: PLC0415  # as above

        return decode(cls, text)


def agent_of(lifecycle_id: str) -> str:
    """Return the agent of a lifecycle, which may be an earlier one."""
    return lifecycle_id.partition(EARLIER)[0]


def mark_of(lifecycle_id: str, birth: str) -> str:
    """Return how the ids of all orders of a lifecycle begin, and the marks of its processes."""
    return f"{agent_of(lifecycle_id)}.{birth}."


@frozen
class JournalEntry:
    """One fact and what it led to; the journal is append-only."""

    agent_id: str
    seq: int
    """Counts the entries of one lifecycle from 1."""
    at: float
    event: Event
    rule: str
    before: str
    """Name of the work state it found."""
    after: str
    late: bool = False


@frozen
class PendingEffect:
    """An order that is committed and not known to be carried out."""

    effect_id: str
    agent_id: str
    effect: Effect


@frozen
class AttemptRow:
    """One attempt in the ledger: what it tried and how it ended."""

    agent_id: str
    attempt: int
    spawn_id: str = ""
    pid: int = 0
    started_at: float = 0.0
    ended_at: float | None = None
    outcome: str = ""
    """How it ended: a breakpoint's type, or a kind of failure."""
    summary: str = ""
    """The agent's own words."""
    error: str = ""
    exit_code: int | None = None
    signal: int | None = None
    head_before: str = ""
    head_after: str = ""
    changed_files: int = 0
    """Files that differ from the base after it."""
    commits: int = 0
    """Commits it made."""
    saved_ref: str = ""
    swept: int = 0
    """Processes it left behind, or that had to be killed when it was stopped."""
    program: str = ""
    """Which agent program it was."""
    report: AgentReport | None = None
    """What that program told of it; None where it tells nothing."""
    before: Used | None = None
    """What earlier processes of the same attempt used, which were interrupted."""

    @property
    def used(self) -> Used:
        """What all processes of the attempt used."""
        told, earlier = self.report, self.before or Used()
        worked = max(0.0, (self.ended_at or self.started_at) - self.started_at)
        if told is None:
            return replace(earlier, seconds=earlier.seconds + worked)
        cost = earlier.cost_usd
        return Used(
            tokens=earlier.tokens + (told.tokens or 0),
            input_tokens=earlier.input_tokens + told.input_tokens,
            output_tokens=earlier.output_tokens + told.output_tokens,
            cached_tokens=earlier.cached_tokens + told.cached_tokens,
            cost_usd=cost if told.cost_usd is None else (cost or 0.0) + told.cost_usd,
            seconds=earlier.seconds + worked,
        )


@frozen
class Used:
    """Tokens, money and time; the cost is None where no program named one."""

    tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What one attempt used, or one review of its work.

    Kept for longer than its lifecycle, and belongs to none.
    """

    agent_id: str
    task_id: str = ""
    plan: str = ""
    attempt: int
    birth: str
    """Of the lifecycle's record; with agent, attempt and review it tells this from all others."""
    at: float
    """When the attempt ended."""
    review: int = 0
    """Number of the review of its work that used it, counted over the lifecycle; 0 for the attempt
    itself."""
    program: str = ""
    """Name of the adapter, or of the command."""
    model: str = ""
    tokens: int = 0
    """All of them, as the program counts; 0 also where it said nothing."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None
    """As the program named it, else by its price; None, which is not nothing, where neither is."""
    seconds: float = 0.0

    @property
    def spent(self) -> Spent:
        """The same as budgets count it: what was not told is nothing."""
        return Spent(
            tokens=self.tokens,
            cost_usd=self.cost_usd or 0.0,
            seconds=self.seconds,
            attempts=0 if self.review else 1,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingSum:
    """What one lifecycle used as part of one plan."""

    agent_id: str
    birth: str
    plan: str
    attempts: int
    last_attempt: int
    """The highest number among them."""
    tokens: int
    cost_usd: float
    seconds: float
    ended: float
    """When the last of them ended."""

    @property
    def spent(self) -> Spent:
        """The same as budgets count it."""
        return Spent(
            tokens=self.tokens,
            cost_usd=self.cost_usd,
            seconds=self.seconds,
            attempts=self.attempts,
        )


@frozen
class OperatorRequest:
    """What a person or another program asked of a lifecycle, waiting for its owner."""

    request_id: int
    agent_id: str | None
    """None where the runner itself is asked."""
    at: float
    event: Event


@frozen
class Reply:
    """What became of a request so far."""

    begun: bool
    """Whether somebody carries it out, or did."""
    answered: bool
    problem: str = ""
    """Why it was refused."""
    text: str = ""
    """The result, where that is more than a change of the record."""


@frozen
class Transaction:
    """Everything one decision writes, in one transaction."""

    record: AgentLifecycle
    """As it shall be, with the version it was read at; the store counts it up."""
    journal: tuple[JournalEntry, ...] = ()
    passed: tuple[State, ...] = ()
    """The work state after each entry of the journal; left out, the record's stands for all."""
    effects: tuple[PendingEffect, ...] = ()
    done: tuple[str, ...] = ()
    """Ids of effects that are carried out, or overtaken."""
    attempt: AttemptRow | None = None
    spending: Spending | None = None
    """What an attempt used; writing it again replaces what was written before."""
    taken: tuple[int, ...] = ()
    """Ids of requests that are answered by this decision."""


@frozen
class Filter:
    """Which records a listing holds; everything given must fit."""

    states: tuple[AgentState, ...] = ()
    tags: tuple[str, ...] = ()
    task_id: str | None = None
    created_after: float | None = None
    created_before: float | None = None
    updated_after: float | None = None
    updated_before: float | None = None
    current: bool = False
    """Only what is current: no earlier lifecycles of agents that have another now."""
    earlier_of: str | None = None
    """Only the earlier lifecycles of this agent."""
    plan: str | None = None
    """Only the tasks of this plan; `LOOSE` are those that came with none."""


class Outline(NamedTuple):
    """What is told of a record without reading all of it, so also of a damaged one."""

    agent_id: str
    birth: str
    task_id: str
    task: str
    state: str
    work_kind: str
    """Name of the work state; empty for a record that no loop drives."""
    updated_at: float


@frozen
class RecordPage:
    """One page of a listing, newest first."""

    records: tuple[AgentLifecycle, ...]
    next_cursor: int | None = None
    """Pass as `cursor` for the next page; None when this was the last."""


def worker_of(record: AgentLifecycle, attempt: int = 0) -> str:
    """Return the worker that has a lifecycle, or had it last; of an attempt, the one that had it.

    Empty where no worker did: the coordinator may have run some attempts itself.
    """
    if attempt:
        return str(record.facts.get(ATTEMPT_WORKERS, {}).get(str(attempt), ""))
    return str(record.facts.get(WORKER, ""))


def working_worker(record: AgentLifecycle) -> str:
    """Return the worker that has an attempt of it under way; empty where none has.

    Then its coordinator decides on it, also while that is down: nothing else takes it over.
    """
    return worker_of(record) if isinstance(record.work, ACTIVE) else ""


def placed(
    facts: dict[str, Any], machine: str, worker: str = "", attempt: int = 0
) -> dict[str, Any]:
    """Return the facts of a record that this machine runs from now on.

    With its `worker`, who takes over the attempt that is named; the latest of them are remembered.
    """
    others = {name: value for name, value in facts.items() if name != WORKER}
    if not worker:
        return others | {MACHINE: machine}
    had = dict(facts.get(ATTEMPT_WORKERS, {})) | ({str(attempt): worker} if attempt else {})
    latest = dict(sorted(had.items(), key=lambda each: int(each[0]))[-_PLACED:])
    return others | {MACHINE: machine, WORKER: worker, ATTEMPT_WORKERS: latest}
