"""The work states of a lifecycle, each with exactly the data that is legal in it.

Everything here is an immutable value. Only `lifecycle.machine` builds a state that follows another;
who else needs one (store, views) only reads it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from lifecycle.machine.values import changed


class Coarse(StrEnum):
    """The five states users query by; always derived from the work state."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    REJECTED = "rejected"
    ACCEPTED = "accepted"


class Wanted(StrEnum):
    """What somebody asked for while an attempt was under way; carried out at its end."""

    NOTHING = ""
    PAUSE = "pause"
    """Hold after this attempt."""
    STOP = "stop"
    """End this attempt at once; it may start again."""
    HOLD = "hold"
    """End this attempt at once, then hold."""
    REJECT = "reject"
    """End this attempt at once and the lifecycle with it."""


class Ended(StrEnum):
    """How an attempt ended; `endings` says what follows from each, and who pays for it."""

    BREAKPOINT = "breakpoint"
    NO_BREAKPOINT = "no_breakpoint"
    INVALID_BREAKPOINT = "invalid_breakpoint"
    WAITING = "waiting"
    RATE_LIMIT = "rate_limit"
    QUOTA = "quota"
    BILLING = "billing"
    AUTH = "auth"
    OVERLOADED = "overloaded"
    NETWORK = "network"
    CONTEXT_OVERFLOW = "context_overflow"
    MODEL = "model"
    REFUSED = "refused"
    DENIED = "denied"
    MAX_TURNS = "max_turns"
    BUDGET = "budget"
    LOOP = "loop"
    HANG = "hang"
    TIMEOUT = "timeout"
    CRASH = "crash"
    KILLED = "killed"
    LIMIT = "limit"
    ENVIRONMENT = "environment"
    ERROR = "error"
    INTERRUPTED = "interrupted"


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


ITS_BASE = "base"
"""In place of a commit to merge: the branch that the work goes into, as it is by then."""


@dataclass(frozen=True, kw_only=True)
class Word:
    """A breakpoint as the agent signalled it."""

    type: str
    """One of task_complete, blocked, pr_created, question."""
    summary: str = ""
    blocked_on: tuple[str, ...] = ()
    reason: str = ""
    pr_url: str = ""
    question: str = ""


@dataclass(frozen=True, kw_only=True)
class Process:
    """Which operating system process an attempt is; never a bare pid."""

    pid: int
    start_time: int
    boot_id: str
    spawn_id: str


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an attempt ended and what shows it."""

    ended: Ended
    text: str = ""
    word: Word | None = None
    exit_code: int | None = None
    signal: int | None = None
    reset_at: float | None = None
    """When a usage limit ends, if the program named it."""
    advice: str = ""
    """What a person does about it."""


@dataclass(frozen=True, kw_only=True)
class Resting:
    """A program of the chain that takes no attempt for now."""

    program: str
    why: str
    until: float | None = None
    """None: until a person mended it and resumes."""


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class Tally:
    """What is counted over the whole life of a lifecycle."""

    attempt: int = 1
    """Number of the attempt under way, or of the next one."""
    spawn_count: int = 0
    """Attempts that got a process; one that the runner itself interrupted keeps its number."""
    retry_count: int = 0
    """Retries that were granted: failed attempts with another one after them."""
    interruptions: int = 0
    """Times an attempt was cut short by the runner's own end or a person's stop."""
    stuck: int = 0
    """Attempts in a row without progress: nothing changed, and nothing new was said."""
    trips: int = 0
    """Times in a row that a person was waited for because nothing moved."""
    open_since: float | None = None
    """When the first of them was, unless a person spoke since."""
    same_gate: str = ""
    """Digest of how the verify commands failed last."""
    same_gates: int = 0
    """Verdicts in a row that failed so."""
    signature: str = ""
    """Of the latest failure."""
    tree: str = ""
    """Fingerprint of the workspace after the latest attempt."""
    moved: bool = False
    """The latest attempt changed the tree or committed."""
    said: str = ""
    """The latest breakpoint in words."""
    said_new: bool = False
    """The latest attempt said something that the one before did not."""
    program: str = ""
    """Which program of the chain the attempt under way, or the latest, is."""
    resting: tuple[Resting, ...] = ()
    """Programs of the chain that are limited, broken or not fit to run."""
    limits: int = 0
    """Attempts in a row that met a usage limit; they cost no retry."""
    limited_since: float | None = None
    """When the first of them did."""
    troubles: int = 0
    """Attempts in a row that failed for the provider's trouble or the network's; nor do they."""
    unfit: int = 0
    """Attempts in a row that program or machine were not fit to run; nor do they."""
    blocked_on: str = ""
    """What the latest blocked attempt waited for."""
    depends_on: tuple[str, ...] = ()
    """Tasks that the agent was blocked on: from then on it depends on them."""
    faults: int = 0
    """Environment failures in a row; they cost no retry but stop at their own limit."""
    shortages: int = 0
    """Times in a row that the machine was short of something; they only lengthen the wait."""
    ci_fixes: int = 0
    """Attempts in a row that were woken to mend red checks of the same pull request."""
    conflicts: int = 0
    """Attempts in a row that were woken because the work does not go together with other work."""
    merge: tuple[str, ...] = ()
    """Commits, or `ITS_BASE`, whose merge the next attempt finds begun in its workspace."""
    merge_head: str = ""
    """The completed work that could not be merged, if that is why."""
    wanted: Wanted = Wanted.NOTHING
    wanted_stop: bool = False
    """What holds it then is a person's stop, not a pause."""
    wanted_by: str = ""
    wanted_why: str = ""


