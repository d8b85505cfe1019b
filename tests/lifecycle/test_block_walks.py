"""Walks over plans and blocks that nobody thought of, judged by rules that are written down anew.

No attempt starts before all that the one before it waited for is there, or a person said so; none
is held up after that; and what the next one is told of each thing is what happened in this world.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from lifecycle.blockstory import BlockStory
from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.policy import Policy
from lifecycle.machine.states import (
    About,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Queued,
    State,
    Word,
    Working,
)
from tests.machine.laws import lawful
from tests.machine.playbook import PROCESS
from tests.machine.walking import MINUTES, WALKS

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

pytestmark = pytest.mark.timeout(60 * MINUTES)

TASKS = ("T000", "T002", "T004")
PLANNED = "T004"
"""A task that the lifecycle depends on by its plan."""
SPELLINGS = {"T000": "T000", "agent-T000": "T000", "T002": "T002", "T004": "T004"}
WORDS = {"a key": False, "T009": False, "CI": True, "the nightly build": True, "": True}
"""Free words, and whether CI is meant."""
POLICY = Policy(max_retries=10**6, max_attempts=10**6, stuck_limit=10**6)


@dataclass
class Block:
    """What one attempt waits for, by the rules of this test."""

    tasks: set[str]
    words: set[str]
    in_vain: bool
    """All of it is there, and the agent was told so: only a person goes on."""
    facts: set[str] = field(default_factory=set)
    """What really happened since it began: builds, events, people."""


class Plan:
    """One lifecycle, the tasks beside it, CI, and people."""

    def __init__(self) -> None:
        self.state: State = Queued()
        self.clock, self.made = 0.0, 0
        self.head = "h0"
        self.done = {PLANNED}
        self.rejected: set[str] = set()
        self.joined = {PLANNED}
        self.told = {PLANNED}
        self.building: list[str] = []
        self.verdicts: dict[str, str] = {}
        self.circle = False
        self.block: Block | None = None
        self.story = BlockStory()
        self.attempts = self.reasons = 0
        self.orders: list[do.Effect] = []

    # --- the machine --------------------------------------------------------------------------

    def tell(self, event: on.Event) -> None:
        note(f"{type(self.state).__name__}: {event}")
        step = lawful(self.state, event, POLICY)
        assert step is not None, f"{event} is refused in {self.state}"
        self.state = step.state
        self.orders += step.effects
        if not step.late:
            self._keep(event)

    def _keep(self, event: on.Event) -> None:
        """Feed the journal to what tells of it, as the summary does."""
        match event:
            case on.AgentExited(word=word) if word is not None:
                self.story = BlockStory()
                self.story.begins(word, event.at, event.attempt)
            case on.SnapshotTaken():
                self.story.captured(event)
            case on.BlockersLooked():
                self.story.looked(event)
            case on.CiReported():
                self.story.reported(event)
            case on.DependencySettled():
                self.story.settled(event)
            case on.WorkJoined():
                self.story.joined(event)
            case on.Unblocked(by=by, note=said):
                self.story.let_go(by, "unblocked it", said)
            case _:
                pass

    def settle(self) -> None:
        """Carry out all orders, and give a place to whoever waits for one."""
        while True:
            if self.orders:
                self._perform(self.orders.pop(0))
            elif isinstance(self.state, (BackingOff, Queued)):
                self.clock = max(self.clock, getattr(self.state, "until", 0.0))
                self.tell(on.Admitted(at=self.clock))
            else:
                break
        waits = isinstance(self.state, Blocked) or self.given_up
        if waits and self.block is not None and not self.block.in_vain:
            left = self.block.tasks - self.done, self.block.words
            assert any(left), f"nothing is left to wait for: {self.state}"

    @property
    def given_up(self) -> bool:
        """Tell whether a person is waited for."""
        state = self.state
        return isinstance(state, AwaitingHuman) and state.about is About.BLOCKED_TIMEOUT

    def _perform(self, order: do.Effect) -> None:
        attempt = self.state.tally.attempt
        match order:
            case do.PrepareWorkspace(join=tasks) if tasks:
                done = tuple(task for task in tasks if task in self.done)
                self.joined |= set(done)
                self.tell(
                    on.WorkJoined(
                        at=self.clock, attempt=attempt, tasks=done, head=self.head, base="h0"
                    )
                )
            case do.PrepareWorkspace():
                self.tell(
                    on.WorkspaceReady(at=self.clock, attempt=attempt, branch="b", base_commit="h0")
                )
            case do.SpawnAgent():
                self._starts()
                self.tell(on.AgentSpawned(at=self.clock, attempt=attempt, process=PROCESS))
            case do.TakeSnapshot(blocked_on=names):
                self._captures(attempt, names)
            case do.LookAtBlockers(blocked_on=names, head=head):
                self.looks(names, head)
            case do.PublishBranch(head=head):
                if head not in self.verdicts:
                    self.verdicts[head] = "pending"
                    self.building.append(head)
            case _:
                raise AssertionError(order)

    def _captures(self, attempt: int, names: tuple[str, ...]) -> None:
        known = tuple(dict.fromkeys(SPELLINGS.get(name, name) for name in names))
        tasks = tuple(name for name in known if name in TASKS)
        there = tuple(task for task in tasks if task in self.told & self.done & self.joined)
        words = {name for name in known or ("",) if name not in TASKS}
        self.block = Block(set(tasks), words, bool(tasks) and set(there) == set(known))
        self.told |= set(tasks)
        self.tell(
            on.SnapshotTaken(
                at=self.clock,
                attempt=attempt,
                head=self.head,
                tree=self.head,
                blocked_on=known,
                tasks=tasks,
                joined=there,
            )
        )

    def looks(self, names: tuple[str, ...], head: str) -> None:
        """Answer a look with what is so."""
        tasks = tuple(name for name in names if name in TASKS)
        ci = any(WORDS[name] for name in names or ("",) if name in WORDS)
        waits = self.circle and "T002" in names
        self.tell(
            on.BlockersLooked(
                at=self.clock,
                done=tuple(name for name in tasks if name in self.done),
                tasks=tasks,
                failed=tuple(name for name in tasks if name in self.rejected),
                ci=self.verdicts.get(head, "") if ci else "",
                circle=("T001", "T002", "T001") if waits else (),
            )
        )

    def _starts(self) -> None:
        """Judge the start of an attempt, and what it is told."""
        self.attempts += 1
        block, self.block = self.block, None
        if block is None:
            assert self.attempts == 1
            return
        if "people" not in block.facts:
            assert not block.in_vain
            assert block.tasks <= self.done, "a task that it waits for is not complete"
            assert not block.words, "something else that it waits for is not there"
        self.reasons += 1
        assert self.attempts == 1 + self.reasons
        assert self.story.is_over
        for blocker in self.story.blockers(self.done):
            assert blocker.cleared
            self._is_true(blocker.what, blocker.how, block)

    def _is_true(self, name: str, how: str, block: Block) -> None:
        if f"task {name} completed" in how:
            assert name in self.done
            assert "merged into your branch" not in how or name in self.joined
        elif "ada unblocked it" in how:
            assert "people" in block.facts
            assert ("is not complete" in how) is (name in block.tasks and name not in self.done)
        elif "handed in" in how:
            assert "handed" in block.facts
        else:
            assert how.startswith("CI is ")
            assert how.rpartition(" for ")[2] in block.facts

    # --- what happens -------------------------------------------------------------------------

    def ends_blocked(self, luck: Random) -> None:
        if luck.random() < 0.5:
            self.made += 1
            self.head = f"h{self.made}"
        names = luck.sample([*SPELLINGS, *WORDS], luck.randrange(4))
        word = Word(type="blocked", blocked_on=tuple(filter(None, names)), reason="for now")
        attempt = self.state.tally.attempt
        self.tell(on.AgentExited(at=self.clock, attempt=attempt, exit_code=0, word=word))

    def a_task_ends(self, luck: Random) -> None:
        task, done = luck.choice(TASKS), luck.random() < 0.7
        if task in self.done:
            return
        if done:
            self.done.add(task)
            self.rejected.discard(task)
            self.circle = self.circle and task != "T002"
        else:
            self.rejected.add(task)
        self.tell(on.DependencySettled(at=self.clock, task_id=task, done=done))

    def its_build_ends(self, luck: Random) -> None:
        if self.building:
            sha, green = self.building.pop(0), luck.random() < 0.5
            self.verdicts[sha] = "green" if green else "red"
            self._report(sha, green=green, earlier=sha != self.head)

    def somebody_pushes(self, luck: Random) -> None:
        self.made += 1
        self._report(f"n{self.made}", green=luck.random() < 0.5)

    def an_event_is_handed_in(self, luck: Random) -> None:
        self._report(luck.choice((self.head, "", "h0")), handed=True)

    def _report(
        self, sha: str, *, green: bool = True, earlier: bool = False, handed: bool = False
    ) -> None:
        block = self.block
        if block is not None and not block.in_vain and not earlier:
            own = sha == self.head and not handed
            block.words -= {word for word in block.words if WORDS[word] or not own}
            block.facts.add("handed" if handed else sha)
        self.tell(
            on.CiReported(
                at=self.clock,
                type="build_success" if green else "build_failure",
                green=green,
                sha=sha,
                earlier=earlier,
                handed=handed,
            )
        )

    def a_person_unblocks(self, _luck: Random) -> None:
        if self.block is not None:
            self.block.facts.add("people")
            self.tell(on.Unblocked(at=self.clock, by="ada", note="go on"))

    def a_person_resumes(self, _luck: Random) -> None:
        if self.block is not None and self.given_up:
            # To wait once more for what is there already is to go on.
            if self.block.in_vain:
                self.block.facts.add("people")
            self.tell(on.ResumeRequested(at=self.clock, by="ada"))

    def time_passes(self, luck: Random) -> None:
        self.clock += luck.choice((1.0, 60.0, POLICY.blocked_timeout))
        if isinstance(self.state, Blocked) and self.clock >= self.state.until:
            self.tell(on.DeadlinePassed(at=self.clock))

    def it_looks(self, _luck: Random) -> None:
        if isinstance(self.state, Blocked):
            self.looks(self.state.word.blocked_on, self.state.head)

    def another_waits_for_it(self, _luck: Random) -> None:
        self.circle = "T002" not in self.done


HAPPENS: tuple[Callable[[Plan, Random], None], ...] = (
    *(Plan.a_task_ends, Plan.its_build_ends, Plan.its_build_ends, Plan.somebody_pushes),
    *(Plan.an_event_is_handed_in, Plan.a_person_unblocks, Plan.a_person_resumes),
    *(Plan.time_passes, Plan.it_looks, Plan.another_waits_for_it),
)


@WALKS
@given(luck=st.randoms(use_true_random=True), far=st.integers(1, 80))
def test_each_attempt_has_its_reason_and_is_told_what_happened(luck: Random, far: int) -> None:
    plan = Plan()
    plan.settle()
    for _ in range(far):
        if isinstance(plan.state, Working):
            plan.ends_blocked(luck)
        else:
            luck.choice(HAPPENS)(plan, luck)
        plan.settle()
