"""A small language for transcripts of the machine: in this state, on this fact, that follows.

    play(working()).on(exited(word=BLOCKED)).to(Capturing).orders(LOOK_INTO_BLOCK)

Every step must keep the laws, and every order must be expected: one that a transcript does not name
fails its test. Steps are noted in `WALKED`, so that the coverage of the table can be proven.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine.opinion import GreenGates
from lifecycle.machine.policy import Policy
from lifecycle.machine.states import (
    About,
    AttemptOutcome,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Capturing,
    Completed,
    Preparing,
    Process,
    PrPending,
    Queued,
    Signal,
    Spawning,
    State,
    Stopping,
    Suspended,
    Tally,
    Verifying,
    Working,
)
from lifecycle.machine.table import TABLE, IllegalTransition, decide
from lifecycle.machine.values import changed
from runtime.agents.outcome import Ending
from tests.lifecycle.machine.laws import lawful

if TYPE_CHECKING:
    from lifecycle.machine.effects import Effect
    from lifecycle.machine.events import Event

PROCESS = Process(pid=41, start_time=7, boot_id="boot", spawn_id="a1")
DONE = Signal(type="task_complete", summary="all of it")
BLOCKED = Signal(type="blocked", blocked_on=("T000",), reason="needs the schema")
PR = Signal(type="pr_created", summary="the fix", pr_url="local://pr/1")
QUESTION = Signal(type="question", question="which port?")
LOOK_INTO_BLOCK = do.TakeSnapshot(spawn_id="a1", attempt=1, blocked_on=("T000",))
"""The capture of an attempt that said `BLOCKED`."""


class Walked(NamedTuple):
    """One step that a transcript took."""

    state: type[State]
    event: type[Event]
    target: type[State]


WALKED: set[Walked] = set()
OPEN: list[Play] = []


class Play:
    """One transcript."""

    def __init__(self, state: State, policy: Policy) -> None:
        self.state, self.policy = state, policy
        self._unexpected: tuple[Effect, ...] = ()
        self.given: tuple[Effect, ...] = ()
        OPEN.append(self)

    def on(self, event: Event) -> Play:
        """Tell a fact."""
        self.settle()
        before = self.state
        step = lawful(before, event, self.policy)
        assert step is not None, f"{event} is not possible while {before}"
        if (type(before), type(event)) in TABLE:
            WALKED.add(Walked(type(before), type(event), type(step.state)))
        self.state, self.late = step.state, step.late
        self._unexpected = self.given = step.effects
        return self

    def to(self, kind: type[State], **fields: object) -> Play:
        """Expect this state, with these values in it."""
        assert not self.late, "the fact was late"
        return self.still(kind, **fields)

    def still(self, kind: type[State], **fields: object) -> Play:
        """Expect this state, whether or not the fact was late."""
        assert type(self.state) is kind
        assert {name: getattr(self.state, name) for name in fields} == fields
        return self

    def orders(self, *effects: Effect) -> Play:
        """Expect exactly these orders."""
        assert self._unexpected == effects
        self._unexpected = ()
        return self

    def counts(self, **tally: object) -> Play:
        """Expect these values in the tally."""
        assert {name: getattr(self.state.tally, name) for name in tally} == tally
        return self

    def says(self, part: str) -> Play:
        """Expect the state's text to name this."""
        text: str = getattr(self.state, "why", "") or getattr(self.state, "text", "")
        assert part in text
        return self

    def changes_nothing(self, event: Event) -> Play:
        """Expect that the fact comes too late to move anything."""
        self.on(event)
        assert self.late, f"{type(event).__name__} was taken for news"
        return self

    def refuses(self, event: Event) -> Play:
        """Expect that nobody expected this fact here."""
        self.settle()
        with pytest.raises(IllegalTransition, match=type(event).__name__):
            decide(self.state, event, self.policy)
        return self

    def settle(self) -> None:
        """Fail on an order that the transcript did not name."""
        assert not self._unexpected, f"nobody expected the orders {self._unexpected}"


