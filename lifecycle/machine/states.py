"""The work states of a lifecycle, each with exactly the data that is legal in it.

Everything here is an immutable value. Only `lifecycle.machine` builds a state that follows another;
who else needs one (store, views) only reads it.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import TypeVar

from lifecycle.machine.frozen import frozen
from lifecycle.machine.opinion import GreenGates  # noqa: TC001  # the codec resolves it at run time
from lifecycle.machine.tally import ITS_BASE as ITS_BASE
from lifecycle.machine.tally import RemarkReply as RemarkReply
from lifecycle.machine.tally import Tally as Tally
from lifecycle.machine.tally import UnavailableProgram as UnavailableProgram
from lifecycle.machine.tally import Wanted as Wanted
from lifecycle.machine.values import changed
from runtime.agents.outcome import Ending  # noqa: TC001  # the codec resolves it at run time


class AgentState(StrEnum):
    """The five states users query by; always derived from the work state."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    REJECTED = "rejected"
    ACCEPTED = "accepted"


PLAIN_MOVES: dict[AgentState, tuple[AgentState, ...]] = {
    AgentState.QUEUED: (AgentState.RUNNING, AgentState.REJECTED),
    AgentState.RUNNING: (AgentState.COMPLETED, AgentState.REJECTED, AgentState.QUEUED),
    AgentState.COMPLETED: (AgentState.ACCEPTED, AgentState.REJECTED, AgentState.RUNNING),
    AgentState.REJECTED: (AgentState.QUEUED, AgentState.RUNNING),
    AgentState.ACCEPTED: (),
}
"""What may follow in a record that no loop drives; the same state may be written again."""


class Reason(StrEnum):
    """Why a lifecycle ended as rejected."""

    PERSON = "person"
    MAX_RETRIES = "max_retries"
    BUDGET = "budget"
    USAGE_LIMIT = "usage_limit"
    ENVIRONMENT = "environment"
    ERROR = "error"


class About(StrEnum):
    """What a person is waited for."""

    QUESTION = "question"
    REVIEW = "review"
    BLOCKED_TIMEOUT = "blocked_timeout"
    PR_TIMEOUT = "pr_timeout"
    CI_LIMIT = "ci_limit"
    NO_PROGRESS = "no_progress"
    DEPENDENCY = "dependency"
    SETUP = "setup"
    CONFLICT = "conflict"
    OPINION = "second_opinion"


@frozen
class Signal:
    """A breakpoint as the agent signalled it."""

    type: str
    """One of task_complete, blocked, pr_created, question."""
    summary: str = ""
    blocked_on: tuple[str, ...] = ()
    reason: str = ""
    pr_url: str = ""
    question: str = ""
    replies: tuple[RemarkReply, ...] = ()


@frozen
class Process:
    """Which operating system process an attempt is; never a bare pid."""

    pid: int
    start_time: int
    boot_id: str
    spawn_id: str


@frozen
class AttemptOutcome:
    """How an attempt ended and what shows it."""

    ended: Ending
    text: str = ""
    word: Signal | None = None
    exit_code: int | None = None
    signal: int | None = None
    reset_at: float | None = None
    """When a usage limit ends, if the program named it."""
    advice: str = ""
    """What a person does about it."""


@frozen
class Gate:
    """One verify command and how it went."""

    command: str
    ok: bool
    code: int | None = None
    excerpt: str = ""
    seconds: float = 0.0
    how: str = ""
    """What ended it, where it was neither its own code nor its time."""

    @property
    def end(self) -> str:
        """Say how it ended."""
        if self.how:
            return self.how
        return "ran out of time" if self.code is None else f"ended with code {self.code}"


@frozen
class State:
    """Base of all work states."""

    tally: Tally = field(default_factory=Tally)


@frozen
class Queued(State):
    """Not started: waits for dependencies, then for a slot."""

    waiting_on: tuple[str, ...] = ()


@frozen
class Preparing(State):
    """The workspace is being made and the gates' baseline taken."""


@frozen
class Spawning(State):
    """An agent process is ordered; whether it exists is not known yet."""

    spawn_id: str = ""
    """Of the process that is ordered."""
    ending: AttemptOutcome | None = None
    """How it is to be ended once its start is told: it spoke, or met a limit, before that."""


@frozen
class Working(State):
    """An agent process works on the task."""

    process: Process
    since: float
    frozen: bool = False
    """A person had the process held still."""
    containment: str = ""
    """What the process is shut into and held to, in words."""
    log_start: int = 0
    """Where in the attempt's log its output begins."""


@frozen
class Stopping(State):
    """The agent's process tree is being ended."""

    process: Process
    outcome: AttemptOutcome
    log_start: int = 0
    """Where in the attempt's log its output begins."""


@frozen
class Capturing(State):
    """The process is gone; its work is saved and the facts are gathered."""

    outcome: AttemptOutcome
    again_at: float | None = None
    """When to try once more after the snapshot failed."""
    spawn_id: str = ""
    """Of the process that is gone."""


@frozen
class Verifying(State):
    """The agent says it is done; the task's gates are asked, then a reviewer if there is one."""

    word: Signal
    head: str
    changed_files: tuple[str, ...] = ()
    again_at: float | None = None
    """When to try once more after the gates could not be run."""
    setup_approved: bool = False
    """A person lets the set-up of this commit use the network."""
    green: GreenGates | None = None
    """The gates passed; the second opinion is waited for."""


