"""Facts that speak of one attempt, and the base of all facts.

Each carries the attempt's number and, where it speaks of a process, the id that was given to this:
a late word of an earlier attempt, or of a former process of the same one, moves nothing.
"""

from __future__ import annotations

from enum import StrEnum

from lifecycle.machine.frozen import frozen
from lifecycle.machine.opinion import Opinion  # noqa: TC001  # the codec resolves it at run time
from lifecycle.machine.states import (  # noqa: TC001  # as above
    AttemptOutcome,
    Gate,
    Process,
    Signal,
)
from runtime.agents.outcome import Ending  # noqa: TC001  # as above


class Fault(StrEnum):
    """Whose fault a failure is."""

    USER = "user"
    ENVIRONMENT = "environment"
    SHORTAGE = "shortage"
    """Of descriptors, processes, threads or memory: nothing is given up for it."""


@frozen
class Event:
    """Base of all events."""

    at: float


@frozen
class AttemptEvent(Event):
    """Base of all events that speak of one attempt."""

    attempt: int
    spawn_id: str = ""
    """Of the process that it speaks of, if of one; an attempt that was interrupted has several.

    Empty also in journals of earlier versions.
    """

    @property
    def speaks_of(self) -> str:
        """The same, also where it is said in another way."""
        return self.spawn_id


@frozen
class AgentReport:
    """What an agent's program itself told of an attempt, as its adapter judges it."""

    ended: Ending
    detail: str = ""
    """Why, in the program's words."""
    advice: str = ""
    """What a person does about it."""
    reset_at: float | None = None
    """When a usage limit ends, if the program named it."""
    model: str = ""
    session_id: str = ""
    tokens: int | None = None
    """All of them; None where the program does not say."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None
    tool_calls: int = 0
    denied: tuple[str, ...] = ()
    last_words: str = ""


@frozen
class WorkspaceReady(AttemptEvent):
    """Worktree and branch exist."""

    branch: str
    base_commit: str
    base_branch: str = ""
    path: str = ""
    baseline: tuple[Gate, ...] = ()
    """How the gates went before any work was done."""
    digest: str = ""
    """Of how they failed then; see `GatesFinished`."""
    merge: tuple[str, ...] = ()
    """Commits of dependencies that do not go together with it and are to be merged first."""
    on_top_of: tuple[str, ...] = ()
    """Tasks whose work it builds on, and that nobody accepted yet."""
    notes: tuple[str, ...] = ()


@frozen
class WorkspaceFailed(AttemptEvent):
    """Worktree or branch could not be made, or other work not be merged into it."""

    text: str
    fault: Fault
    conflicts: tuple[str, ...] = ()
    """Files in which the work that it builds on does not go together."""
    merge: tuple[str, ...] = ()
    """Commits that do not go together with the branch as it is."""


@frozen
class WorkJoined(AttemptEvent):
    """The branch holds the completed work of tasks that the agent was blocked on."""

    tasks: tuple[str, ...] = ()
    """Those whose work it holds now."""
    merge: tuple[str, ...] = ()
    """Commits of the others; they are to be merged by the agent."""
    apart: tuple[str, ...] = ()
    """Their tasks."""
    head: str = ""
    base: str = ""
    """Where the agent's own work begins now: above what was merged."""
    tree: str = ""


@frozen
class AgentSpawned(AttemptEvent):
    """The agent's process exists."""

    process: Process
    containment: str = ""
    """What it is shut into and held to, in words."""
    weaker: tuple[str, ...] = ()
    """What was asked for and is not given, and why."""
    log_start: int = 0
    """Where in the attempt's log its output begins."""

    @property
    def speaks_of(self) -> str:
        """The id of the process, which says it by itself."""
        return self.process.spawn_id


@frozen
class SpawnFailed(AttemptEvent):
    """The agent's process could not be started."""

    text: str
    fault: Fault


@frozen
class BreakpointReached(AttemptEvent):
    """The agent signalled a breakpoint and is still alive."""

    word: Signal


@frozen
class MailboxInvalid(AttemptEvent):
    """The agent's communications.json cannot be read as one."""

    problem: str


