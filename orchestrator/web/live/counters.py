"""Counts what happens while the server runs: states, attempts, waits, spawns.

Hears of each decision and costs a few dictionary look-ups for it. Must not read the store but once.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lifecycle.fleet.spawner import metrics as names
from lifecycle.machine import events as on
from lifecycle.machine.states import TERMINAL, WAITS, AgentState, Completed, Suspended
from lifecycle.record import Filter
from lifecycle.state_words import spelled, word_of, word_on
from runtime.agents.outcome import Ending

if TYPE_CHECKING:
    from lifecycle.engine.engine import LocalEngine
    from lifecycle.fleet.spawner.metrics import Metrics
    from lifecycle.machine.states import Signal
    from lifecycle.record import AgentLifecycle
    from lifecycle.reporting import Committed

_WAITS = tuple(kind.__name__ for kind in (*WAITS, Suspended, Completed))
_OVER = tuple(kind.__name__ for kind in TERMINAL)

_ENDS: dict[type[on.Event], str] = {
    on.AgentStopped: "stopped",
    on.SpawnFailed: "spawn_failed",
    on.RunnerRestarted: "interrupted",
}


class LifecycleCounters:
    """The lifecycles of a repository, counted."""

    def __init__(self, engine: LocalEngine, metrics: Metrics) -> None:
        self._engine = engine
        self._metrics = metrics
        self._states: dict[str, tuple[str, str]] = {}
        """Of each that is not over, its work state and the word for it."""
        self._since: dict[str, float] = {}
        self._how: dict[str, str] = {}
        """What is being ended, and why."""
        self.attempts: Counter[str] = Counter()
        """That ended while we listened, by how they ended."""
        self.ended: Counter[str] = Counter()
        """Lifecycles that were accepted, rejected or given up while we listened."""
        self.lasted: dict[str, float] = {}
        """Seconds from their creation to that end, by the same words."""
        self.waits: Counter[str] = Counter()
        """How often something was waited for, by what it was."""
        self.waited: dict[str, float] = {}
        """Seconds of those waits that are over."""

    async def begin(self) -> None:
        """Learn what is there, then listen."""
        self._engine.shared.observers.append(self.news)
        store = self._engine.shared.store
        async for record in store.every(Filter(states=(AgentState.QUEUED, AgentState.RUNNING))):
            if record.work is not None:
                began = getattr(record.work, "since", record.updated_at)
                self._learn(record.agent_id, _state_of(record), began)
        for known in await store.outlines((AgentState.COMPLETED,)):
            if known.work_kind:
                state = (known.work_kind, spelled(word_of(known.work_kind, None)))
                self._learn(known.agent_id, state, known.updated_at)

    def _learn(self, agent_id: str, state: tuple[str, str], began: float) -> None:
        """Count what was there before; an event heard meanwhile is newer."""
        if self._states.setdefault(agent_id, state) == state:
            self._since.setdefault(agent_id, began)

    def end(self) -> None:
        """Listen no more."""
        if self.news in self._engine.shared.observers:
            self._engine.shared.observers.remove(self.news)

    def by_work_state(self) -> Counter[str]:
        """Return how many lifecycles that are not over are in each work state."""
        return Counter(kind for kind, _ in self._present())

    def by_state(self) -> Counter[str]:
        """Return the same by the words for their states."""
        return Counter(word for _, word in self._present())

    def _present(self) -> list[tuple[str, str]]:
        states = dict(self._states)
        for agent_id, case in self._engine.running().items():
            # One that just began has made no news yet.
            states[agent_id] = _state_of(case.record)
        return [state for state in states.values() if state[0] not in _OVER]

    def news(self, news: Committed) -> None:
        """Take what was decided."""
        if news.before == news.after:
            # Also what came too late to count: an agent that exits while it is being ended.
            if news.agent_id in self._states:
                self._states[news.agent_id] = _state_of(news.record)  # an agent may be frozen
            return
        self._count_process(news)
        agent_id, before, after = news.agent_id, news.before, news.after
        began = self._since.get(agent_id)
        if before in _WAITS and began is not None:
            self.waits[before] += 1
            self.waited[before] = self.waited.get(before, 0.0) + max(news.at - began, 0.0)
        if after in _OVER:
            word = spelled(word_on(news.record))
            self.ended[word] += 1
            taken = max(news.at - news.record.created_at, 0.0)
            self.lasted[word] = self.lasted.get(word, 0.0) + taken
            self._states.pop(agent_id, None)
            self._since.pop(agent_id, None)
        else:
            self._states[agent_id], self._since[agent_id] = _state_of(news.record), news.at

    def _count_process(self, news: Committed) -> None:
        fact, metrics = news.fact, self._metrics
        began = self._since.get(news.agent_id, news.at)
        match fact:
            case on.AgentSpawned(attempt=attempt):
                metrics.count(names.SPAWN_COUNT)
                metrics.took(names.SPAWN_DURATION, max(news.at - began, 0.0))
                if attempt > 1:
                    metrics.count(names.RESTARTS_COUNT)
            case on.SpawnFailed():
                metrics.count(names.SPAWN_FAILURES)
            case on.AgentStopped(forced=forced):
                metrics.count(names.TERMINATE_COUNT)
                metrics.took(names.TERMINATE_DURATION, max(news.at - began, 0.0))
                if forced:
                    metrics.count(names.TERMINATE_FORCED)
            case on.BreakpointReached(word=word):
                self._how[news.agent_id] = word.type
            case on.LimitReached(idle=idle):
                self._how[news.agent_id] = str(Ending.HANG if idle else Ending.TIMEOUT)
            case on.AttemptDoomed(ended=ended):
                self._how[news.agent_id] = str(ended)
            case _:
                pass
        if isinstance(fact, (on.AgentExited, on.AgentStopped, on.SpawnFailed, on.RunnerRestarted)):
            how = self._how.pop(news.agent_id, "")
            self.attempts[_outcome(fact, how)] += 1


def _state_of(record: AgentLifecycle) -> tuple[str, str]:
    return type(record.work).__name__, spelled(word_on(record))


def _outcome(fact: on.Event, how: str) -> str:
    """Name how an attempt ended: by the breakpoint it reached, else by what ended it."""
    word: Signal | None = getattr(fact, "word", None)
    if how:
        return how
    if word is not None:
        return word.type
    if isinstance(fact, on.AgentExited) and fact.report is not None:
        return str(fact.report.ended)
    return _ENDS.get(type(fact), str(Ending.NO_BREAKPOINT if _ended_well(fact) else Ending.ERROR))


def _ended_well(fact: on.Event) -> bool:
    return isinstance(fact, on.AgentExited) and fact.exit_code == 0
