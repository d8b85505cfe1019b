"""The loops of a runner as a population: joined, left, paused for turns, resumed, while they run.

Owns the live state that `LifecycleManager` judges and changes, and carries each change to the
engine. What a pause means for an attempt is the machine's business.

A turn is one scheduling round: an attempt of any loop gets its place. Where none does for
`retry_interval` seconds, that look counts as a turn, so that pauses end also when all are paused.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lifecycle.case import load
from lifecycle.errors import LifecycleError
from lifecycle.fleet.manager import LifecycleManager
from lifecycle.machine import events as on
from lifecycle.machine.states import Suspended, Wanted
from lifecycle.plan import Agent, Task
from runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from lifecycle.audit import Audit
    from lifecycle.clock import Timer
    from lifecycle.engine import Engine
    from lifecycle.machine.states import State
    from lifecycle.parts import News, Report
    from lifecycle.record import AgentLifecycle
    from orchestrator.settingtrail import SettingTrail

TURNS = "auto_resume"
"""Collection of the turns that are left of pauses, by agent; they outlive the runner."""
OWNER_LOOK = 0.01
"""Seconds between two looks whether a loop that was just begun has its owner."""


@dataclass(slots=True)
class LiveState:
    """What a runner's population is kept in."""

    agents: dict[str, Agent] = field(default_factory=dict)
    paused_agents: set[str] = field(default_factory=set)
    auto_resume: dict[str, int] = field(default_factory=dict)
    turn: int = 0


