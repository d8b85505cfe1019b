"""Facts come doubled, late and in any order, and runners die: each attempt ends as its own process.

Pure: a world of processes beside a `Drive`, with a channel between them that keeps no order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from lifecycle.drive import Drive, WorkingCopy
from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.policy import Policy
from lifecycle.machine.states import (
    BackingOff,
    Completed,
    Process,
    Queued,
    Signal,
    Spawning,
    State,
    Stopping,
    Working,
    spawn_of,
)
from lifecycle.record import AgentLifecycle
from tests.lifecycle.machine.playbook import DONE
from tests.lifecycle.machine.walking import MINUTES, WALKS

if TYPE_CHECKING:
    from random import Random

    from lifecycle.drive import Turn
    from lifecycle.record import JournalEntry, PendingEffect

pytestmark = pytest.mark.timeout(60 * MINUTES)

POLICY = Policy(retry_interval=0.0, max_retries=10_000, max_attempts=10_000, stuck_limit=0)
OF_A_PROCESS = (do.SpawnAgent, do.StopAgent)
MOST_STEPS = 120


@dataclass
class Agent:
    """One process, and how it really ended."""

    spawn_id: str
    attempt: int
    alive: bool = True
    word: Signal | None = None
    fate: str = ""

    @property
    def process(self) -> Process:
        return Process(pid=7, start_time=1, boot_id="b", spawn_id=self.spawn_id)


@dataclass
class Told:
    """A fact on its way."""

    fact: on.Event
    effect_id: str = ""


@dataclass
class World:
    """What one lifecycle's runner sees of the world, and what is true."""

    luck: Random
    clock: float = 0.0
    agents: dict[str, Agent] = field(default_factory=dict)
    orders: list[PendingEffect] = field(default_factory=list)
    channel: list[Told] = field(default_factory=list)
    delivered: list[Told] = field(default_factory=list)
    journal: list[JournalEntry] = field(default_factory=list)

    def __post_init__(self) -> None:
        record = AgentLifecycle(agent_id="a", task="t", birth="b", work=Queued())
        self.copy = WorkingCopy(record=record)
        self.drive = Drive(self.copy)
        self.last: PendingEffect | None = None

    @property
    def state(self) -> State:
        assert self.drive.state is not None
        return self.drive.state

    # --- the runner ---------------------------------------------------------------------------

    def hear(self, told: Told) -> Turn:
        self.clock += 1
        before, ledger = self.state, list(self.copy.ledger)
        turn = self.drive.take(told.fact, POLICY, effect_id=told.effect_id)
        note(f"{type(before).__name__} > {type(turn.state).__name__}: {told.fact}")
        self.drive.committed(turn)
        if turn.commit is not None:
            self.journal += turn.commit.journal
        self.orders += turn.orders
        self._former_processes_move_nothing(told.fact, before, turn)
        if turn.commit is None or turn.commit.journal[0].late:
            assert (self.state, self.copy.ledger) == (before, ledger)
        return turn

    def _former_processes_move_nothing(self, fact: on.Event, before: State, turn: Turn) -> None:
        if not isinstance(fact, on.AttemptEvent) or not fact.speaks_of:
            return
        if fact.speaks_of != spawn_of(before):
            assert turn.state == before
            assert turn.orders == ()
            assert turn.commit is not None, "it is not even in the journal"

    def deliver(self) -> None:
        """Let something of the channel arrive, or something that has arrived already."""
        if self.delivered and self.luck.random() < 0.2:
            self.hear(self.luck.choice(self.delivered))
        elif self.channel:
            told = self.channel.pop(self.luck.randrange(len(self.channel)))
            self.hear(told)
            self.delivered.append(told)

    def dies(self) -> None:
        """Start the runner anew: it ends what lives, and goes on with what was ordered."""
        state = self.state
        if isinstance(state, (Spawning, Working, Stopping)):
            self.orders = [
                each for each in self.orders if not isinstance(each.effect, OF_A_PROCESS)
            ]
            agent, word = self.agents.get(spawn_of(state) or ""), None
            if agent is not None:
                word = self._end(agent, "interrupted")
                # Where it ended by itself before, nobody heard of that in time.
                agent.fate = agent.fate if word else "interrupted"
            lost = on.RunnerRestarted(
                at=self.clock,
                attempt=state.tally.attempt,
                spawn_id=spawn_of(state) or "",
                word=word,
                began=agent is not None,
            )
            self.hear(Told(lost))
            self.delivered.append(Told(lost))
        elif self.last is not None and not isinstance(self.last.effect, OF_A_PROCESS):
            self.orders.append(self.last)

    # --- the world ----------------------------------------------------------------------------

    def _end(self, agent: Agent, fate: str) -> Signal | None:
        if agent.alive:
            agent.alive, agent.fate = False, "task_complete" if agent.word else fate
        return agent.word

    def perform(self) -> None:
        if not self.orders:
            return
        self.last = order = self.orders.pop(self.luck.randrange(len(self.orders)))
        fact = self._performed(order)
        if fact is not None:
            self.channel.append(Told(fact, order.effect_id))

    def _performed(self, order: PendingEffect) -> on.Event | None:
        match order.effect:
            case do.PrepareWorkspace(attempt=attempt):
                return on.WorkspaceReady(
                    at=self.clock, attempt=attempt, branch="agent/a", base_commit="b0"
                )
            case do.SpawnAgent(attempt=attempt):
                assert not any(agent.alive for agent in self.agents.values()), "two agents live"
                agent = self.agents[order.effect_id] = Agent(order.effect_id, attempt)
                return on.AgentSpawned(at=self.clock, attempt=attempt, process=agent.process)
            case do.StopAgent(attempt=attempt, process=process):
                word = self._end(self.agents[process.spawn_id], "interrupted")
                return on.AgentStopped(
                    at=self.clock, attempt=attempt, spawn_id=process.spawn_id, word=word
                )
            case do.TakeSnapshot(attempt=attempt, spawn_id=spawn_id):
                return on.SnapshotTaken(
                    at=self.clock, attempt=attempt, spawn_id=spawn_id, head="h1", tree="t1"
                )
            case _:
                return None

    def acts(self) -> None:
        """Let the living agent signal, or end."""
        for agent in self.agents.values():
            if not agent.alive:
                continue
            attempt, spawn_id = agent.attempt, agent.spawn_id
            if agent.word is None and self.luck.random() < 0.3:
                agent.word = DONE
                self.channel.append(
                    Told(
                        on.BreakpointReached(
                            at=self.clock, attempt=attempt, spawn_id=spawn_id, word=DONE
                        )
                    )
                )
            else:
                word = self._end(agent, "error")
                exited = on.AgentExited(
                    at=self.clock, attempt=attempt, spawn_id=spawn_id, exit_code=1, word=word
                )
                self.channel.append(Told(exited))

    def goes_on(self) -> None:
        """Give it a place, or send it back with guidance."""
        if isinstance(self.state, (Queued, BackingOff)):
            self.channel.append(Told(on.Admitted(at=self.clock)))
        elif isinstance(self.state, Completed):
            self.channel.append(Told(on.Guided(at=self.clock, text="once more", by="ada")))

    def settles(self) -> None:
        """Let all that is on its way arrive, and the agent come to its end, until it rests."""
        for _ in range(200):
            if self.channel:
                self.deliver()
            elif self.orders:
                self.perform()
            elif any(agent.alive for agent in self.agents.values()):
                self.acts()
            else:
                return
        raise AssertionError(f"it does not come to rest: {self.state}")


