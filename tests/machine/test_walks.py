"""Walks through the machine that nobody thought of: any fact in any state at any time."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from lifecycle.machine import events as on
from lifecycle.machine.states import Coarse, State, coarse, counted, next_instant
from lifecycle.machine.table import RULES
from tests.machine.facts import facts, policies
from tests.machine.laws import lawful
from tests.machine.test_table import EVENTS, STATES
from tests.machine.walking import WALKS

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject, SearchStrategy

    from lifecycle.machine.policy import Policy

KINDS = tuple(type(event) for event in EVENTS)


@cache
def any_of(kind: type[on.Event]) -> SearchStrategy[on.Event]:
    return facts(kind)


@cache
def expected_in(state: type[State]) -> SearchStrategy[type[on.Event]]:
    return st.sampled_from([line.event for line in RULES if line.state is state])


class AnyFactAtAnyTime(RuleBasedStateMachine):
    """Tells whatever comes to mind, mostly what the state has a rule for."""

    state: State
    policy: Policy

    @initialize(state=st.sampled_from(STATES), policy=policies)
    def begin(self, state: State, policy: Policy) -> None:
        # The samples are of attempt 1 or 2; a lifecycle that passed its limit cannot come about.
        self.policy = replace(policy, max_attempts=max(policy.max_attempts, 2))
        self.state, self.clock = counted(state, retry_count=0), 0.0
        self.journal: list[on.Event] = []
        self.first = self.state

    @rule(data=st.data(), later=st.floats(-5, 50))
    def something_the_state_knows(self, data: DataObject, later: float) -> None:
        self.tell(data.draw(any_of(data.draw(expected_in(type(self.state))))), later, 0)

    @rule(data=st.data(), kind=st.sampled_from(KINDS), later=st.floats(-50, 5000),
          stale=st.sampled_from([0, 0, 0, -1, 1, 7]))  # fmt: skip
    def anything(
        self, data: DataObject, kind: type[on.Event], later: float, stale: int
    ) -> None:
        self.tell(data.draw(any_of(kind)), later, stale)

    @rule()
    @precondition(lambda self: next_instant(self.state) is not None)
    def its_deadline(self) -> None:
        instant = next_instant(self.state)
        assert instant is not None
        self.clock = max(self.clock, instant)
        self.tell(on.DeadlinePassed(at=0), 0, 0)

    def tell(self, event: on.Event, later: float, stale: int) -> None:
        event = replace(event, at=max(0.0, self.clock + later))
        if isinstance(event, on.AttemptEvent):
            event = replace(event, attempt=self.state.tally.attempt + stale)
        self.clock = max(self.clock, event.at)
        step = lawful(self.state, event, self.policy)
        if step is not None:
            self.journal.append(event)
            self.state = step.state
        assert coarse(self.state) in Coarse

    def teardown(self) -> None:
        if hasattr(self, "first"):
            state = self.first
            for event in self.journal:
                step = lawful(state, event, self.policy)
                assert step is not None
                state = step.state
            assert state == self.state, "the journal tells another story"


TestAnyFactAtAnyTime = AnyFactAtAnyTime.TestCase
TestAnyFactAtAnyTime.settings = WALKS
