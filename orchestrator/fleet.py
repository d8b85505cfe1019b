"""The instances of a repository as commands reach them: what is alive, how it does, and its end.

Attempts of loops are ended through their loops, by requests in the store, so it makes no
difference which process runs them. Must not start any agent.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from lifecycle.audit import Audit
from lifecycle.clock import SystemClock
from lifecycle.errors import LifecycleError
from lifecycle.fleet.errors import InvalidOperationError
from lifecycle.fleet.queries import GetInstancesFilter
from lifecycle.fleet.registry import AgentRegistry
from lifecycle.fleet.spawner import AgentSpawner
from orchestrator import steering
from orchestrator.reading import store_of
from runtime import proctable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path
    from uuid import UUID

    from lifecycle.fleet.authorize import Actor
    from lifecycle.fleet.instances import AgentInstance

SHORTEST_ID = 4


class Use(NamedTuple):
    """What the process tree of an instance uses at this moment."""

    processes: int
    memory_bytes: int
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Loops:
    """Asks loops for what the spawner wants of their attempts, as a person would."""

    repo: Path
    wait_s: float

    async def stop(self, agent_id: str, reason: str, actor: Actor) -> None:
        """End the attempt under way, keep its work, and start no other."""
        await self._ask("stop", agent_id, actor, text=reason)

    async def suspend(self, agent_id: str, actor: Actor) -> None:
        """Hold the process of the attempt under way still."""
        await self._ask("pause", agent_id, actor, now=True)

    async def resume(self, agent_id: str, actor: Actor) -> None:
        """Let it go on."""
        await self._ask("resume", agent_id, actor)

    async def _ask(
        self, verb: str, agent_id: str, actor: Actor, *, text: str = "", now: bool = False
    ) -> None:
        wish = steering.Wish(
            verb=verb, agent_id=agent_id, by=actor.name, text=text, now=now, wait_s=self.wait_s
        )
        try:
            await steering.steer(self.repo, wish)
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
            audit=Audit(store.trail, now=clock.now),
            loops=Loops(repo, wait_s),
        ) as spawner:
            yield spawner


async def named(spawner: AgentSpawner, name: str) -> AgentInstance:
    """Find one by its id, the beginning or end of it, or the name of its agent."""
    everything = GetInstancesFilter(include_terminated=True, limit=1000)
    alive = await spawner.get_active_instances()
    found = [each for each in alive if name in (each.name, str(each.instance_id))]
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


def in_use(instances: Iterable[AgentInstance]) -> dict[UUID, Use]:
    """Measure the process trees of those that are alive on this machine, in one pass."""
    table = proctable.read_table()
    found: dict[UUID, Use] = {}
    for each in instances:
        pid = each.details.get("pid")
        if not each.is_active or not isinstance(pid, int) or pid not in table.rows:
            continue
        rows = [row for row in table.family((pid,), pid, set()).values() if not row.dead]
        ticks = sum(row.ticks for row in rows)
        memory = sum(row.resident for row in rows)
        found[each.instance_id] = Use(len(rows), memory, ticks / 100)
    return found


def _is_part(name: str, instance_id: str) -> bool:
    return instance_id.startswith(name) or instance_id.endswith(name)
