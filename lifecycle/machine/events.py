"""Facts, in the past tense, that may move a lifecycle.

Every event says when it happened. One that speaks of an attempt carries its number: a late word of
an earlier attempt never moves a later one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from lifecycle.machine.states import Ended, Gate, Process, Resting, Word  # noqa: TC001  # the codec resolves them at run time


class Fault(StrEnum):
    """Whose fault a failure is."""

    USER = "user"
    ENVIRONMENT = "environment"
    SHORTAGE = "shortage"
    """Of descriptors, processes, threads or memory: nothing is given up for it."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """Base of all events."""

    at: float


@dataclass(frozen=True, kw_only=True)
class AttemptEvent(Event):
    """Base of all events that speak of one attempt."""

    attempt: int


@dataclass(frozen=True, kw_only=True)
class Report:
    """What an agent's program itself told of an attempt, as its adapter judges it."""

    ended: Ended
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


@dataclass(frozen=True, kw_only=True)
class Admitted(Event):
    """The scheduler gave this lifecycle a place."""

    over: str = ""
    """Which budget is used up, and by how much."""
    resting: tuple[Resting, ...] = ()
    """Programs that other lifecycles found limited."""


@dataclass(frozen=True, kw_only=True)
class DependencySettled(Event):
    """A task this one depends on completed, or ended without completing."""

    task_id: str
    done: bool
    text: str = ""


@dataclass(frozen=True, kw_only=True)
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
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WorkspaceFailed(AttemptEvent):
    """Worktree or branch could not be made, or other work not be merged into it."""

    text: str
    fault: Fault
    conflicts: tuple[str, ...] = ()
    """Files in which the work that it builds on does not go together."""
    merge: tuple[str, ...] = ()
    """Commits that do not go together with the branch as it is."""


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class AgentSpawned(AttemptEvent):
    """The agent's process exists."""

    process: Process
    containment: str = ""
    """What it is shut into and held to, in words."""
    weaker: tuple[str, ...] = ()
    """What was asked for and is not given, and why."""
    log_start: int = 0
    """Where in the attempt's log its output begins."""


@dataclass(frozen=True, kw_only=True)
class SpawnFailed(AttemptEvent):
    """The agent's process could not be started."""

    text: str
    fault: Fault


@dataclass(frozen=True, kw_only=True)
class BreakpointReached(AttemptEvent):
    """The agent signalled a breakpoint and is still alive."""

    word: Word


@dataclass(frozen=True, kw_only=True)
class MailboxInvalid(AttemptEvent):
    """The agent's communications.json cannot be read as one."""

    problem: str


@dataclass(frozen=True, kw_only=True)
class AgentExited(AttemptEvent):
    """The agent ended by itself; nothing of its tree is left."""

    exit_code: int | None = None
    signal: int | None = None
    word: Word | None = None
    """The breakpoint found at the last look into the mailbox."""
    problem: str = ""
    """Why the mailbox could not be read at that look."""
    swept: int = 0
    """Processes it left behind and that were ended."""
    limit: str = ""
    """The limit of memory or processes that it met, by name."""
    report: Report | None = None
    """None where the program tells nothing."""


@dataclass(frozen=True, kw_only=True)
class LimitReached(AttemptEvent):
    """The attempt ran too long, or nothing moved for too long."""

    idle: bool
    text: str


@dataclass(frozen=True, kw_only=True)
class AttemptDoomed(AttemptEvent):
    """What the program reports while it works rules out that this attempt leads anywhere."""

    ended: Ended
    text: str
    reset_at: float | None = None
    advice: str = ""


@dataclass(frozen=True, kw_only=True)
class FreezeFailed(AttemptEvent):
    """The agent's processes could not be held still; they work on."""

    text: str


@dataclass(frozen=True, kw_only=True)
class AgentStopped(AttemptEvent):
    """The ordered end of the agent's tree is proven."""

    exit_code: int | None = None
    signal: int | None = None
    forced: bool = False
    swept: int = 0
    """Processes that had to be killed."""
    word: Word | None = None
    report: Report | None = None


@dataclass(frozen=True, kw_only=True)
class RunnerRestarted(AttemptEvent):
    """A runner found this attempt under way, of which its predecessor lost sight.

    The agent's process is proven gone by the time this is told.
    """

    word: Word | None = None
    swept: int = 0
    report: Report | None = None
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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class SnapshotFailed(AttemptEvent):
    """The facts could not be gathered."""

    text: str
    fault: Fault = Fault.ENVIRONMENT


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class BlockersLooked(Event):
    """The blockers were looked at."""

    done: tuple[str, ...] = ()
    """Those of `blocked_on` that are tasks and are done."""
    tasks: tuple[str, ...] = ()
    """Those that are tasks."""
    failed: tuple[str, ...] = ()
    """Those that ended without completing."""
    why: str = ""
    """What the first of these ended with."""
    ci: str = ""
    """green, red, pending, none or nothing for the branch's head."""
    text: str = ""
    circle: tuple[str, ...] = ()
    """Tasks that wait for each other, from this one back to this one; empty if it is in none."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """One of several things from outside: a failed check, a reviewer's remark. Data only."""

    title: str
    text: str = ""
    url: str = ""


