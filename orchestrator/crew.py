"""The loops of a runner as supervised agents: one keeper each, ended in order, named when late.

A loop restarts its agent's process itself, by the rules of its lifecycle; so no loop is restarted
here, and none is cut off while it brings work to safety.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lifecycle.fleet.policies import RestartPolicy, Then
from lifecycle.fleet.supervisor import AgentFactory, Supervisor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lifecycle.engine import Engine
    from lifecycle.fleet.scope import AgentScope
    from lifecycle.plan import Agent, Task
    from lifecycle.result import LoopResult

LOOP = "loop"
POLICY = RestartPolicy(done=Then.END, error=Then.END, forced=False)
LATE_AFTER = 5.0
"""Seconds beyond the agents' own grace after which a loop that should end is named."""
DRAIN_AGAIN = 0.05
"""Seconds between two looks for an owner to drain; a loop that just begins has none yet."""


class Crew:
    """Runs loops under one supervisor.

    `ended` is told each loop's result, or what broke it, before its keeper lets go; an error of its
    own ends all loops and is raised by `run`. `late` is told who does not end when all should.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        ended: Callable[[str, LoopResult | None, Exception | None], Awaitable[None]],
        late: Callable[[str, float], None],
        late_after: float = LATE_AFTER,
    ) -> None:
        self._engine = engine
        self._ended = ended
        self._late = late
        self._given: dict[str, tuple[Agent, Task, bool]] = {}
        self._running: set[str] = set()
        self._again: set[str] = set()
        """Begun anew before the keeper of their last loop had let go."""
        self._failure: Exception | None = None
        settings = engine.parts.settings
        self.supervisor = Supervisor(
            AgentFactory({LOOP: self._made}, dispatcher=self, config=settings),
            policies={LOOP: POLICY},
            grace=settings().stop_grace + late_after,
            report=self._report,
            gone=self._gone,
        )

    def start(self, agent: Agent, task: Task, *, resume: bool = True) -> None:
        """Begin a loop; with `resume`, one that is held goes on at once."""
        if self.supervisor.main.cancelled:
            return
        agent_id = agent.agent_id
        self._given[agent_id] = (agent, task, resume)
        self._running.add(agent_id)
        if agent_id in self.supervisor.agent_types:
            self._again.add(agent_id)
        else:
            self.supervisor.add(agent_id, LOOP)

    def runs(self, agent_id: str) -> bool:
        """Tell whether a loop of this agent has not come to its end."""
        return agent_id in self._running

    async def run(self) -> None:
        """Return once no loop is left."""
        await self.supervisor.run()
        if self._failure is not None:
            raise self._failure

    async def shutdown(self) -> None:
        """End every loop with its work saved."""
        self.supervisor.shutdown("a signal")
        await self._engine.shutdown()

    async def kill(self) -> None:
        """End every agent's tree at once."""
        await self._engine.kill()

    async def requeue(self, agent_id: str, reason: str) -> None:
        """Do nothing: what a loop was at is in its record, and goes on from there."""

    def _made(self, agent_id: str, config: Any, dispatcher: Any) -> _Loop:
        del config, dispatcher
        return _Loop(self, *self._given[agent_id])

    async def one(self, agent: Agent, task: Task, *, resume: bool) -> None:
        """Run one loop and tell its end."""
        result, problem = None, None
        try:
            result = await self._engine.run(agent, task, resume=resume)
        except Exception as broken:  # noqa: BLE001  # whatever broke one loop is told, and no other's business
            problem = broken
        self._running.discard(agent.agent_id)
        try:
            await self._ended(agent.agent_id, result, problem)
        except Exception as broken:  # noqa: BLE001  # raised by `run`, once all loops have ended
            self._failure = self._failure or broken
            self.supervisor.shutdown(f"{type(broken).__name__}: {broken}", exit_code=1)

    def drain(self, agent_id: str) -> None:
        """Ask the owner of a loop to end it, if it is there already."""
        owner = self._engine.owner(agent_id)
        if owner is not None:
            owner.drain()

    def _gone(self, agent_id: str) -> None:
        if agent_id not in self._again:
            self._given.pop(agent_id, None)
        else:
            self._again.discard(agent_id)
            if not self.supervisor.main.cancelled:
                self.supervisor.add(agent_id, LOOP)

    def _report(self, event: str, /, **fields: Any) -> None:
        self._engine.parts.report(event, **fields)
        if event == "agent_stop_late":
            self._late(fields["agent_id"], fields["seconds"])


class _Loop:
    """One loop, as its supervisor sees it."""

    def __init__(self, crew: Crew, agent: Agent, task: Task, resume: bool) -> None:  # noqa: FBT001  # as it was given
        self._crew, self._agent, self._task, self._resume = crew, agent, task, resume

    async def run(self, scope: AgentScope) -> None:
        """Run until the lifecycle ends or rests; a cancelled scope drains it."""
        one = asyncio.ensure_future(self._crew.one(self._agent, self._task, resume=self._resume))
        over = asyncio.ensure_future(scope.wait())
        try:
            await asyncio.wait({one, over}, return_when=asyncio.FIRST_COMPLETED)
            while not one.done():
                self._crew.drain(self._agent.agent_id)
                await asyncio.wait({one}, timeout=DRAIN_AGAIN)
        finally:
            over.cancel()
            one.cancel()  # harmless when it is done
        await one
