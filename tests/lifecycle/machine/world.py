"""A world that carries out what the machine orders; agents, people and crashes happen in it.

It tells only what can be true: a process is spawned because it was ordered, and exits once. So it
can prove what no single step shows: never two agents alive, no wait that nothing can end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.opinion import Opinion
from lifecycle.machine.states import (
    ACTIVE,
    About,
    Accepted,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Capturing,
    Completed,
    PrPending,
    Queued,
    Rejected,
    Signal,
    Spawning,
    State,
    Stopping,
    Suspended,
    Verifying,
    Wanted,
    Working,
    is_held,
    next_instant,
)
from tests.lifecycle.machine.laws import OPENED_BY, lawful
from tests.lifecycle.machine.playbook import PROCESS

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.machine.policy import Policy


class World:
    """One lifecycle and everything around it."""

    def __init__(self, policy: Policy, waiting_on: tuple[str, ...]) -> None:
        self.policy = policy
        self.first: State = Queued(waiting_on=waiting_on)
        self.state: State = self.first
        self.journal: list[on.Event] = []
        self.clock = 0.0
        self.orders: list[do.Effect] = []
        self.alive = 0
        self.settled: dict[str, bool] = {}
        """Tasks that came to an end, and whether they completed."""
        self.hold_owed = self.reject_owed = False

    # --- telling ------------------------------------------------------------------------------

    def tell(self, kind: type[on.Event], **said: Any) -> bool:
        """Tell the machine a fact; say whether it was news."""
        if issubclass(kind, on.AttemptEvent):
            said.setdefault("attempt", self.state.tally.attempt)
        event = kind(at=self.clock, **said)
        before = self.state
        step = lawful(before, event, self.policy)
        if step is None:
            return False
        self.journal.append(event)
        self.orders += step.effects
        self.state = step.state
        self._keeps_its_word(before, event)
        if isinstance(before, AwaitingHuman) and isinstance(self.state, Queued):
            self._tell_again()
        return not step.late

    def _tell_again(self) -> None:
        """Who queues again must be told what is known already: nobody will tell it twice."""
        for task_id, done in tuple(self.settled.items()):
            self.tell(on.DependencySettled, task_id=task_id, done=done)

    def _keeps_its_word(self, before: State, event: on.Event) -> None:
        """What a person asked for during an attempt is carried out when it lands."""
        if type(before) in ACTIVE:
            if isinstance(event, on.PauseRequested) or (
                isinstance(event, on.StopRequested) and event.pause
            ):
                self.hold_owed = True
            turns_over = isinstance(event, on.TurnPassed) and not is_held(self.state)
            if isinstance(event, on.ResumeRequested) or turns_over:
                self.hold_owed = False
            if isinstance(event, on.RejectRequested):
                self.reject_owed = True
        if type(self.state) in ACTIVE:
            return
        if type(before) in ACTIVE:
            assert not self.reject_owed or isinstance(self.state, Rejected)
            assert not self.hold_owed or isinstance(self.state, (Suspended, Completed, Rejected))
        self.hold_owed = False

    # --- carrying out -------------------------------------------------------------------------

    def perform(self, number: int, answer: Callable[[do.Effect], dict[str, Any] | None]) -> None:
        """Carry out one order; `answer` gives what its result says, None where it goes wrong."""
        order = self.orders.pop(number % len(self.orders))
        said = answer(order)
        if isinstance(order, (do.PublishBranch, do.PostReplies, do.ThawAgent)):
            return
        if isinstance(order, do.FreezeAgent):
            if said is None:
                self.tell(on.FreezeFailed, text="it forks too fast", attempt=order.attempt)
            return
        if isinstance(order, do.SpawnAgent):
            assert isinstance(self.state, Spawning)
            assert not self.reject_owed or self.state.tally.wanted is Wanted.REJECT
            self.alive += said is not None
            assert self.alive <= 1, "two agents live at once"
        if isinstance(order, do.StopAgent):
            self.alive = 0
        good, bad = RESULTS[type(order)]
        if said is None and bad is not None:
            self.tell(bad, **FAILURES[bad])
        else:
            self.tell(good, **_fill(order, good, said or {}))

    def agent_says(self, kind: type[on.AttemptEvent], **said: Any) -> None:
        """Let the agent signal, exit, or be caught at a limit."""
        if kind is on.AgentExited:
            self.alive = 0
        self.tell(kind, **said)

    def runner_dies(self, word: Signal | None, *, spawned: bool) -> None:
        """Start the runner anew: its orders stand, its processes are found and ended."""
        if isinstance(self.state, Spawning) and spawned:
            self.alive += 1
        assert self.alive <= 1, "two agents live at once"
        if isinstance(self.state, (Spawning, Working, Stopping)):
            last_word = word if self.alive else None
            self.alive = 0
            self.orders = [order for order in self.orders if not isinstance(order, OF_A_PROCESS)]
            self.tell(on.RunnerRestarted, word=last_word)

    def settle(self, task_id: str, *, done: bool) -> None:
        """Let another task end; one that failed may complete later, never the reverse."""
        if not self.settled.get(task_id, False):
            self.settled[task_id] = done
            self.tell(on.DependencySettled, task_id=task_id, done=done)

    # --- what must hold at any time -----------------------------------------------------------

    def check(self) -> None:
        state = self.state
        assert self.alive == 0 or isinstance(state, (Working, Stopping)), "an agent nobody minds"
        assert self._moves_on(state), f"nothing will ever move this on: {state}"
        inner = state.inner if isinstance(state, Suspended) else state
        if isinstance(inner, Queued):
            assert not set(inner.waiting_on) & set(self.settled), "waits for what is settled"
        if isinstance(inner, AwaitingHuman) and inner.about is About.DEPENDENCY:
            assert inner.failed
            assert all(self.settled[task_id] is False for task_id in inner.failed)

    def _moves_on(self, state: State) -> bool:
        opening = OPENED_BY.get(type(state))
        if opening is not None and any(isinstance(order, opening) for order in self.orders):
            return True
        match state:
            case Working():
                return self.alive == 1
            case Capturing() | Verifying() | Blocked() | PrPending():
                return next_instant(state) is not None
            case Completed(merging=True):
                return any(isinstance(order, do.MergeBranch) for order in self.orders)
            case _:
                return opening is None

    # --- a happy end --------------------------------------------------------------------------

    def finish(self) -> None:
        """Let everybody be willing: whatever happened so far, it must come to an end."""
        for _ in range(80):
            if isinstance(self.state, (Accepted, Rejected)):
                return
            if self.orders:
                self.perform(0, lambda _: {})
            else:
                self._go_on()
            self.check()
        msg = f"it never ends: {self.state}"
        raise AssertionError(msg)

    def _go_on(self) -> None:
        state = self.state
        instant = state.until if isinstance(state, BackingOff) else next_instant(state)
        self.clock = max(self.clock, instant or 0.0)
        match state:
            case Queued(waiting_on=waiting_on) if waiting_on:
                self.tell(on.Unblocked)
            case Queued() | BackingOff():
                self.tell(on.Admitted)
            case Working():
                self.tell(on.BreakpointReached, word=Signal(type="task_complete"))
            case Suspended():
                self.tell(on.ResumeRequested)
            case AwaitingHuman(about=About.REVIEW):
                self.tell(on.SummaryApproved)
            case AwaitingHuman() | Blocked() | PrPending():
                self.tell(on.Unblocked)
            case Completed():
                self.tell(on.AcceptRequested)
            case _:
                self.tell(on.DeadlinePassed)


OF_A_PROCESS = (do.SpawnAgent, do.StopAgent, do.FreezeAgent, do.ThawAgent)
RESULTS: dict[type[do.Effect], tuple[type[on.Event], type[on.Event] | None]] = {
    do.PrepareWorkspace: (on.WorkspaceReady, on.WorkspaceFailed),
    do.SpawnAgent: (on.AgentSpawned, on.SpawnFailed),
    do.StopAgent: (on.AgentStopped, None),
    do.TakeSnapshot: (on.SnapshotTaken, on.SnapshotFailed),
    do.RunGates: (on.GatesFinished, None),
    do.RunReview: (on.ReviewFinished, None),
    do.LookAtBlockers: (on.BlockersLooked, None),
    do.OpenPullRequest: (on.PullRequestOpened, on.PullRequestUnknown),
    do.LookAtPullRequest: (on.PullRequestMoved, on.PullRequestUnknown),
    do.MergeBranch: (on.MergeSucceeded, on.MergeFailed),
    do.RemoveWorkspace: (on.WorkspaceRemoved, None),
}
"""What tells that an order was carried out, and that it could not be."""

FAILURES: dict[type[on.Event], dict[str, Any]] = {
    on.WorkspaceFailed: {"text": "disk full", "fault": on.Fault.ENVIRONMENT},
    on.SpawnFailed: {"text": "no memory", "fault": on.Fault.ENVIRONMENT},
    on.SnapshotFailed: {"text": "disk full"},
    on.PullRequestUnknown: {"text": "no such pull request", "fault": on.Fault.USER},
    on.MergeFailed: {"text": "conflict"},
}


def _fill(order: do.Effect, kind: type[on.Event], said: dict[str, Any]) -> dict[str, Any]:
    """Complete a result with what any result of its kind says."""
    plain: dict[type[on.Event], dict[str, Any]] = {
        on.WorkspaceReady: {"branch": "agent/a", "base_commit": "b0"},
        on.AgentSpawned: {"process": PROCESS},
        on.SnapshotTaken: {"head": "h1", "tree": "t1"},
        on.GatesFinished: {"gates": ()},
        on.PullRequestOpened: {"number": 1, "url": "local://pr/1"},
        on.PullRequestMoved: {"number": 1, "fate": on.PrFate.MERGED},
        on.MergeSucceeded: {"commit": "m1"},
    }
    if isinstance(order, do.LookAtPullRequest):
        said = {**said, "number": order.number}
    if isinstance(order, do.RunReview) and not said:
        said = {"opinion": Opinion(by="codex", head=order.head, approves=True)}
    return {**plain.get(kind, {}), **said}