@WALKS
@given(luck=st.randoms(use_true_random=True), far=st.integers(1, MOST_STEPS))
def test_each_attempt_ends_as_its_own_process_ended(luck: Random, far: int) -> None:
    world = World(luck)
    moves = (world.perform, world.perform, world.deliver, world.deliver, world.deliver)
    for _ in range(far):
        luck.choice((*moves, world.acts, world.goes_on, world.dies))()
    world.settles()
    assert isinstance(world.state, (Queued, BackingOff, Completed)), "it waits for what is over"

    for row in world.copy.ledger:
        agent = world.agents[row.spawn_id]
        assert (row.attempt, row.outcome) == (agent.attempt, agent.fate)
    failed = [agent for agent in world.agents.values() if agent.fate == "error"]
    assert world.state.tally.retry_count == len(failed)
    interrupted = [agent for agent in world.agents.values() if agent.fate == "interrupted"]
    assert world.state.tally.interruptions >= len(interrupted)
    assert world.state.tally.attempts == len({agent.attempt for agent in world.agents.values()})
    assert world.state.tally.spawn_count == len(world.agents)


@WALKS
@given(luck=st.randoms(use_true_random=True), far=st.integers(1, MOST_STEPS))
def test_the_same_journal_leads_to_the_same_records(luck: Random, far: int) -> None:
    world = World(luck)
    for _ in range(far):
        luck.choice((world.perform, world.deliver, world.acts, world.goes_on, world.dies))()
    again = World(luck)
    for entry in world.journal:
        turn = again.drive.take(entry.event, POLICY, effect_id="an order")
        assert turn.commit is not None
        assert turn.commit.journal == (entry,)
        again.drive.committed(turn)
    assert again.state == world.state
    assert again.copy.ledger == world.copy.ledger