@frozen
class AgentExited(AttemptEvent):
    """The agent ended by itself; nothing of its tree is left."""

    exit_code: int | None = None
    signal: int | None = None
    word: Signal | None = None
    """The breakpoint found at the last look into the mailbox."""
    problem: str = ""
    """Why the mailbox could not be read at that look."""
    swept: int = 0
    """Processes it left behind and that were ended."""
    limit: str = ""
    """The limit of memory or processes that it met, by name."""
    interrupted: str = ""
    """Why its runner was about to end, or had to: that is what ended it, not the agent itself."""
    report: AgentReport | None = None
    """None where the program tells nothing."""


@frozen
class LimitReached(AttemptEvent):
    """The attempt ran too long, or nothing moved for too long."""

    idle: bool
    text: str


@frozen
class AttemptDoomed(AttemptEvent):
    """What the program reports while it works rules out that this attempt leads anywhere."""

    ended: Ending
    text: str
    reset_at: float | None = None
    advice: str = ""


@frozen
class FreezeFailed(AttemptEvent):
    """The agent's processes could not be held still; they work on."""

    text: str


@frozen
class AgentStopped(AttemptEvent):
    """The ordered end of the agent's tree is proven."""

    exit_code: int | None = None
    signal: int | None = None
    forced: bool = False
    swept: int = 0
    """Processes that had to be killed."""
    word: Signal | None = None
    report: AgentReport | None = None


@frozen
class RunnerRestarted(AttemptEvent):
    """A runner found this attempt under way, of which its predecessor lost sight.

    The agent's process is proven gone by the time this is told.
    """

    word: Signal | None = None
    swept: int = 0
    report: AgentReport | None = None
    last_sign: float | None = None
    """When it last wrote something, where nothing of it was alive any more."""
    began: bool = False
    """It has a log, made just before its process, and no earlier process had its number."""

    @property
    def lived(self) -> bool:
        """Tell whether it is seen that a process began, though nothing of it may be on record."""
        told = self.report
        if self.word is not None or self.swept or self.began:
            return True
        return told is not None and bool(
            told.session_id or told.tokens or told.cost_usd or told.tool_calls or told.last_words
        )


@frozen
class SnapshotTaken(AttemptEvent):
    """The facts at the end of an attempt."""

    head: str = ""
    tree: str = ""
    dirty: tuple[str, ...] = ()
    changed_files: tuple[str, ...] = ()
    commits: int = 0
    """Made by this attempt."""
    saved_ref: str = ""
    last_words: str = ""
    elsewhere: str = ""
    """Where the workspace stands, if its commit is not the one the agent's branch is at."""
    blocked_on: tuple[str, ...] = ()
    """What the agent waits for, with tasks by their ids."""
    tasks: tuple[str, ...] = ()
    """Those of `blocked_on` that are tasks."""
    joined: tuple[str, ...] = ()
    """Those of `tasks` that are complete and part of the branch, as the agent was told before."""
    notes: tuple[str, ...] = ()
    """What else the next attempt should know of its workspace."""
    code: str = ""
    """The whole work, where it is said to be done and is one file of text that is not long."""


@frozen
class SnapshotFailed(AttemptEvent):
    """The facts could not be gathered."""

    text: str
    fault: Fault = Fault.ENVIRONMENT


@frozen
class GatesFinished(AttemptEvent):
    """The task's verify commands ran on the committed tree."""

    gates: tuple[Gate, ...]
    flagged: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What else a person should know of the verdict."""
    problem: str = ""
    """Why they could not be run at all."""
    fault: Fault = Fault.ENVIRONMENT
    """Whose fault that is."""
    asks: str = ""
    """What a person has to decide before they can be run."""
    digest: str = ""
    """Of how they failed, alike for failures that differ in times, numbers and order alone."""
    lines: str = ""
    """Those lines of their output that tell most."""
    as_before: bool = False
    """They failed so before any work."""


@frozen
class ReviewFinished(AttemptEvent):
    """A reviewer read the commit, or could not."""

    opinion: Opinion | None = None
    """None where there is no answer that can be used: then `outcome` or `problem` says why."""
    outcome: AttemptOutcome | None = None
    """How a process ended that gave no such answer."""
    problem: str = ""
    """Why none could be started."""
    fault: Fault = Fault.ENVIRONMENT
    """Whose fault that is."""
    program: str = ""
    report: AgentReport | None = None
    """What the reviewer's program told of its run, which costs like any other."""
    seconds: float = 0.0
    """How long its process lived."""
