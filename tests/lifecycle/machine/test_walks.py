"""Walks through the machine that nobody thought of: any fact in any state at any time.

Chance comes from one seed that hypothesis draws; on a failure it is named, the walk shortened.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from lifecycle.machine import events as on
from lifecycle.machine.policy import Policy
from lifecycle.machine.states import ALL, TERMINAL, Accepted, State, next_instant
from lifecycle.machine.table import RULES
from tests.lifecycle.machine.chance import live
from tests.lifecycle.machine.facts import TASKS, policy, said
from tests.lifecycle.machine.laws import lawful
from tests.lifecycle.machine.test_table import EVENTS, STATES
from tests.lifecycle.machine.walking import FAR, MINUTES, WALKS
from tests.lifecycle.machine.world import World

if TYPE_CHECKING:
    from random import Random

pytestmark = pytest.mark.timeout(60 * MINUTES)

KINDS = tuple(type(event) for event in EVENTS)
EXPECTED_IN = {state: tuple(line.event for line in RULES if line.state is state) for state in ALL}

seeds = st.randoms(use_true_random=True)
steps = st.integers(1, FAR)


def any_fact(state: State, clock: float, luck: Random) -> on.Event:
    """Draw a fact, mostly one that the state has a rule for, mostly of the present attempt."""
    instant = next_instant(state)
    if instant is not None and luck.random() < 0.1:
        return on.DeadlinePassed(at=max(instant, clock))
    kind = luck.choice(EXPECTED_IN[type(state)] if luck.random() < 0.7 else KINDS)
    if kind is on.RejectRequested and luck.random() < 0.7:
        kind = on.DeadlinePassed
    event = kind(**said(kind, luck))
    at = max(0.0, clock + luck.choice((0, 1, 30, 600, 100_000, -10)))
    if isinstance(event, on.AttemptEvent):
        off = luck.choice((0, 0, 0, 0, -1, 1, 7))
        event = replace(event, attempt=state.tally.attempt + off)
    return replace(event, at=at)


@WALKS
@given(luck=seeds, far=steps)
def test_any_fact_at_any_time_breaks_no_law(luck: Random, far: int) -> None:
    numbers = replace(policy(luck), max_attempts=luck.choice((2, 5, 80)))
    first = state = luck.choice(STATES)
    journal: list[on.Event] = []
    clock = 0.0
    for _ in range(far):
        event = any_fact(state, clock, luck)
        note(f"{type(state).__name__}: {event}")
        clock = max(clock, event.at)
        step = lawful(state, event, numbers)
        if step is not None:
            journal.append(event)
            state = step.state
        if isinstance(state, TERMINAL) and luck.random() < 0.5:
            assert retold(first, journal, numbers) == state
            first = state = luck.choice(STATES)
            journal.clear()
    assert retold(first, journal, numbers) == state


def retold(state: State, journal: list[on.Event], numbers: Policy) -> State:
    """Return the state that a journal leads to."""
    for event in journal:
        step = lawful(state, event, numbers)
        assert step is not None, "a fact was taken the first time and is refused now"
        state = step.state
    return state


@WALKS
@given(luck=seeds, far=steps)
def test_a_world_that_answers_always_comes_to_an_end(luck: Random, far: int) -> None:
    world = World(policy(luck), luck.choice(((), TASKS)))
    for _ in range(far):
        live(world, luck)
        world.check()
        if isinstance(world.state, TERMINAL) and luck.random() < 0.3:
            assert retold(world.first, world.journal, world.policy) == world.state
            world = World(policy(luck), luck.choice(((), TASKS)))
    assert retold(world.first, world.journal, world.policy) == world.state
    world.finish()
    assert retold(world.first, world.journal, world.policy) == world.state


def test_the_plain_story_needs_no_luck() -> None:
    world = World(Policy(has_gates=True), ())
    world.finish()
    assert isinstance(world.state, Accepted)
    assert world.state.tally.spawn_count == 1