@frozen
class Blocked(State):
    """The agent cannot continue until something outside happens."""

    since: float
    until: float
    word: Signal
    head: str = ""
    ci: str = ""
    """The verdict on the branch when the blockers were last looked at."""
    cleared: tuple[str, ...] = ()
    """The parts that are settled and are not tasks."""
    heard: str = ""
    """What cleared it."""


@frozen
class PrPending(State):
    """A pull request waits for its merge."""

    since: float
    until: float
    word: Signal
    url: str = ""
    number: int | None = None
    head: str = ""
    """The branch's newest commit when the wait began."""
    problem: str = ""
    """Why there is no pull request yet, or why it cannot be read."""
    reminded: int = 0
    """How often a person was reminded of it."""


@frozen
class BackingOff(State):
    """Waits for a time and a slot; then the next attempt starts."""

    until: float
    why: str
    prepare: bool = False
    """The workspace is still to be made."""
    approved: bool = False
    """A person has read and released the summary of the next attempt."""
    fixed: bool = False
    """The instant is the provider's; a pause does not move it."""
    verify: Verifying | None = None
    """What is repeated instead of a next attempt: the gates of the latest, or its review."""


@frozen
class AwaitingHuman(State):
    """Only a person can move it on."""

    about: About
    text: str
    since: float
    until: float | None = None
    blocked_on: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    """Those of `blocked_on` that ended without completing."""
    joined: tuple[str, ...] = ()
    """Those of `blocked_on` that are complete and part of the branch, as the agent was told."""
    circle: tuple[str, ...] = ()
    """Tasks that wait for each other, from this one back to this one."""
    reason: str = ""
    """Why it is blocked, in the agent's words, where the text is the runner's."""
    cleared: tuple[str, ...] = ()
    heard: str = ""
    """As in `Blocked`."""
    head: str = ""
    """The commit that the wait given up was about."""
    url: str = ""
    number: int | None = None
    """Of the pull request that still waits."""
    signalled_url: str = ""
    """Its address as the agent signalled it, where it did."""
    verify: Verifying | None = None
    """The gates that could not run before a person decided, or the review that did not approve."""


@frozen
class Suspended(State):
    """Paused or stopped by a person; the clocks of the inner wait stand still."""

    inner: State
    since: float
    stopped: bool = False
    """By a stop, not by a pause."""


@frozen
class Completed(State):
    """Gates passed; awaits a person's review."""

    summary: str
    head: str = ""
    changed_files: tuple[str, ...] = ()
    flagged: tuple[str, ...] = ()
    """Changed files that belong to the tests or gates themselves."""
    notes: tuple[str, ...] = ()
    """What else a person should know of the verdict."""
    passed: tuple[str, ...] = ()
    """The verify commands that the head passed."""
    merging: bool = False
    problem: str = ""
    """Why the latest attempt to merge was refused."""
    along: tuple[str, ...] = ()
    """Agents that were the reason: their work would come along, and nobody accepted it."""
    resolves: str = ""
    """The head that was accepted before and could not be merged; this one resolves that."""


@frozen
class Accepted(State):
    """Merged into its base."""

    commit: str
    summary: str = ""
    changed_files: tuple[str, ...] = ()


@frozen
class Rejected(State):
    """Ended without acceptance; `text` names rule and evidence."""

    reason: Reason
    text: str


ACTIVE: tuple[type[State], ...] = (
    Preparing,
    Spawning,
    Working,
    Stopping,
    Capturing,
    Verifying,
)
"""One attempt is under way; these hold a slot."""

WAITS: tuple[type[State], ...] = (Queued, Blocked, PrPending, BackingOff, AwaitingHuman)
"""No process, no slot."""

TERMINAL: tuple[type[State], ...] = (Accepted, Rejected)

ALL: tuple[type[State], ...] = (*WAITS, *ACTIVE, Suspended, Completed, *TERMINAL)

COARSE: dict[type[State], AgentState] = {
    Queued: AgentState.QUEUED,
    Completed: AgentState.COMPLETED,
    Accepted: AgentState.ACCEPTED,
    Rejected: AgentState.REJECTED,
    **dict.fromkeys((*ACTIVE, Blocked, PrPending, BackingOff, AwaitingHuman), AgentState.RUNNING),
    Suspended: AgentState.RUNNING,
}


def coarse(state: State) -> AgentState:
    """Return the state users query by."""
    return COARSE[type(state)]


def attempt_of(state: State) -> int:
    """Return the number of the attempt under way, else of the latest that got a process."""
    return state.tally.attempt if isinstance(state, ACTIVE) else state.tally.attempts


def spawn_of(state: State) -> str | None:
    """Return the id of the process that an attempt is or was; None in states without one.

    Empty where an earlier version did not write it down.
    """
    match state:
        case Working(process=process) | Stopping(process=process):
            return process.spawn_id
        case Spawning(spawn_id=spawn_id) | Capturing(spawn_id=spawn_id):
            return spawn_id
        case _:
            return None


def next_instant(state: State) -> float | None:
    """Return when the owner must deliver `DeadlinePassed`, if ever."""
    match state:
        case Blocked(until=until) | PrPending(until=until):
            return until
        case Capturing(again_at=again_at) | Verifying(again_at=again_at):
            return again_at
        case AwaitingHuman(until=until):
            return until
        case _:
            return None


def is_held(state: State | None) -> bool:
    """Tell whether a person holds a lifecycle, now or after the attempt under way."""
    if state is None:
        return False
    return isinstance(state, Suspended) or state.tally.wanted in (Wanted.PAUSE, Wanted.HOLD)


S = TypeVar("S", bound=State)


def counted(state: S, **changes: object) -> S:
    """Return the same state with changed counters."""
    return changed(state, tally=changed(state.tally, **changes))
