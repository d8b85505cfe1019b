"""Events: facts, in the past tense, that may move a lifecycle.

Every event says when it happened. One that speaks of an attempt carries its number: a late word of
an earlier attempt never moves a later one.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum

from lifecycle.machine.attempt_events import AgentExited as AgentExited
from lifecycle.machine.attempt_events import AgentReport as AgentReport
from lifecycle.machine.attempt_events import AgentSpawned as AgentSpawned
from lifecycle.machine.attempt_events import AgentStopped as AgentStopped
from lifecycle.machine.attempt_events import AttemptDoomed as AttemptDoomed
from lifecycle.machine.attempt_events import AttemptEvent as AttemptEvent
from lifecycle.machine.attempt_events import BreakpointReached as BreakpointReached
from lifecycle.machine.attempt_events import Event as Event
from lifecycle.machine.attempt_events import Fault as Fault
from lifecycle.machine.attempt_events import FreezeFailed as FreezeFailed
from lifecycle.machine.attempt_events import GatesFinished as GatesFinished
from lifecycle.machine.attempt_events import LimitReached as LimitReached
from lifecycle.machine.attempt_events import MailboxInvalid as MailboxInvalid
from lifecycle.machine.attempt_events import ReviewFinished as ReviewFinished
from lifecycle.machine.attempt_events import RunnerRestarted as RunnerRestarted
from lifecycle.machine.attempt_events import SnapshotFailed as SnapshotFailed
from lifecycle.machine.attempt_events import SnapshotTaken as SnapshotTaken
from lifecycle.machine.attempt_events import SpawnFailed as SpawnFailed
from lifecycle.machine.attempt_events import WorkJoined as WorkJoined
from lifecycle.machine.attempt_events import WorkspaceFailed as WorkspaceFailed
from lifecycle.machine.attempt_events import WorkspaceReady as WorkspaceReady
from lifecycle.machine.frozen import frozen
from lifecycle.machine.states import Gate, UnavailableProgram  # noqa: TC001  # the codec resolves them at run time


@frozen
class Admitted(Event):
    """The scheduler gave this lifecycle a slot."""

    over: str = ""
    """Which budget is used up, and by how much."""
    resting: tuple[UnavailableProgram, ...] = ()
    """Programs that other lifecycles found limited."""


@frozen
class DependencySettled(Event):
    """A task this one depends on completed, or ended without completing."""

    task_id: str
    done: bool
    text: str = ""


@frozen
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


@frozen
class Detail:
    """One of several things from outside: a failed check, a reviewer's remark. Data only."""

    title: str
    text: str = ""
    url: str = ""
    id: str = ""
    """By which an agent replies to a remark."""


@frozen
class CiReported(Event):
    """CI said something final about a commit of this branch."""

    type: str
    green: bool
    sha: str = ""
    text: str = ""
    excerpt: str = ""
    url: str = ""
    details: tuple[Detail, ...] = ()
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


@frozen
class PullRequestOpened(Event):
    """The provider knows the pull request."""

    number: int
    url: str


@frozen
class PullRequestUnknown(Event):
    """The provider could not be asked, or does not know the pull request."""

    text: str
    fault: Fault


@frozen
class PullRequestMoved(Event):
    """A pull request met its fate; to who is blocked that is a report of CI like any other."""

    fate: PrFate
    number: int
    sha: str = ""
    text: str = ""
    excerpt: str = ""
    url: str = ""
    details: tuple[Detail, ...] = ()
    asked: bool = False
    """It is the answer to a question of ours, so it is about the present head."""
    earlier: bool = False
    handed: bool = False
    """As in `CiReported`."""

    @property
    def type(self) -> str:
        """What a provider calls it."""
        return f"pr_{self.fate}"

    @property
    def green(self) -> bool:
        """Tell whether it is what was hoped for."""
        return self.fate is PrFate.MERGED


FromCi = CiReported | PullRequestMoved
"""What a provider reports of a commit or a pull request."""


@frozen
class Reviewed(Event):
    """Reviewers said something about the pull request that the agent has to know."""

    number: int
    sha: str = ""
    text: str = ""
    url: str = ""
    details: tuple[Detail, ...] = ()
    by_bots: bool = False
    """No person said any of it, as far as the forge tells."""


@frozen
class DeadlinePassed(Event):
    """The instant that the state names has come."""


@frozen
class TurnPassed(Event):
    """The runner let a turn pass: an attempt of any lifecycle began, or none could for a while."""


@frozen
class PersonEvent(Event):
    """Base of what people ask for."""

    by: str = ""
    why: str = ""
    """The reason, kept with the request."""


@frozen
class Unblocked(PersonEvent):
    """A person says that the blocker is gone."""

    note: str = ""


@frozen
class Answered(PersonEvent):
    """A person answered the agent's question."""

    text: str


@frozen
class Guided(PersonEvent):
    """A person has something to say to the next attempt."""

    text: str


@frozen
class SummaryApproved(PersonEvent):
    """A person released the next attempt with its summary."""


@frozen
class PauseRequested(PersonEvent):
    """No new attempt after the present one; `now` also freezes the process under way."""

    now: bool = False
    turns: int = 0
    """Turns of the runner after which it ends by itself; 0: not before somebody resumes it."""


@frozen
class ResumeRequested(PersonEvent):
    """Continue; what was given up goes back into the queue with all its retries, if `anew`."""

    anew: bool = False


@frozen
class StopRequested(PersonEvent):
    """End the present attempt now, keep its work; `pause` also holds the next one."""

    pause: bool = False


@frozen
class AcceptRequested(PersonEvent):
    """A person accepts the work."""

    along: bool = False
    """With work of others that comes along and was not accepted."""
    verify: bool = True
    """Only if the merged files pass the verify commands."""
    head: str = ""
    """The commit that the person looked at, or how its id begins; nothing else is merged then."""


@frozen
class RejectRequested(PersonEvent):
    """A person does not want the work."""


@frozen
class MergeSucceeded(Event):
    """The branch is part of its base."""

    commit: str
    into: str = ""
    """The branch that a person merged it into, where that is not the one it was to go into."""


@frozen
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
        """Tell whether the two sides conflict, which an agent can fix."""
        return bool(self.conflicts or self.gates)


@frozen
class AlongAccepted(Event):
    """Work of another agent, which would have come along, was accepted."""

    agent_id: str


@frozen
class WorkspaceRemoved(Event):
    """Worktree and branch are gone; unmerged work is kept under `saved_ref`."""

    saved_ref: str = ""
    problem: str = ""
