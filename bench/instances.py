"""Instances: spawning one, finding some among 100,000, ending 100 at once, looking after 200."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from uuid import UUID

from bench.measure import (
    Options,
    Row,
    best,
    burst,
    cpu,
    in_turns,
    limited,
    pages_compared,
    part,
    script,
    spread,
)
from bench.world import World, fill, world
from lifecycle.fleet.api.authorization import LOCAL, NoAudit
from lifecycle.fleet.api.instances import HealthState, InstanceState
from lifecycle.fleet.api.options import SpawnRequest
from lifecycle.fleet.api.queries import GetInstancesFilter, TerminationOptions
from lifecycle.fleet.api.registry import AgentDefinition, AgentRegistry, CommandAgent
from lifecycle.fleet.spawner.spawner import AgentSpawner
from lifecycle.reporting import silent
from lifecycle.store.instances import InstanceRow, born_at, new_instance_id
from lifecycle.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from lifecycle.fleet.api.instances import AgentInstance

AGENTS = 100
WATCHED = 200
STATES = (
    InstanceState.READY,
    InstanceState.PROCESSING,
    *[InstanceState.TERMINATED] * 6,
    InstanceState.FAILED,
)
_P = InstanceState.PROCESSING
FILTERS = (
    ("active", GetInstancesFilter(limit=100)),
    ("by tag, also ended", GetInstancesFilter(tag="nightly", include_terminated=True)),
    ("processing, by tag", GetInstancesFilter(tag="nightly", state=_P, limit=10)),
    ("degraded", GetInstancesFilter(health_state=HealthState.DEGRADED, limit=10)),
    ("by definition", GetInstancesFilter(definition_id=UUID(int=3), limit=40)),
    (
        "by name*, also ended",
        GetInstancesFilter(name_pattern="reviewer 7*", include_terminated=True),
    ),
)


@asynccontextmanager
async def _spawner(made: World, name: str) -> AsyncIterator[tuple[AgentSpawner, SpawnRequest]]:
    runs = CommandAgent(command=made.agent.stays(made.fresh("stamps")), cwd=made.folder())
    definition = AgentDefinition(name="stays", runs=runs)
    async with await SqliteStore.open(made.root / f"{name}.db") as store:
        registry = AgentRegistry([definition])
        async with AgentSpawner(
            store,
            registry,
            terminals=made.terminals,
            folder=made.folder(),
            audit=NoAudit(),
            report=silent,
        ) as spawner:
            yield spawner, SpawnRequest(agent_definition_id=definition.definition_id)


# --- spawning ---------------------------------------------------------------------------------


async def _spawned(spawner: AgentSpawner, request: SpawnRequest) -> list[float]:
    made: list[AgentInstance] = []

    async def one() -> None:
        made.append(await spawner.spawn(request))

    times = await burst(one)
    for instance in made:
        await spawner.terminate(instance.instance_id, TerminationOptions.IMMEDIATE)
    return times


async def _bare(command: tuple[str, ...]) -> list[float]:
    made: list[asyncio.subprocess.Process] = []

    async def one() -> None:
        made.append(await asyncio.create_subprocess_exec(*command, start_new_session=True))

    times = await burst(one)
    for process in made:
        process.kill()
        await process.wait()
    return times


async def _spawn_row(made: World, options: Options) -> Row:
    command = made.agent.stays(made.fresh("stamps"))
    async with _spawner(made, made.fresh("spawn").name) as (spawner, request):
        mine, theirs = await in_turns(
            lambda: _spawned(spawner, request), lambda: _bare(command), options.rounds(100)
        )
    p95 = part(mine, 0.95)
    ratio = part(mine, 0.5) / part(theirs, 0.5)
    return Row(
        what=f"spawn an instance, level process (p95 {p95 * 1000:.1f} ms)",
        against="bare asyncio",
        ours=spread(mine),
        floor=spread(theirs),
        ratio=ratio,
        reach="<= 3x, p95 < 2 s",
        ok=ratio <= 3 and p95 < 2,
        badness=max(ratio / 3, p95 / 2),
        samples=len(mine),
        note=made.note,
    )


# --- finding ----------------------------------------------------------------------------------


async def _filled(path: Path, count: int) -> SqliteStore:
    store = await SqliteStore.open(path)
    await fill(lambda number: store.instances.save(_instance(number)), count)
    return store


def _instance(number: int) -> InstanceRow:
    made = new_instance_id(1_800_000_000.0 + number, number)
    state = STATES[number % len(STATES)]
    ended = state in (InstanceState.TERMINATED, InstanceState.FAILED)
    return InstanceRow(
        id=made,
        definition_id=UUID(int=number % 5),
        state=state.value,
        health_state="degraded" if number % 19 == 0 else "healthy",
        created_at=born_at(made),
        updated_at=born_at(made),
        name=f"reviewer {number % 100} of {number}",
        owner_id=LOCAL.user_id,
        spawn_options_json='{"isolation_level":"process","tags":["nightly"]}',
        details_json='{"pid":4711,"containment":"a process tree of its own"}',
        terminated_at=born_at(made) + 60 if ended else None,
        tags=("nightly", f"pr-{number}") if number % 7 == 0 else (),
    )


async def _asked(spawner: AgentSpawner, which: GetInstancesFilter) -> None:
    found = await spawner.get_active_instances(which)
    if len(found) != which.limit:
        raise RuntimeError(f"{len(found)} instances were found by {which}")


async def _query_rows(made: World, options: Options) -> list[Row]:
    few, many = 1000, 10_000 if options.quick else 100_000
    small = await _filled(made.root / "few.db", few)
    large = await _filled(made.root / "many.db", many)
    of_few, of_many = (AgentSpawner(store, AgentRegistry()) for store in (small, large))

    async def attempt(name: str, which: GetInstancesFilter) -> Row:
        mine, theirs = await in_turns(
            lambda: burst(lambda: _asked(of_many, which)),
            lambda: burst(lambda: _asked(of_few, which)),
            options.rounds(150),
        )
        return pages_compared(
            what=f"{which.limit} instances {name}, at {many:,}",
            against="at 1,000",
            mine=mine,
            theirs=theirs,
            at_most=2.0,
            reach="<= 2x, < 100 ms (aim 5 ms)",
            within=0.1,
        )

    rows = [await best(lambda each=each: attempt(*each)) for each in FILTERS]  # type: ignore[misc]  # bound at once
    for spawner in (of_few, of_many):
        await spawner.aclose()
    for store in (small, large):
        await store.aclose()
    return rows


# --- ending -----------------------------------------------------------------------------------


async def _end_row(made: World, options: Options) -> Row:
    times: list[float] = []
    async with _spawner(made, made.fresh("end").name) as (spawner, request):
        for _ in range(1 if options.quick else 3):
            spawned = [await spawner.spawn(request) for _ in range(AGENTS)]

            async def end(instance_id: UUID) -> float:
                began = time.perf_counter()
                await spawner.terminate(instance_id, TerminationOptions.IMMEDIATE)
                return time.perf_counter() - began

            times += await asyncio.gather(*(end(each.instance_id) for each in spawned))
    p99 = part(times, 0.99)
    return limited(
        what=f"terminate {AGENTS} instances at once to nothing left, after the grace, p99",
        ours=f"{p99 * 1000:.0f} ms",
        value=p99,
        at_most=1.0,
        reach="< 1 s",
        samples=len(times),
        note=made.note,
    )


# --- looking after ----------------------------------------------------------------------------


async def _sampling_row(made: World, options: Options) -> Row:
    seconds = 5.0 if options.quick else 20.0
    async with _spawner(made, made.fresh("watch").name) as (spawner, request):
        for _ in range(WATCHED):
            await spawner.spawn(request)
        await asyncio.sleep(6.0)
        began, used = time.perf_counter(), cpu()
        await asyncio.sleep(seconds)
        share = (cpu() - used) / (time.perf_counter() - began)
    return limited(
        what=f"look after {WATCHED} live instances",
        ours=f"{share * 100:.2f} % of a core",
        value=share,
        at_most=0.01,
        reach="<= 1 %",
        samples=int(seconds / 5),
    )


async def measure(options: Options) -> list[Row]:
    """Measure all of it."""
    with world() as made:
        return [
            await best(lambda: _spawn_row(made, options)),
            *await _query_rows(made, options),
            await best(lambda: _end_row(made, options)),
            await best(lambda: _sampling_row(made, options)),
        ]


if __name__ == "__main__":
    script(measure)
