"""What a rule answers, and the moves that several rules share. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lifecycle.machine import effects as do
from lifecycle.machine.policy import delay
from lifecycle.machine.states import (
    About,
    AwaitingHuman,
    BackingOff,
    Preparing,
    Reason,
    Rejected,
    Spawning,
    State,
    Suspended,
    Tally,
    Wanted,
)

if TYPE_CHECKING:
    from lifecycle.machine.effects import Effect
    from lifecycle.machine.events import Event
    from lifecycle.machine.policy import Policy


class IllegalTransition(Exception):  # noqa: N818  # the word the design uses for it
    """Nobody expected this fact in this state, or it cannot be granted; nothing was changed."""

    def __init__(self, state: State, event: Event, why: str = "") -> None:
        self.state, self.event = state, event
        name = f"{type(event).__name__} is not possible while {type(state).__name__}"
        super().__init__(f"{name}: {why}" if why else name)


@dataclass(frozen=True, slots=True)
class Step:
    """The state that follows and the orders that go with it."""

    state: State
    effects: tuple[Effect, ...] = ()
    late: bool = False
    """The event belonged to something already over; nothing changed."""


def land(state: State, at: float, *effects: Effect) -> Step:
    """Come to rest after an attempt, and carry out what was asked for meanwhile."""
    tally = state.tally
    if tally.wanted is Wanted.REJECT:
        return reject(state, Reason.PERSON, "")
    quiet = replace(state, tally=replace(tally, wanted=Wanted.NOTHING, wanted_by="", wanted_why=""))
    if tally.wanted in (Wanted.PAUSE, Wanted.HOLD):
        return Step(suspend(quiet, at), effects)
    return Step(quiet, effects)


def suspend(inner: State, at: float) -> Suspended:
    """Hold a wait; its clocks stand still from now on."""
    return Suspended(tally=inner.tally, inner=inner, since=at)


def reject(state: State, reason: Reason, text: str, *effects: Effect) -> Step:
    """End without acceptance; a person who asked for it is the reason, not what came after."""
    if state.tally.wanted is Wanted.REJECT:
        reason, text, effects = Reason.PERSON, _by(state.tally), (do.RemoveWorkspace(),)
    tally = replace(state.tally, wanted=Wanted.NOTHING, wanted_by="", wanted_why="")
    return Step(Rejected(tally=tally, reason=reason, text=text), effects)


def wake(state: State, at: float, why: str) -> Step:
    """Let the next attempt start as soon as there is a place; nobody pays."""
    return land(BackingOff(tally=state.tally, until=at, why=why), at)


def fail(state: State, at: float, policy: Policy, kind: str, text: str) -> Step:
    """Charge a failed attempt; stop at the limit or when nothing moves any more."""
    tally = state.tally
    signature = f"{kind}: {text}"[:300]
    stuck = tally.stuck + 1 if signature == tally.signature else 1
    tally = replace(
        tally, retry_count=tally.retry_count + 1, stuck=stuck, signature=signature, faults=0
    )
    charged = replace(state, tally=tally)
    if tally.wanted is Wanted.REJECT:
        return land(charged, at)
    if tally.retry_count >= policy.max_retries:
        return reject(
            charged,
            Reason.MAX_RETRIES,
            f"{tally.retry_count} of {policy.max_retries} retries used; the last: {signature}",
        )
    if tally.tree and stuck >= policy.stuck_limit:
        return reject(
            charged,
            Reason.NO_PROGRESS,
            f"{stuck} attempts in a row failed alike and left the tree unchanged "
            f"({tally.tree[:12]}): {signature}",
        )
    until = at + delay(policy, stuck)
    return land(BackingOff(tally=tally, until=until, why=signature), at)


def environment(state: State, at: float, policy: Policy, text: str, back: BackingOff) -> Step:
    """Wait out a failure that is not the agent's; it costs no retry but has its own limit."""
    tally = replace(state.tally, faults=state.tally.faults + 1)
    if tally.faults > policy.max_faults:
        return reject(
            replace(state, tally=tally),
            Reason.ENVIRONMENT,
            f"{tally.faults} times in a row the surroundings failed: {text}",
        )
    until = at + delay(policy, tally.faults)
    return land(replace(back, tally=tally, until=until, why=text), at)


def launch(state: State, at: float, policy: Policy, *, approved: bool) -> Step:
    """Order the next attempt, unless a limit or a review stands before it."""
    tally = state.tally
    if tally.attempt > policy.max_attempts:
        return reject(
            state,
            Reason.MAX_RETRIES,
            f"{tally.spawn_count} attempts were started, as many as max_attempts allows",
        )
    if policy.review_summaries and not approved:
        text = f"the summary for attempt {tally.attempt} waits for approval"
        return land(AwaitingHuman(tally=tally, about=About.REVIEW, text=text, since=at), at)
    return Step(Spawning(tally=tally), (do.SpawnAgent(attempt=tally.attempt),))


def prepare(state: State) -> Step:
    """Order the workspace."""
    return Step(Preparing(tally=state.tally), (do.PrepareWorkspace(attempt=state.tally.attempt),))


def _by(tally: Tally) -> str:
    who = f"rejected by {tally.wanted_by or 'a person'}"
    return f"{who}: {tally.wanted_why}" if tally.wanted_why else who
