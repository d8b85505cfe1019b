"""Spawners over real agents: Python objects that do as told, and programs of one line."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from lifecycle.fleet.api.options import AgentSpawnOptions, SpawnRequest
from lifecycle.fleet.api.registry import AgentDefinition, AgentRegistry, CommandAgent
from lifecycle.fleet.errors import WorkError
from lifecycle.fleet.spawner.spawner import AgentSpawner
from lifecycle.store.sqlite.store import SqliteStore
from runtime import proc_table
from runtime.process import TerminalManager
from tests import waiting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path
    from uuid import UUID

    from lifecycle.clock import SteppedClock
    from lifecycle.fleet.api.instances import AgentInstance, InstanceState
    from lifecycle.fleet.api.registry import AgentContext

until, PATIENCE = waiting.until, waiting.PATIENCE
T = TypeVar("T")


class Puppet:
    """An in-process agent that does what its context and its work say."""

    made = 0

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.context: AgentContext | None = None
        log.append("made")

    async def initialise(self, context: AgentContext) -> None:
        self.context = context
        if context.get("hangs") == "initialise":
            await asyncio.sleep(3600)
        if context.get("fails") == "initialise":
            raise RuntimeError("no model to load")
        self.log.append("initialised")

    async def process(self, work: Any) -> Any:
        self.log.append(f"work {work}")
        match work:
            case "crash":
                raise RuntimeError("it fell over")
            case "refuse":
                raise WorkError("that cannot be done")
            case "hang":
                await asyncio.sleep(3600)
            case float():
                await asyncio.sleep(work)
        return f"done {work}"

    async def shut_down(self) -> None:
        if self.context is not None and self.context.get("hangs") == "shut_down":
            await asyncio.sleep(3600)
        self.log.append("shut down")

    async def final_state(self) -> Any:
        return {"log": self.log}


@dataclass
class Told:
    """Everything that was reported and audited."""

    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    audit: list[tuple[str, str, str, str, str]] = field(default_factory=list)

    def report(self, event: str, /, **fields: object) -> None:
        self.events.append((event, dict(fields)))

    def names(self) -> list[str]:
        return [name for name, _ in self.events]

    def of(self, name: str) -> list[dict[str, Any]]:
        return [fields for event, fields in self.events if event == name]

    async def record(  # noqa: PLR0913, PLR0917  # as the audit has it
        self,
        action: str,
        actor: str,
        subject: str,
        outcome: str,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> None:
        del details
        self.audit.append((action, actor, subject, outcome, reason))


@dataclass
class Stage:
    """One spawner and what it was made with."""

    spawner: AgentSpawner
    told: Told
    log: list[str]
    folder: Path
    terminals: TerminalManager
    puppet: AgentDefinition

    def request(self, options: Mapping[str, Any] | None = None, **context: Any) -> SpawnRequest:
        """Ask for the puppet."""
        return self.request_for(self.puppet, options, **context)

    def request_for(
        self, definition: AgentDefinition, options: Mapping[str, Any] | None = None, **context: Any
    ) -> SpawnRequest:
        return SpawnRequest(
            agent_definition_id=definition.definition_id,
            options=None if options is None else AgentSpawnOptions.model_validate(options),
            context=context or None,
        )

    async def now(self, instance_id: UUID) -> AgentInstance:
        """Return an instance as it is now."""
        found = await self.spawner.get_instance(instance_id)
        assert found is not None
        return found

    async def state(self, instance_id: UUID) -> InstanceState:
        return (await self.now(instance_id)).state

    async def until_state(self, instance_id: UUID, state: InstanceState) -> AgentInstance:
        async def there() -> bool:
            return await self.state(instance_id) is state

        await until(there)
        return await self.now(instance_id)

    def states_told(self) -> list[str]:
        """Return the states that were reported, in order."""
        return [each["to_state"] for each in self.told.of("agent_state_changed")]

    def program(self, script: str, name: str = "program", **more: Any) -> AgentDefinition:
        """Register a program in Python."""
        runs = CommandAgent(command=(sys.executable, "-S", "-c", script), **more)
        return self.spawner.registry.register(AgentDefinition(name=name, runs=runs))

    def shell(self, script: str, name: str = "shell", **more: Any) -> AgentDefinition:
        """Register a program of the shell."""
        runs = CommandAgent(command=("/bin/sh", "-c", script), **more)
        return self.spawner.registry.register(AgentDefinition(name=name, runs=runs))


def alive(pid: int) -> bool:
    """Tell whether a process runs."""
    row = proc_table.read_row(pid)
    return row is not None and not row.dead


async def until_done(task: asyncio.Task[T], clock: SteppedClock) -> T:
    """Let time pass until a task is done, and return its result."""

    def passes() -> bool:
        clock.advance(1)
        return task.done()

    await until(passes)
    return task.result()


@contextlib.asynccontextmanager
async def staged(
    folder: Path, *, store: SqliteStore | None = None, **more: Any
) -> AsyncIterator[Stage]:
    """Give a spawner, and see to it that nothing that was started is left."""
    told, log = Told(), list[str]()
    puppet = AgentDefinition(name="puppet", runs=lambda: Puppet(log))
    terminals = TerminalManager(folder)
    registry = AgentRegistry([puppet])
    made = {"terminals": terminals, "report": told.report, "audit": told, **more}
    spawner = AgentSpawner(store or SqliteStore.in_memory(), registry, **made)
    try:
        yield Stage(spawner, told, log, folder, terminals, puppet)
    finally:
        await spawner.aclose(grace=0.2)
        await terminals.aclose(0.2)
    assert terminals.live() == ()
