"""A program that spawns, supervises and populates agents, as its users write theirs."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

from lifecycle import AgentSpawner, LifecycleManager, SpawnRequest, Supervisor
from lifecycle.fleet.api.events import AgentStateChangedEvent
from lifecycle.fleet.api.instances import AgentInstance
from lifecycle.fleet.api.options import (
    AgentSpawnOptions,
    IsolationLevel,
    ResourceLimits,
    RestartPolicy,
)
from lifecycle.fleet.api.queries import GetInstancesFilter, TerminationOptions
from lifecycle.fleet.api.registry import (
    AgentContext,
    AgentDefinition,
    AgentRegistry,
    CommandAgent,
)
from lifecycle.fleet.errors import FleetError
from lifecycle.fleet.manager import Population
from lifecycle.fleet.supervisor import AgentFactory
from lifecycle.fleet.supervisor.scope import AgentScope
from lifecycle.store.sqlite.store import SqliteStore
from runtime.process import TerminalManager


class Echo:
    """An agent that runs in the caller's process."""

    async def initialise(self, context: AgentContext) -> None:
        """Begin."""
        print(context.get("model"))

    async def process(self, work: Any) -> Any:
        """Do a piece of work."""
        return work

    async def shut_down(self) -> None:
        """End."""


async def spawn(repo: Path) -> None:
    """Spawn an object and a program, look at them and end them."""
    registry = AgentRegistry()
    echo = registry.register(AgentDefinition(name="echo", runs=Echo))
    sleeper = registry.register(AgentDefinition(name="sleeper", runs=CommandAgent(("sleep", "60"))))
    options = AgentSpawnOptions(
        isolation_level=IsolationLevel.PROCESS,
        resource_limits=ResourceLimits(max_memory_mb=256, execution_timeout=timedelta(minutes=1)),
        restart_policy=RestartPolicy(max_retries=2),
        tags=("nightly",),
    )
    async with await SqliteStore.open(repo / "instances.db") as store:
        async with AgentSpawner(store, registry, terminals=TerminalManager(repo)) as spawner:
            request = SpawnRequest(
                agent_definition_id=echo.definition_id, context={"model": "small"}
            )
            first: AgentInstance = await spawner.spawn(request)
            second = await spawner.spawn(
                SpawnRequest(agent_definition_id=sleeper.definition_id, options=options)
            )
            for each in await spawner.get_active_instances(GetInstancesFilter(tag="nightly")):
                print(each.instance_id, each.state)
            async for event in spawner.observe(second.instance_id):
                if isinstance(event, AgentStateChangedEvent):
                    print(event.new_state)
                    break
            try:
                await spawner.suspend(second.instance_id)
                await spawner.resume(second.instance_id)
            except FleetError as problem:
                print(problem)
            print(await spawner.get_instance(first.instance_id), await spawner.get_statistics())
            result = await spawner.terminate(second.instance_id, TerminationOptions.IMMEDIATE)
            print(result.success)


class Worker:
    """An agent that a supervisor keeps running."""

    def __init__(self, agent_id: str) -> None:
        self.agent_id = agent_id

    async def run(self, scope: AgentScope) -> None:
        """Work until told to end."""


class Queue:
    """Where its tasks come from."""

    async def requeue(self, agent_id: str, reason: str) -> bool | None:
        """Put a task back."""
        print(agent_id, reason)
        return True


async def supervise() -> int:
    """Keep a coder running."""

    def coder(agent_id: str, config: Any, dispatcher: Any) -> Worker:
        del config, dispatcher
        return Worker(agent_id)

    factory = AgentFactory({"coder": coder}, dispatcher=Queue(), config=dict)
    supervisor = Supervisor(factory, grace=5.0)
    supervisor.add("coder-1", "coder")
    result = await supervisor.run()
    return result.exit_code


def populate() -> list[str]:
    """Add, pause and resume by turns."""
    population: Population[dict[str, int]] = Population()
    manager = LifecycleManager()
    ann = {"wealth": 3}
    name: str = manager.add_agent("ann", ann, ann, population)
    manager.pause_agent(name, 2, population)
    manager.process_auto_resume(population)
    manager.resume_agent(name, population)
    active = manager.get_active_agents(population)
    manager.remove_agent(name, population)
    return sorted(active)


if __name__ == "__main__":
    asyncio.run(spawn(Path.cwd()))
    print(asyncio.run(supervise()), populate())