class Population:
    """The lifecycles of one runner, to be changed while they run.

    `begin` starts a loop. Pauses that people ask for by command are taken up from what the engine
    commits, so that both ways end in one state. A plan may bring more agents than the limit;
    nothing can be added to them then.
    """

    def __init__(
        self,
        engine: Engine,
        begin: Callable[[Agent, Task], None],
        *,
        audit: Audit | None = None,
        settings: SettingTrail | None = None,
        by: str = "population",
    ) -> None:
        self.state = LiveState()
        self._engine = engine
        self._begin = begin
        self._by = by
        self._log = _Log(engine.parts.report, self._refused)
        self.manager = LifecycleManager(logger=self._log)
        self._audit = audit
        self._settings = settings
        self._running: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: Timer | None = None
        self._closed = False

    # --- the four operations ------------------------------------------------------------------

    def add_agent(self, name: str, agent: Agent, initial_state: Mapping[str, Any]) -> str:
        """Begin a loop for one more agent; `initial_state` is its task, as a plan has it.

        Without an `id` the task is named like the agent. Returns the name it got, or the given one
        if it was refused (which is logged). An agent, name or task that is none raises pydantic's
        ValidationError.
        """
        joins: tuple[Agent, Task] | None = None
        if name and isinstance(initial_state, dict):
            named = {**Agent.model_validate(agent).model_dump(), "agent_id": name}
            joins = Agent.model_validate(named), Task.model_validate({"id": name, **initial_state})
        before = len(self.state.agents)
        resolved = self.manager.add_agent(name, agent, initial_state, self.state)
        if joins is None or len(self.state.agents) == before:
            return resolved
        agent = joins[0].model_copy(update={"agent_id": resolved})
        task = joins[1] if "id" in initial_state else joins[1].model_copy(update={"id": resolved})
        self.state.agents[resolved] = agent
        self._begin(agent, task)
        return resolved

    def remove_agent(self, name: str) -> bool:
        """End a lifecycle; its work stays under a saved ref. Says whether it was there."""
        if not self.manager.remove_agent(name, self.state):
            return False
        why = "removed from the population"
        self._tell(name, on.RejectRequested(at=self._now(), by=self._by, why=why))
        return True

    def pause_agent(self, name: str, auto_resume_turns: int | None = None) -> bool:
        """Start no attempt after the present one, for so many turns or until it is resumed."""
        if not self.manager.pause_agent(name, auto_resume_turns, self.state):
            return False
        self._do(self._keep_turns(name))
        self._tell(name, on.PauseRequested(at=self._now(), by=self._by))
        return True

    def resume_agent(self, name: str) -> bool:
        """Let a paused lifecycle go on; says whether it was paused."""
        if not self.manager.resume_agent(name, self.state):
            return False
        self._go_on(name, self._by)
        return True

    def get_active_agents(self) -> dict[str, Agent]:
        """Return the agents that are not paused."""
        return self.manager.get_active_agents(self.state)

    # --- what the runner tells ----------------------------------------------------------------

    async def open(self, held: Iterable[str] = ()) -> None:
        """Listen from now on; `held` are those that were paused before this runner began."""
        self._engine.parts.observers.append(self.news)
        if self._settings is not None:
            await self._settings.begin()
        for agent_id in held:
            await self._take_up(agent_id)
        self._arm()

    def joined(self, agent: Agent) -> None:
        """Take note that a loop begins, whoever began it."""
        self._running.add(agent.agent_id)
        self.state.agents[agent.agent_id] = agent

    def left(self, agent_id: str, record: AgentLifecycle | None) -> None:
        """Take note that a loop ended; one that is held stays a member."""
        self._running.discard(agent_id)
        if record is None or not is_held(record.work):
            self.manager.pause_tracker.release(agent_id, self.state)
            self.state.agents.pop(agent_id, None)
            self._do(self._engine.parts.store.remove(TURNS, agent_id))

    def news(self, news: News) -> None:
        """Take up what was committed: a place that was given, a pause or its end."""
        name, fact = news.agent_id, news.fact
        if isinstance(fact, on.Admitted):
            self.next_turn()
        elif name not in self.state.agents:
            return
        elif isinstance(fact, on.PauseRequested):
            self._do(self._take_up(name))
        elif isinstance(fact, on.StopRequested) and fact.pause:
            # Whoever stops an agent wants to resume it himself.
            self.state.auto_resume.pop(name, None)
            self._do(self._take_up(name, turns=False))
        elif isinstance(fact, on.ResumeRequested) and name in self.state.paused_agents:
            self.manager.resume_agent(name, self.state)
            self._do(self._engine.parts.store.remove(TURNS, name))

    def next_turn(self) -> list[str]:
        """Let a turn pass; returns who goes on now."""
        self.state.turn += 1
        counted = tuple(self.state.auto_resume)
        resumed = self.manager.process_auto_resume(self.state)
        for name in counted:
            if name not in resumed:
                self._do(self._keep_turns(name))
        for name in resumed:
            self._go_on(name, "auto-resume")
        if self._settings is not None:
            self._do(self._settings.look())
        self._arm()
        return resumed

    async def aclose(self) -> None:
        """Finish what was asked for, then listen no more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self.news in self._engine.parts.observers:
            self._engine.parts.observers.remove(self.news)
        while self._tasks:
            await asyncio.wait(self._tasks)

    # --- carrying it out ----------------------------------------------------------------------

    async def _take_up(self, name: str, *, turns: bool = True) -> None:
        """Count as paused what is paused already, with the turns that were asked for."""
        store = self._engine.parts.store
        if not turns:
            await store.remove(TURNS, name)
        kept = (await store.all(TURNS)).get(name)
        record = await store.get(name)
        if record is None or not is_held(record.work) or name in self.state.paused_agents:
            return
        if name not in self.state.agents:
            self.state.agents[name] = (await load(store, record)).agent
        self.manager.pause_agent(name, None if kept is None else int(kept["turns"]), self.state)

    def _go_on(self, name: str, by: str) -> None:
        self._do(self._engine.parts.store.remove(TURNS, name))
        self._tell(name, on.ResumeRequested(at=self._now(), by=by))

    def _tell(self, name: str, event: on.PersonEvent) -> None:
        if not self._engine.tell(name, event):
            self._do(self._deliver(name, event))

    async def _deliver(self, name: str, event: on.PersonEvent) -> None:
        while name in self._running and self._engine.owner(name) is None:  # noqa: ASYNC110  # it is being made
            await asyncio.sleep(OWNER_LOOK)
        if not self._engine.tell(name, event):
            await self._engine.apply(name, event)

    async def _keep_turns(self, name: str) -> None:
        store, turns = self._engine.parts.store, self.state.auto_resume.get(name)
        if turns is None:
            await store.remove(TURNS, name)
        else:
            await store.put(TURNS, name, {"turns": turns})

    def _refused(self, operation: str, name: str, reason: str) -> None:
        if self._audit is not None:
            self._do(self._audit.record(operation, self._by, name, "refused", reason))

    def _do(self, work: Coroutine[object, object, object]) -> None:
        task = asyncio.get_running_loop().create_task(self._done(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _done(self, work: Coroutine[object, object, object]) -> None:
        try:
            await work
        except (LifecycleError, RuntimeFault) as problem:
            self._engine.parts.report("population_request_failed", reason=str(problem))

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._closed:
            parts = self._engine.parts
            wait = max(parts.settings().retry_interval, OWNER_LOOK)
            self._timer = parts.clock.call_at(parts.clock.now() + wait, self._look)

    def _look(self) -> None:
        self.next_turn()

    def _now(self) -> float:
        return self._engine.parts.clock.now()


class _Log:
    """A logger for the manager that writes to the runner's log and passes refusals on."""

    def __init__(self, report: Report, refused: Callable[[str, str, str], None]) -> None:
        self._report = report
        self._refused = refused

    def info(self, event: str, /, **fields: Any) -> None:
        self._report(event, **fields)

    def warning(self, event: str, /, **fields: Any) -> None:
        self._report(event, **fields)
        self._refused(fields["operation"], fields["agent_name"], fields["reason"])


def is_held(state: State | None) -> bool:
    """Tell whether a person holds a lifecycle, now or after the attempt under way."""
    if state is None:
        return False
    return isinstance(state, Suspended) or state.tally.wanted in (Wanted.PAUSE, Wanted.HOLD)
