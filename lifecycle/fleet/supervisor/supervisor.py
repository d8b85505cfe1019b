"""Keeps agents running by policy: one task per agent, the only one to restart it.

Owns the scopes and the order of each end: report, cancel, wait, requeue, restart. Must not know
what an agent works on. The failure of one agent affects others only if its policy says so.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from lifecycle.fleet.supervisor.factory import AgentFactory, SupervisorError
from lifecycle.fleet.supervisor.scope import AgentPhase, AgentScope, CancelScope, Change
from lifecycle.reporting import silent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lifecycle.fleet.supervisor.factory import Factory, SupervisedAgent
    from lifecycle.reporting import Report

__all__ = ["AgentFactory", "Supervisor", "SupervisorError", "SupervisorResult"]


class OnEnd(StrEnum):
    """What follows when a supervised agent has ended."""

    RESTART = "restart"
    """A new agent with the same id takes the next task."""
    REQUEUE = "requeue"
    """Put its task back into the queue, then as `RESTART`."""
    END = "end"
    """Do not replace it; the others continue."""
    SHUT_DOWN = "shut_down"
    """Shut everything down, with exit code 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorPolicy:
    """What follows when an agent of one type is done or fails."""

    done: OnEnd
    error: OnEnd
    wait: float = 1.0
    """Seconds before the restart after an error; doubled with each further error in a row."""
    longest_wait: float = 60.0
    forced: bool = True
    """Cancel an agent that does not end in time; without it, report it and wait."""

    def wait_after(self, errors: int) -> float:
        """Return the seconds to wait before the restart after so many errors in a row."""
        if not errors:
            return 0.0
        return min(self.wait * 2.0 ** min(errors - 1, 60), self.longest_wait)


CODER = SupervisorPolicy(done=OnEnd.RESTART, error=OnEnd.REQUEUE)
ARCHITECT = SupervisorPolicy(done=OnEnd.RESTART, error=OnEnd.SHUT_DOWN)
POLICIES: Mapping[str, SupervisorPolicy] = MappingProxyType(
    {"coder": CODER, "architect": ARCHITECT}
)
"""By agent type."""


@dataclass(frozen=True, slots=True)
class SupervisorResult:
    """How the supervisor ended."""

    exit_code: int = 0
    reason: str = ""
    unstopped: tuple[str, ...] = ()
    """Agents that did not end, not even when they were cancelled."""


