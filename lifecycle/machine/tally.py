"""What is counted over the whole life of a lifecycle, through all its states."""

from __future__ import annotations

from enum import StrEnum

from lifecycle.machine.frozen import frozen
from lifecycle.machine.values import changed

ITS_BASE = "base"
"""Instead of a commit to merge: the branch that the work goes into, as it is by then."""


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


@frozen
class UnavailableProgram:
    """A program of the chain that takes no attempt for now."""

    program: str
    why: str
    until: float | None = None
    """None: until a person fixed it and resumes."""


@frozen
class RemarkReply:
    """What the agent answers to a reviewer."""

    remark: str
    """The id of the remark."""
    text: str


@frozen
class Tally:
    """What is counted over the whole life of a lifecycle."""

    attempt: int = 1
    """Number of the attempt under way, or of the next one."""
    spawn_count: int = 0
    """Processes that were started; an attempt that was interrupted has more than one."""
    begun: int = 0
    """Number of the latest attempt that got a process; 0 in records of earlier versions."""
    retry_count: int = 0
    """Retries that were granted since its task came into the queue: failed attempts with another
    one after them."""
    requeues: int = 0
    """Times that its task went back into the queue after it was given up, with all its retries."""
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
    resting: tuple[UnavailableProgram, ...] = ()
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
    """Attempts in a row that red checks or review bots of the same pull request woke."""
    conflicts: int = 0
    """Attempts in a row that were woken because the work does not go together with other work."""
    reviews: int = 0
    """Processes of reviewers that were started."""
    review_rounds: int = 0
    """Attempts in a row that findings of a reviewer woke."""
    review_failures: int = 0
    """Reviews in a row without an answer that can be used."""
    replies: tuple[RemarkReply, ...] = ()
    """Answers to reviewers that are posted when work is handed over."""
    merge: tuple[str, ...] = ()
    """Commits, or `ITS_BASE`, whose merge the next attempt finds begun in its workspace."""
    merge_head: str = ""
    """The completed work that could not be merged, if that is why."""
    wanted: Wanted = Wanted.NOTHING
    wanted_stop: bool = False
    """What holds it then is a person's stop, not a pause."""
    wanted_by: str = ""
    wanted_why: str = ""
    pause_turns: int = 0
    """Turns of the runner until the pause ends by itself; 0: not before somebody resumes it."""

    @property
    def attempts(self) -> int:
        """Attempts that got a process; earlier versions had `spawn_count` count these."""
        return self.begun or self.spawn_count

    def spawned(self) -> Tally:
        """Count a process, and its attempt if it is the first of it."""
        begun = max(self.attempts, self.attempt)
        return changed(self, spawn_count=self.spawn_count + 1, begun=begun)
