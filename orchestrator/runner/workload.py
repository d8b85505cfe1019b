"""What a runner is to do, how it ended, and its exit code: values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from lifecycle.machine.states import Reason, Rejected
from lifecycle.result import LoopResult, LoopResultType
from orchestrator.terminal import exits

if TYPE_CHECKING:
    from lifecycle.plan import Agent, Task
    from lifecycle.record import AgentLifecycle
    from lifecycle.store.damaged_records import Damaged
    from orchestrator.runner.server_interface import Beside

WORST_FIRST = (
    exits.INTERNAL_ERROR,
    exits.FAILED,
    exits.LIMIT_REACHED,
    exits.BLOCKED,
    exits.WAITING_OUTSIDE,
    exits.COMPLETE,
)
"""Of several loops the first of these codes counts; a signal comes before all."""

_CODES = {
    LoopResultType.TASK_COMPLETE: exits.COMPLETE,
    LoopResultType.BLOCKED: exits.BLOCKED,
    LoopResultType.PR_CREATED: exits.WAITING_OUTSIDE,
    LoopResultType.MAX_RETRIES: exits.LIMIT_REACHED,
    LoopResultType.ERROR: exits.FAILED,
    # Without a signal a loop is shut down only by a person who stopped or paused it.
    LoopResultType.SHUTDOWN: exits.BLOCKED,
}


_LIMITS = (Reason.BUDGET, Reason.USAGE_LIMIT)
"""Reasons of an end by a limit that a person can raise, or that passes."""


@dataclass(frozen=True, slots=True)
class Job:
    """One loop to run."""

    agent: Agent
    task: Task
    resume: bool = True
    """Whether a paused one continues at once."""
    after_reject: bool = False
    """Whether one that a person rejected begins again."""


@dataclass(frozen=True, slots=True)
class PlanChanges:
    """What is different in a plan, by the ids of its tasks."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


class PlanLoops(Protocol):
    """The loops of the runner, as far as a changed plan needs them."""

    def start(self, job: Job) -> None:
        """Start a loop."""
        ...

    async def stop(self, agent_id: str) -> Job | None:
        """End a loop with its record resumable; return what it ran."""
        ...

    def forget(self, agent_id: str) -> None:
        """Count it as never run."""
        ...

    def note(self, text: str) -> None:
        """Tell a person."""
        ...

    async def plan_read(self, plan: str, changes: PlanChanges) -> None:
        """Record that a plan was read again, and tell what of it waits for a person."""
        ...


class ReadsAgain(Protocol):
    """Reads a plan again while its tasks run."""

    async def watch(self, loops: PlanLoops) -> None:
        """Look again and again, until this is cancelled."""
        ...

    async def look(self, loops: PlanLoops) -> None:
        """Take up what changed since the last look."""
        ...


@dataclass(frozen=True, slots=True)
class Workload:
    """What to run, and which lifecycles a person holds."""

    jobs: tuple[Job, ...]
    held: tuple[AgentLifecycle, ...] = ()
    beside: Beside | None = None
    """What runs beside the loops; it may keep the runner alive when none is left."""
    damaged: tuple[Damaged, ...] = ()
    """Lifecycles that cannot be run: their records are unreadable."""
    reload: ReadsAgain | None = None
    """What reads the plan again, where it is a file."""

    @property
    def stays(self) -> bool:
        """Whether the runner waits for more when no loop is left."""
        return self.beside is not None and self.beside.stays


@dataclass(slots=True)
class RunResult:
    """The results of one call of `run` or `up`."""

    results: dict[str, LoopResult] = field(default_factory=dict)
    """By agent. A runner that stays keeps none: there may be any number, and the store has them."""
    codes: dict[str, int] = field(default_factory=dict)
    """The exit code of each loop, by agent, unless it completed."""
    records: dict[str, AgentLifecycle] = field(default_factory=dict)
    """Read from the store at the end."""
    held: tuple[AgentLifecycle, ...] = ()
    damaged: tuple[Damaged, ...] = ()
    defects: dict[str, str] = field(default_factory=dict)
    signal_code: int = 0

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        if self.signal_code:
            return self.signal_code
        codes = set(self.codes.values())
        if self.held or self.damaged:
            codes.add(exits.BLOCKED)
        if self.defects:
            codes.add(exits.INTERNAL_ERROR)
        return next((code for code in WORST_FIRST if code in codes), exits.COMPLETE)

    def settled(
        self, agent_id: str, result: LoopResult, record: AgentLifecycle | None, *, kept: bool
    ) -> None:
        """Record how a loop ended, in place of its earlier end."""
        code = code_of(result, record)
        if code == exits.COMPLETE:
            self.codes.pop(agent_id, None)
        else:
            self.codes[agent_id] = code
        if kept:
            self.results[agent_id] = result

    def forget(self, agent_id: str) -> None:
        """Count a loop as never run."""
        for known in (self.results, self.codes, self.records, self.defects):
            known.pop(agent_id, None)


def code_of(result: LoopResult, record: AgentLifecycle | None) -> int:
    """Return the exit code of one loop."""
    work = record.work if record is not None else None
    limited = isinstance(work, Rejected) and work.reason in _LIMITS
    if result.result_type is LoopResultType.ERROR and limited:
        return exits.LIMIT_REACHED
    return _CODES[result.result_type]