@dataclass(frozen=True, kw_only=True)
class State:
    """Base of all work states."""

    tally: Tally = field(default_factory=Tally)


@dataclass(frozen=True, kw_only=True)
class Queued(State):
    """Not begun: waits for dependencies, then for a place."""

    waiting_on: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Preparing(State):
    """The workspace is being made and the gates' baseline taken."""


@dataclass(frozen=True, kw_only=True)
class Spawning(State):
    """An agent process is ordered; whether it exists is not known yet."""


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class Stopping(State):
    """The agent's process tree is being ended."""

    process: Process
    outcome: Outcome
    log_start: int = 0
    """Where in the attempt's log its output begins."""


@dataclass(frozen=True, kw_only=True)
class Capturing(State):
    """The process is gone; its work is saved and the facts are gathered."""

    outcome: Outcome
    again_at: float | None = None
    """When to try once more after the snapshot failed."""


@dataclass(frozen=True, kw_only=True)
class Verifying(State):
    """The agent says it is done; the task's gates are asked."""

    word: Word
    head: str
    changed_files: tuple[str, ...] = ()
    again_at: float | None = None
    """When to try once more after the gates could not be run."""
    setup_approved: bool = False
    """A person lets the set-up of this commit use the network."""


@dataclass(frozen=True, kw_only=True)
class Blocked(State):
    """The agent cannot go on until something outside happens."""

    since: float
    until: float
    word: Word
    head: str = ""
    ci: str = ""
    """The verdict on the branch when the blockers were last looked at."""
    cleared: tuple[str, ...] = ()
    """What is over of that which is no task."""
    heard: str = ""
    """What cleared it."""


@dataclass(frozen=True, kw_only=True)
class PrPending(State):
    """A pull request waits for its merge."""

    since: float
    until: float
    word: Word
    url: str = ""
    number: int | None = None
    head: str = ""
    """The branch's newest commit when the wait began."""


@dataclass(frozen=True, kw_only=True)
class BackingOff(State):
    """Waits for an instant and a place; then the next attempt starts."""

    until: float
    why: str
    prepare: bool = False
    """The workspace is still to be made."""
    approved: bool = False
    """A person has read and released the summary of the next attempt."""
    fixed: bool = False
    """The instant is the provider's; a pause does not move it."""
    verify: Verifying | None = None
    """What goes on instead of a next attempt: the gates of the latest."""


@dataclass(frozen=True, kw_only=True)
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
    verify: Verifying | None = None
    """The gates that could not run before a person decided."""


@dataclass(frozen=True, kw_only=True)
class Suspended(State):
    """Paused or stopped by a person; the clocks of the inner wait stand still."""

    inner: State
    since: float
    stopped: bool = False
    """By a stop, not by a pause."""


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class Accepted(State):
    """Merged into its base."""

    commit: str
    summary: str = ""
    changed_files: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
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
"""One attempt is under way; these hold a place."""

WAITS: tuple[type[State], ...] = (Queued, Blocked, PrPending, BackingOff, AwaitingHuman)
"""No process, no place."""

TERMINAL: tuple[type[State], ...] = (Accepted, Rejected)

ALL: tuple[type[State], ...] = (*WAITS, *ACTIVE, Suspended, Completed, *TERMINAL)

COARSE: dict[type[State], Coarse] = {
    Queued: Coarse.QUEUED,
    Completed: Coarse.COMPLETED,
    Accepted: Coarse.ACCEPTED,
    Rejected: Coarse.REJECTED,
    **dict.fromkeys((*ACTIVE, Blocked, PrPending, BackingOff, AwaitingHuman), Coarse.RUNNING),
    Suspended: Coarse.RUNNING,
}


def coarse(state: State) -> Coarse:
    """Return the state users query by."""
    return COARSE[type(state)]


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


S = TypeVar("S", bound=State)


def counted(state: S, **changes: object) -> S:
    """Return the same state with changed counters."""
    return changed(state, tally=changed(state.tally, **changes))
