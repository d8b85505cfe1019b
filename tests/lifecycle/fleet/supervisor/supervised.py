"""A supervisor, with agents that do what a test says and a queue that they take tasks from."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from lifecycle.fleet.supervisor.scope import AgentPhase, AgentScope, Change
from lifecycle.fleet.supervisor.supervisor import (
    ARCHITECT,
    CODER,
    AgentFactory,
    OnEnd,
    Supervisor,
    SupervisorPolicy,
    SupervisorResult,
)
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Mapping

Doing = Callable[["Agent", AgentScope], Awaitable[None]]
QUICK = {
    "coder": SupervisorPolicy(done=CODER.done, error=CODER.error, wait=0.0),
    "architect": SupervisorPolicy(done=ARCHITECT.done, error=ARCHITECT.error, wait=0.0),
    "once": SupervisorPolicy(done=OnEnd.END, error=OnEnd.END),
    "patient": SupervisorPolicy(done=OnEnd.END, error=OnEnd.END, forced=False),
}


class Queue:
    """Tasks that agents take; what fails comes back."""

    def __init__(self, *tasks: str) -> None:
        self.tasks = deque(tasks)
        self.taken: list[tuple[str, str]] = []
        self.at: dict[str, str] = {}
        self.requeued: list[tuple[str, str]] = []
        self.broken = False

    def take(self, agent_id: str) -> str | None:
        if not self.tasks:
            return None
        task = self.at[agent_id] = self.tasks.popleft()
        self.taken.append((agent_id, task))
        return task

    async def requeue(self, agent_id: str, reason: str) -> None:
        if self.broken:
            raise ConnectionError("the queue is gone")
        self.requeued.append((agent_id, reason))
        if agent_id in self.at:
            self.tasks.append(self.at.pop(agent_id))


class Agent:
    """An agent that does what the test says."""

    def __init__(self, world: World, agent_id: str, config: Any) -> None:
        self.agent_id, self.config, self.queue = agent_id, config, world.queue
        self._doing = world.doing[agent_id]

    async def run(self, scope: AgentScope) -> None:
        await self._doing(self, scope)


class World:
    """A supervisor and what is around it."""

    def __init__(self, *tasks: str, grace: float = 0.2, clean: Any = None) -> None:
        self.queue = Queue(*tasks)
        self.doing: dict[str, Doing] = {}
        self.made: list[Agent] = []
        self.changes: list[Change] = []
        self.reports: list[tuple[str, Mapping[str, object]]] = []
        self.config: Any = "first"
        self.supervisor = Supervisor(
            AgentFactory(
                dict.fromkeys(QUICK, self._make),
                dispatcher=self.queue,
                config=lambda: self.config,
                **({} if clean is None else {"clean": clean}),
            ),
            policies=QUICK,
            grace=grace,
            report=lambda event, /, **fields: self.reports.append((event, fields)),
            on_change=self.changes.append,
        )

    def _make(self, agent_id: str, config: Any, dispatcher: Any) -> Agent:
        assert dispatcher is self.queue
        agent = Agent(self, agent_id, config)
        self.made.append(agent)
        return agent

    def add(self, agent_id: str, agent_type: str, doing: Doing) -> None:
        self.doing[agent_id] = doing
        self.supervisor.add(agent_id, agent_type)

    async def ends(self) -> SupervisorResult:
        return await asyncio.wait_for(self.supervisor.run(), PATIENCE)

    def lives(self, agent_id: str) -> int:
        return sum(agent.agent_id == agent_id for agent in self.made)


async def works(agent: Agent, scope: AgentScope) -> None:
    """Take one task and be done; wait when there is none."""
    if agent.queue.take(agent.agent_id) is None:
        await scope.wait()
        return
    scope.notify(AgentPhase.DONE)
    await scope.wait()


async def waits(_agent: Agent, scope: AgentScope) -> None:
    await scope.wait()


async def fails(_agent: Agent, _scope: AgentScope) -> None:
    raise ValueError("broken")


def failing_on(bad: str) -> Doing:
    async def doing(agent: Agent, scope: AgentScope) -> None:
        task = agent.queue.take(agent.agent_id)
        if task is None:
            await scope.wait()
        elif task == bad and sum(t == bad for _, t in agent.queue.taken) == 1:
            scope.notify(AgentPhase.ERROR, f"{task} is too hard")
            await scope.wait()

    return doing