def play(state: State, policy: Policy | None = None, **numbers: Any) -> Play:
    """Begin a transcript; the numbers are those of the policy that differ from its defaults."""
    return Play(state, policy or Policy(**numbers))


# --- states, as far as a transcript does not care ---------------------------------------------


def queued(*waiting_on: str, **tally: Any) -> Queued:
    return Queued(tally=Tally(**tally), waiting_on=waiting_on)


def preparing(**tally: Any) -> Preparing:
    return Preparing(tally=Tally(**tally))


def spawning(**tally: Any) -> Spawning:
    return Spawning(tally=Tally(**tally), spawn_id=PROCESS.spawn_id)


def working(*, frozen: bool = False, **tally: Any) -> Working:
    return Working(tally=_spawned(tally), process=PROCESS, since=0, frozen=frozen)


def stopping(
    ended: Ending = Ending.INTERRUPTED, word: Signal | None = None, **tally: Any
) -> Stopping:
    outcome = AttemptOutcome(ended=ended, word=word, text=str(ended))
    return Stopping(tally=_spawned(tally), process=PROCESS, outcome=outcome)


def capturing(said: Signal | Ending = Ending.CRASH, /, **tally: Any) -> Capturing:
    """Return the state after an attempt that said this, or ended like this."""
    if isinstance(said, Signal):
        outcome = AttemptOutcome(ended=Ending.BREAKPOINT, word=said)
    else:
        outcome = AttemptOutcome(ended=said, text=f"the agent {said}")
    return Capturing(tally=_spawned(tally), outcome=outcome, spawn_id=PROCESS.spawn_id)


def ended(kind: Ending, text: str = "", **fields: Any) -> Capturing:
    """Return the state after an attempt that ended so; `tally` beside fields of its outcome."""
    tally = fields.pop("tally", {})
    outcome = AttemptOutcome(ended=kind, text=text, **fields)
    return Capturing(tally=_spawned(tally), outcome=outcome, spawn_id=PROCESS.spawn_id)


def verifying(**tally: Any) -> Verifying:
    return Verifying(tally=_spawned(tally), word=DONE, head="h1", changed_files=("a.py",))


def reviewing(**tally: Any) -> Verifying:
    """Return the state after green gates, while a reviewer reads the commit."""
    green = GreenGates(passed=("pytest -q",), flagged=("test_a.py",), notes=("mind this",))
    return changed(verifying(**tally), green=green)


def blocked(word: Signal = BLOCKED, *, ci: str = "", **tally: Any) -> Blocked:
    """Return the state after an attempt that was blocked; what it names like a task is one."""
    tasks = tuple(name for name in word.blocked_on if name.startswith("T0"))
    known = _over({"depends_on": tasks, **tally})
    return Blocked(tally=known, since=0, until=100, word=word, head="h1", ci=ci)


def pr_pending(
    *, number: int | None = 1, url: str = "local://pr/1", head: str = "", **tally: Any
) -> PrPending:
    return PrPending(
        tally=_over(tally), since=0, until=100, word=PR, url=url, number=number, head=head
    )


def backing_off(until: float = 10, *, approved: bool = False, **tally: Any) -> BackingOff:
    return BackingOff(tally=_over(tally), until=until, why="failed", approved=approved)


def awaiting(about: About, **fields: Any) -> AwaitingHuman:
    tally = _over(fields.pop("tally", {}))
    return AwaitingHuman(tally=tally, about=about, text="why it waits", since=0, **fields)


def suspended(inner: State, since: float = 0) -> Suspended:
    return Suspended(tally=inner.tally, inner=inner, since=since)


def completed(**fields: Any) -> Completed:
    return Completed(
        tally=_over({}), summary="all of it", head="h1", changed_files=("a.py",), **fields
    )


def _spawned(tally: dict[str, Any]) -> Tally:
    return Tally(**{"spawn_count": tally.get("attempt", 1), **tally})


def _over(tally: dict[str, Any]) -> Tally:
    """Return the tally after one attempt: the next one's number is 2."""
    return Tally(**{"attempt": 2, "spawn_count": 1, **tally})
