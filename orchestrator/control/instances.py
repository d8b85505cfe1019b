"""The instances of a repository as commands reach them: which are alive, their health, their end.

Attempts of loops are ended through their loops, by requests in the store, whichever process
runs them. Must not start any agent.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from lifecycle.audit import Audit
from lifecycle.clock import SystemClock
from lifecycle.errors import LifecycleError
from lifecycle.fleet.api.queries import GetInstancesFilter
from lifecycle.fleet.api.registry import AgentRegistry
from lifecycle.fleet.errors import InvalidOperationError
from lifecycle.fleet.spawner.runner_identity import has_runner
from lifecycle.fleet.spawner.spawner import AgentSpawner
from lifecycle.paths import Paths
from lifecycle.reporting import silent
from lifecycle.store import lock
from orchestrator.config.known_secrets import masker_of
from orchestrator.control import commands
from orchestrator.control.open_store import store_of
from runtime import proc_table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from pathlib import Path
    from uuid import UUID

    from lifecycle.fleet.api.authorization import Actor
    from lifecycle.fleet.api.instances import AgentInstance
    from runtime.proc_tree import ProcessRow

SHORTEST_ID = 4
START_SLACK = 600.0
"""Seconds that making an attempt ready may take before its process starts."""


class ResourceUse(NamedTuple):
    """What the process tree of an instance uses at this moment."""

    processes: int
    memory_bytes: int
    cpu_seconds: float


_ABSENT = ResourceUse(0, 0, 0.0)


@dataclass(frozen=True, slots=True)
class LoopCommands:
    """Asks loops for what the spawner wants of their attempts, as a person would."""

    repo: Path
    wait_s: float

    async def stop(self, agent_id: str, reason: str, actor: Actor) -> None:
        """End the attempt under way, keep its work, and start no other."""
        await self._ask("stop", agent_id, actor, why=reason)

    async def suspend(self, agent_id: str, actor: Actor) -> None:
        """Hold the process of the attempt under way still."""
        await self._ask("pause", agent_id, actor, now=True)

    async def resume(self, agent_id: str, actor: Actor) -> None:
        """Let it continue."""
        await self._ask("resume", agent_id, actor)

    async def _ask(
        self, verb: str, agent_id: str, actor: Actor, *, why: str = "", now: bool = False
    ) -> None:
        command = commands.OperatorCommand(
            verb=verb, agent_id=agent_id, by=actor.name, why=why, now=now, wait_s=self.wait_s
        )
        try:
            await commands.steer(self.repo, command)
        except LifecycleError as refusal:
            raise InvalidOperationError(str(refusal)) from refusal


@asynccontextmanager
async def fleet_of(repo: Path, *, wait_s: float = 10.0) -> AsyncIterator[AgentSpawner]:
    """Open the instances of a repository, to look at them and to end those of loops."""
    async with store_of(repo) as store:
        clock = SystemClock()
        async with AgentSpawner(
            store,
            AgentRegistry(),
            clock=clock,
            audit=Audit(store.trail, now=clock.now, masker=masker_of(os.environ)),
            report=silent,
            loops=LoopCommands(repo, wait_s),
            retention=None,
        ) as spawner:
            yield spawner


async def named(spawner: AgentSpawner, name: str) -> AgentInstance:
    """Find one by its id, the beginning or end of it, or the name of its agent or task."""
    everything = GetInstancesFilter(include_terminated=True, limit=1000)
    alive = await spawner.get_active_instances()
    found = [each for each in alive if name in (each.name, str(each.instance_id))]
    found = found or [each for each in alive if name == each.details.get("task_id")]
    if not found and len(name) >= SHORTEST_ID:
        listed = await spawner.get_active_instances(everything)
        found = [each for each in listed if _is_part(name, str(each.instance_id))]
    if len(found) == 1:
        return found[0]
    if found:
        more = ", ".join(str(each.instance_id) for each in found[:SHORTEST_ID])
        raise InvalidOperationError(f"{name!r} may mean {more}; give more of the id")
    raise InvalidOperationError(
        f"there is no instance {name!r}; `loopwright instances` lists those alive, with --all "
        "those that ended"
    )


def in_use(instances: Iterable[AgentInstance]) -> dict[UUID, ResourceUse | None]:
    """Measure the process trees of those that are recorded as alive, in one pass.

    None stands for one whose process is gone, even if its number is in use again; instances without
    a process are left out.
    """
    table = proc_table.read_table()
    found: dict[UUID, ResourceUse | None] = {}
    for each in instances:
        pid = each.details.get("pid")
        if not each.is_active or not isinstance(pid, int):
            continue
        leader = table.rows.get(pid)
        rows: list[ProcessRow] = []
        if leader is not None and not leader.dead and _is_its_own(leader, each):
            rows = [row for row in table.family((pid,), pid, set()).values() if not row.dead]
        ticks = sum(row.ticks for row in rows)
        memory = sum(row.resident for row in rows)
        found[each.instance_id] = ResourceUse(len(rows), memory, ticks / 100) if rows else None
    return found


def left_alone(
    repo: Path, instances: Iterable[AgentInstance], used: Mapping[UUID, ResourceUse | None]
) -> frozenset[UUID]:
    """Find those that are recorded as alive, but whose process is gone and whose runner too.

    `used` is what `in_use` said of them. The next runner writes their end down.
    """
    gone = [each for each in instances if used.get(each.instance_id, _ABSENT) is None]
    if not gone:
        return frozenset()
    runs = lock.holder(Paths.of(repo).root) is not None
    return frozenset(
        each.instance_id
        for each in gone
        if not (runs if "attempt" in each.details else has_runner(each.details))
    )


def _is_its_own(row: ProcessRow, instance: AgentInstance) -> bool:
    """Tell whether a process is the recorded one, and not a later one with its number."""
    details = instance.details
    if "start_time" in details:
        boot = details.get("boot_id", proc_table.boot_id())
        return bool(row.start == details["start_time"] and boot == proc_table.boot_id())
    mark = proc_table.read_mark(row.pid)
    if mark is not None and "spawn_id" in details:
        return bool(mark == details["spawn_id"])
    # Its environment cannot be read: compare the time of its start.
    now = proc_table.instant()
    began = SystemClock().now() - (now - row.start) / 100 if now else float(row.start)
    return abs(began - instance.created_at.timestamp()) < START_SLACK


def _is_part(name: str, instance_id: str) -> bool:
    return instance_id.startswith(name) or instance_id.endswith(name)