@dataclass(frozen=True, kw_only=True)
class CiReported(Event):
    """CI said something final about a commit of this branch."""

    type: str
    green: bool
    sha: str = ""
    text: str = ""
    excerpt: str = ""
    url: str = ""
    details: tuple[Told, ...] = ()
    earlier: bool = False
    """The commit is one of those below the head of the branch, or of an earlier attempt."""
    handed: bool = False
    """It comes from the caller of the library, not from the provider."""


class PrFate(StrEnum):
    """What happened to a pull request."""

    MERGED = "merged"
    CLOSED = "closed"
    CHECKS_FAILED = "checks_failed"
    CONFLICT = "conflict"


@dataclass(frozen=True, kw_only=True)
class PullRequestOpened(Event):
    """The provider knows the pull request."""

    number: int
    url: str


@dataclass(frozen=True, kw_only=True)
class PullRequestUnknown(Event):
    """The provider could not be asked, or does not know the pull request."""

    text: str
    fault: Fault


@dataclass(frozen=True, kw_only=True)
class PullRequestMoved(Event):
    """The pull request met its fate."""

    fate: PrFate
    number: int
    sha: str = ""
    text: str = ""
    excerpt: str = ""
    url: str = ""
    details: tuple[Told, ...] = ()
    asked: bool = False
    """It is the answer to a question of ours, so it is about the present head."""


@dataclass(frozen=True, kw_only=True)
class Reviewed(Event):
    """Reviewers said something about the pull request that the agent has to know."""

    number: int
    sha: str = ""
    text: str = ""
    url: str = ""
    details: tuple[Told, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DeadlinePassed(Event):
    """The instant that the state names has come."""


@dataclass(frozen=True, kw_only=True)
class PersonEvent(Event):
    """Base of what people ask for."""

    by: str = ""


@dataclass(frozen=True, kw_only=True)
class Unblocked(PersonEvent):
    """A person says that the blocker is gone."""

    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Answered(PersonEvent):
    """A person answered the agent's question."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Guided(PersonEvent):
    """A person has something to say to the next attempt."""

    text: str


@dataclass(frozen=True, kw_only=True)
class SummaryApproved(PersonEvent):
    """A person released the next attempt with its summary."""


@dataclass(frozen=True, kw_only=True)
class PauseRequested(PersonEvent):
    """No new attempt after the present one; `now` also freezes the process under way."""

    now: bool = False


@dataclass(frozen=True, kw_only=True)
class ResumeRequested(PersonEvent):
    """Go on."""


@dataclass(frozen=True, kw_only=True)
class StopRequested(PersonEvent):
    """End the present attempt now, keep its work; `pause` also holds the next one."""

    pause: bool = False


@dataclass(frozen=True, kw_only=True)
class AcceptRequested(PersonEvent):
    """A person accepts the work."""

    along: bool = False
    """With work of others that comes along and was not accepted."""
    verify: bool = True
    """Only if the merged files pass the verify commands."""


@dataclass(frozen=True, kw_only=True)
class RejectRequested(PersonEvent):
    """A person does not want the work."""

    why: str = ""


@dataclass(frozen=True, kw_only=True)
class MergeSucceeded(Event):
    """The branch is part of its base."""

    commit: str
    into: str = ""
    """The branch that a person merged it into, where that is not the one it was to go into."""


@dataclass(frozen=True, kw_only=True)
class MergeFailed(Event):
    """The branch could not be merged; everything is as it was."""

    text: str
    conflicts: tuple[str, ...] = field(default=())
    along: tuple[str, ...] = ()
    """Agents whose work would come along, and that nobody accepted."""
    gates: tuple[Gate, ...] = ()
    """How the merged files were judged, if red."""
    commit: str = ""
    """The merge that was judged; no branch holds it."""
    between: tuple[str, ...] = ()
    """What came into the base since the work was judged: agents, or commits."""

    @property
    def apart(self) -> bool:
        """Tell whether the two sides do not go together, which an agent can mend."""
        return bool(self.conflicts or self.gates)


@dataclass(frozen=True, kw_only=True)
class AlongAccepted(Event):
    """Work of another agent, which would have come along, was accepted."""

    agent_id: str


@dataclass(frozen=True, kw_only=True)
class WorkspaceRemoved(Event):
    """Worktree and branch are gone; unmerged work is kept under `saved_ref`."""

    saved_ref: str = ""
    problem: str = ""
