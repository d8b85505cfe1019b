"""Keeps agents alive by policy: one keeper per agent, who alone restarts it.

Owns scopes and the order of each end: told, cancelled, gone, requeued, replaced. Must not know what
an agent works on. One agent's failure never touches another, unless its policy says so.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lifecycle.fleet.factory import AgentFactory, SupervisorError
from lifecycle.fleet.policies import POLICIES, RestartPolicy, Then
from lifecycle.fleet.scope import AgentPhase, AgentScope, Change, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lifecycle.fleet.factory import SupervisedAgent
    from lifecycle.parts import Report

__all__ = ["AgentFactory", "Ending", "Supervisor", "SupervisorError"]


@dataclass(frozen=True, slots=True)
class Ending:
    """How everything ended."""

    exit_code: int = 0
    reason: str = ""
    unstopped: tuple[str, ...] = ()
    """Agents that did not end within their grace, nor when they were cancelled."""


class Supervisor:
    """Runs agents under one main scope until each has ended or all are shut down.

    `grace` is how long an agent may take from the end of its scope to its own; then its task is
    cancelled, and has as long again. `told` hears of each state change, `gone` of each id that is
    free again; they must not raise.
    """

    def __init__(  # noqa: PLR0913  # all but the factory by name
        self,
        factory: AgentFactory,
        *,
        policies: Mapping[str, RestartPolicy] = POLICIES,
        grace: float = 10.0,
        report: Report | None = None,
        told: Callable[[Change], None] | None = None,
        gone: Callable[[str], None] | None = None,
    ) -> None:
        self.factory = factory
        self.policies = dict(policies)
        self.main = Scope()
        self.agents: dict[str, SupervisedAgent] = {}
        """Those that live, by id."""
        self.agent_types: dict[str, str] = {}
        self.agent_scopes: dict[str, AgentScope] = {}
        self._grace = grace
        self._report: Report = report or _silent
        self._told: Callable[[Change], None] = told or _silent_about
        self._gone: Callable[[str], None] = gone or _silent_about
        self._kept: dict[str, Scope] = {}
        self._keepers: set[asyncio.Task[None]] = set()
        self._unstopped: dict[str, asyncio.Task[None]] = {}
        self._exit_code, self._reason = 0, ""

    # --- what others may do -------------------------------------------------------------------

    def add(self, agent_id: str, agent_type: str) -> None:
        """Start an agent and keep it by the policy of its type."""
        if agent_type not in self.policies or not self.factory.knows(agent_type):
            known = ", ".join(sorted(filter(self.factory.knows, self.policies)))
            raise SupervisorError(f"there is no agent type {agent_type!r}; known: {known}")
        stuck = self._unstopped.get(agent_id)
        if agent_id in self._kept or (stuck is not None and not stuck.done()):
            raise SupervisorError(f"an agent {agent_id!r} is alive already")
        if self.main.cancelled:
            raise SupervisorError(f"{agent_id!r} was not started: all is being shut down")
        scope = self._kept[agent_id] = Scope(self.main)
        self.agent_types[agent_id] = agent_type
        keeper = asyncio.get_running_loop().create_task(
            self._keep(agent_id, agent_type, scope), name=f"keeper of {agent_id}"
        )
        self._keepers.add(keeper)
        keeper.add_done_callback(lambda _: self._let_go(agent_id, keeper))

    def stop(self, agent_id: str) -> bool:
        """End an agent for good; says whether there was one."""
        scope = self._kept.get(agent_id)
        if scope is not None:
            scope.cancel()
        return scope is not None

    def shutdown(self, reason: str = "", exit_code: int = 0) -> None:
        """End all agents; the first reason and the worst exit code count."""
        self._reason = self._reason or reason
        self._exit_code = max(self._exit_code, exit_code)
        self.main.cancel()

    async def run(self) -> Ending:
        """Return once no agent is left.

        To cancel this call is to shut down: all agents are ended in order first.
        """
        try:
            await self._all_gone()
        except asyncio.CancelledError:
            self.shutdown("cancelled")
            await self._all_gone()
            self._say_the_end()
            raise
        self._say_the_end()
        return self.ending

    @property
    def ending(self) -> Ending:
        """How it ended so far."""
        stuck = tuple(name for name, task in self._unstopped.items() if not task.done())
        return Ending(self._exit_code, self._reason, stuck)

    # --- keeping ------------------------------------------------------------------------------

    async def _keep(self, agent_id: str, agent_type: str, scope: Scope) -> None:
        policy = self.policies[agent_type]
        life = errors = 0
        while not scope.cancelled:
            life += 1
            end, gone = await self._live(agent_id, agent_type, life, scope)
            if end is None or self.main.cancelled:
                return
            failed = end.state == AgentPhase.ERROR
            errors = errors + 1 if failed else 0
            then = policy.error if failed else policy.done
            self._report(
                "agent_ended",
                agent_id=agent_id,
                life=life,
                state=end.state,
                reason=end.error,
                then=str(then),
            )
            if then is Then.SHUT_DOWN:
                self.shutdown(f"{agent_type} {agent_id} failed: {end.error}", exit_code=1)
                return
            if then is Then.REQUEUE:
                await self.factory.dispatcher.requeue(agent_id, end.error)
            # Whoever has not ended may still write in its workspace; nobody takes its place.
            if then is Then.END or not gone or not await scope.sleep(policy.wait_after(errors)):
                return

    async def _live(
        self, agent_id: str, agent_type: str, life: int, above: Scope
    ) -> tuple[Change | None, bool]:
        """Let one agent live; returns how it ended (None if it was told to) and if it is gone."""
        scope = AgentScope(above, agent_id, life, self._told)
        self.agent_scopes[agent_id] = scope
        task = asyncio.get_running_loop().create_task(
            self._one_life(agent_type, scope), name=f"agent {agent_id}, life {life}"
        )
        watching = [asyncio.ensure_future(scope.ended.wait()), asyncio.ensure_future(scope.wait())]
        try:
            await asyncio.wait({task, *watching}, return_when=asyncio.FIRST_COMPLETED)
            told_to = scope.cancelled and scope.end is None and not task.done()
            scope.cancel()
            gone = await self._ended(agent_id, task, self.policies[agent_type])
        finally:
            for each in watching:
                each.cancel()
            self.agents.pop(agent_id, None)
            del self.agent_scopes[agent_id]
        return (None if told_to else scope.end), gone

    async def _one_life(self, agent_type: str, scope: AgentScope) -> None:
        try:
            agent = self.factory.new_agent(scope.agent_id, agent_type)
            self.agents[scope.agent_id] = agent
            scope.notify(AgentPhase.SETUP)
            await self.factory.set_up(scope.agent_id)
            scope.notify(AgentPhase.WORKING)
            await agent.run(scope)
        except asyncio.CancelledError:
            scope.notify(AgentPhase.ERROR, "its task was cancelled")
            raise
        except (Exception, SystemExit) as problem:  # noqa: BLE001  # whatever it is, it is this agent's end alone
            scope.notify(AgentPhase.ERROR, f"{type(problem).__name__}: {problem}")
        else:
            scope.notify(AgentPhase.DONE)

    async def _ended(self, agent_id: str, task: asyncio.Task[None], policy: RestartPolicy) -> bool:
        await asyncio.wait({task}, timeout=self._grace)
        if task.done():
            return True
        self._report("agent_stop_late", agent_id=agent_id, seconds=self._grace)
        if policy.forced:
            task.cancel()
        await asyncio.wait({task}, timeout=self._grace if policy.forced else None)
        if not task.done():
            self._unstopped[agent_id] = task
            self._report("agent_stop_failed", agent_id=agent_id, seconds=2 * self._grace)
        return task.done()

    def _let_go(self, agent_id: str, keeper: asyncio.Task[None]) -> None:
        # Over, so that the scope above it does not remember it.
        self._kept.pop(agent_id).cancel()
        del self.agent_types[agent_id]
        self._keepers.discard(keeper)
        problem = None if keeper.cancelled() else keeper.exception()
        if problem is not None:
            # Without its keeper nobody knows what became of the agent's task.
            text = f"{agent_id} could not be kept: {type(problem).__name__}: {problem}"
            self._report("agent_supervision_failed", agent_id=agent_id, reason=text)
            self.shutdown(text, exit_code=1)
        self._gone(agent_id)

    async def _all_gone(self) -> None:
        while self._keepers:
            await asyncio.wait(self._keepers)

    def _say_the_end(self) -> None:
        ending = self.ending
        self._report(
            "supervisor_stop_failed" if ending.unstopped else "supervisor_stopped",
            exit_code=ending.exit_code,
            reason=ending.reason,
            unstopped=list(ending.unstopped),
        )


def _silent(event: str, /, **fields: object) -> None:
    del event, fields


def _silent_about(what: object) -> None:
    del what