class Supervisor:
    """Runs agents under one main scope until each has ended or all are shut down.

    An agent has `grace` seconds to end after its scope was cancelled; then its task is cancelled,
    and has as long again. `on_change` is called with each state change, `on_gone` with each id
    that is free again; they must not raise.
    """

    def __init__(  # noqa: PLR0913  # all but the factory by name
        self,
        factory: Factory,
        *,
        policies: Mapping[str, SupervisorPolicy] = POLICIES,
        grace: float = 10.0,
        report: Report | None = None,
        on_change: Callable[[Change], None] | None = None,
        on_gone: Callable[[str], None] | None = None,
    ) -> None:
        self.factory = factory
        self.policies = dict(policies)
        self.main = CancelScope()
        self.agents: dict[str, SupervisedAgent] = {}
        """The running ones, by id."""
        self.agent_types: dict[str, str] = {}
        self.agent_scopes: dict[str, AgentScope] = {}
        self._grace = grace
        self._report: Report = report or silent
        self._on_change: Callable[[Change], None] = on_change or _ignore
        self._on_gone: Callable[[str], None] = on_gone or _ignore
        self._scopes: dict[str, CancelScope] = {}
        self._supervising: set[asyncio.Task[None]] = set()
        self._unstopped: dict[str, asyncio.Task[None]] = {}
        self._exit_code, self._reason = 0, ""

    # --- operations --------------------------------------------------------------------------

    def add(self, agent_id: str, agent_type: str, policy: SupervisorPolicy | None = None) -> None:
        """Start an agent and supervise it by the policy of its type, or by its own."""
        policy = policy or self.policies.get(agent_type)
        if policy is None or not self.factory.knows(agent_type):
            known = ", ".join(sorted(filter(self.factory.knows, self.policies)))
            raise SupervisorError(f"there is no agent type {agent_type!r}; known: {known}")
        stuck = self._unstopped.get(agent_id)
        if agent_id in self._scopes or (stuck is not None and not stuck.done()):
            raise SupervisorError(f"an agent {agent_id!r} is already running")
        if self.main.cancelled:
            raise SupervisorError(f"{agent_id!r} was not started: the supervisor is shutting down")
        scope = self._scopes[agent_id] = CancelScope(self.main)
        self.agent_types[agent_id] = agent_type
        task = asyncio.get_running_loop().create_task(
            self._supervise(agent_id, agent_type, policy, scope), name=f"supervises {agent_id}"
        )
        self._supervising.add(task)
        task.add_done_callback(lambda _: self._on_supervision_end(agent_id, task))

    def stop(self, agent_id: str) -> bool:
        """End an agent without restarting it; return whether there was one."""
        scope = self._scopes.get(agent_id)
        if scope is not None:
            scope.cancel()
        return scope is not None

    def shutdown(self, reason: str = "", exit_code: int = 0) -> None:
        """End all agents; the first reason and the highest exit code count."""
        self._reason = self._reason or reason
        self._exit_code = max(self._exit_code, exit_code)
        self.main.cancel()

    async def run(self) -> SupervisorResult:
        """Return once no agent is left.

        Cancelling this call shuts down: all agents are ended first.
        """
        try:
            await self.rest()
        finally:
            self._report_end()
        return self.ending

    async def rest(self) -> None:
        """Return once no agent is left, though more may be added; cancelling it shuts down, too."""
        try:
            await self._wait_for_all()
        except asyncio.CancelledError:
            self.shutdown("cancelled")
            await self._wait_for_all()
            raise

    @property
    def ending(self) -> SupervisorResult:
        """The result so far."""
        stuck = tuple(name for name, task in self._unstopped.items() if not task.done())
        return SupervisorResult(self._exit_code, self._reason, stuck)

    # --- supervising ------------------------------------------------------------------------------

    async def _supervise(
        self, agent_id: str, agent_type: str, policy: SupervisorPolicy, scope: CancelScope
    ) -> None:
        life = errors = 0
        while not scope.cancelled:
            life += 1
            end, gone = await self._run_once(
                AgentScope(scope, agent_id, life, self._on_change), agent_type, policy
            )
            if end is None or self.main.cancelled:
                return
            failed = end.state == AgentPhase.ERROR
            errors = errors + 1 if failed else 0
            follows = {AgentPhase.DONE: policy.done, AgentPhase.ERROR: policy.error}
            then = follows.get(AgentPhase(end.state), OnEnd.END)
            self._report(
                "agent_ended",
                agent_id=agent_id,
                life=life,
                state=end.state,
                reason=end.error,
                then=str(then),
            )
            if then is OnEnd.SHUT_DOWN:
                how = f"failed: {end.error}" if failed else "is done"
                self.shutdown(f"{agent_type} {agent_id} {how}", exit_code=int(failed))
                return
            if then is OnEnd.REQUEUE and (
                await self.factory.dispatcher.requeue(agent_id, end.error) is False
            ):
                return
            # An agent that has not ended may still write in its workspace: do not replace it.
            if then is OnEnd.END or not gone or not await scope.sleep(policy.wait_after(errors)):
                return

    async def _run_once(
        self, scope: AgentScope, agent_type: str, policy: SupervisorPolicy
    ) -> tuple[Change | None, bool]:
        """Run one start; return how it ended (None if it was stopped), and whether it is gone."""
        agent_id = scope.agent_id
        self.agent_scopes[agent_id] = scope
        task = asyncio.get_running_loop().create_task(
            self._run_agent(agent_type, scope), name=f"agent {agent_id}, life {scope.life}"
        )
        watching = [asyncio.ensure_future(scope.ended.wait()), asyncio.ensure_future(scope.wait())]
        try:
            await asyncio.wait({task, *watching}, return_when=asyncio.FIRST_COMPLETED)
            stopped = scope.cancelled and scope.end is None and not task.done()
            scope.cancel()
            gone = await self._ended(agent_id, task, policy)
        finally:
            for each in watching:
                each.cancel()
            self.agents.pop(agent_id, None)
            del self.agent_scopes[agent_id]
        return (None if stopped else scope.end), gone

    async def _run_agent(self, agent_type: str, scope: AgentScope) -> None:
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
        except (Exception, SystemExit) as problem:  # noqa: BLE001  # any error ends this agent alone
            scope.notify(AgentPhase.ERROR, f"{type(problem).__name__}: {problem}")
        else:
            scope.notify(AgentPhase.DONE)

    async def _ended(
        self, agent_id: str, task: asyncio.Task[None], policy: SupervisorPolicy
    ) -> bool:
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

    def _on_supervision_end(self, agent_id: str, task: asyncio.Task[None]) -> None:
        # Cancelled, so that the scope above drops it.
        self._scopes.pop(agent_id).cancel()
        del self.agent_types[agent_id]
        self._supervising.discard(task)
        problem = None if task.cancelled() else task.exception()
        if problem is not None:
            # Without its supervising task, the state of the agent is unknown.
            text = f"{agent_id} could not be supervised: {type(problem).__name__}: {problem}"
            self._report("agent_supervision_failed", agent_id=agent_id, reason=text)
            self.shutdown(text, exit_code=1)
        self._on_gone(agent_id)

    async def _wait_for_all(self) -> None:
        while self._supervising:
            await asyncio.wait(self._supervising)

    def _report_end(self) -> None:
        ending = self.ending
        self._report(
            "supervisor_stop_failed" if ending.unstopped else "supervisor_stopped",
            exit_code=ending.exit_code,
            reason=ending.reason,
            unstopped=list(ending.unstopped),
        )


def _ignore(what: object) -> None:
    del what
