"""Instances: spawning one, finding some among 100,000, ending 100 at once, looking after 200."""

from __future__ import annotations

import asyncio
import resource
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from uuid import UUID

from bench.measure import BURST, Options, Row, best, in_turns, script, spread
from bench.world import World, world
from lifecycle.fleet.authorize import LOCAL
from lifecycle.fleet.instances import AgentState, HealthState
from lifecycle.fleet.options import SpawnRequest
from lifecycle.fleet.queries import GetInstancesFilter, TerminationOptions
from lifecycle.fleet.registry import AgentDefinition, AgentRegistry, CommandAgent
from lifecycle.fleet.spawner import AgentSpawner
from lifecycle.store.instances import InstanceRow, born_at, instances_of, new_instance_id
from lifecycle.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

AT_ONCE = 500
AGENTS = 100
WATCHED = 200
STATES = (AgentState.READY, AgentState.PROCESSING, *[AgentState.TERMINATED] * 6, AgentState.FAILED)
_P = AgentState.PROCESSING
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
            store, registry, terminals=made.terminals, folder=made.folder()
        ) as spawner:
            yield spawner, SpawnRequest(agent_definition_id=definition.definition_id)


# --- spawning ---------------------------------------------------------------------------------


async def _spawned(spawner: AgentSpawner, request: SpawnRequest) -> list[float]:
    times, made = [], []
    for _ in range(BURST):
        began = time.perf_counter()
        made.append(await spawner.spawn(request))
        times.append(time.perf_counter() - began)
    for instance in made:
        await spawner.terminate(instance.instance_id, TerminationOptions.IMMEDIATE)
    return times


async def _bare(command: tuple[str, ...]) -> list[float]:
    times, made = [], []
    for _ in range(BURST):
        began = time.perf_counter()
        made.append(await asyncio.create_subprocess_exec(*command, start_new_session=True))
        times.append(time.perf_counter() - began)
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
    p95 = _part(mine, 0.95)
    ratio = _part(mine, 0.5) / _part(theirs, 0.5)
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
    instances = instances_of(store)
    for first in range(0, count, AT_ONCE):
        await asyncio.gather(
            *(
                instances.save(_instance(number))
                for number in range(first, min(first + AT_ONCE, count))
            )
        )
    return store


def _instance(number: int) -> InstanceRow:
    made = new_instance_id(1_800_000_000.0 + number, number)
    state = STATES[number % len(STATES)]
    ended = state in (AgentState.TERMINATED, AgentState.FAILED)
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


async def _asked(spawner: AgentSpawner, which: GetInstancesFilter) -> list[float]:
    times = []
    for _ in range(BURST):
        began = time.perf_counter()
        found = await spawner.get_active_instances(which)
        times.append(time.perf_counter() - began)
        if len(found) != which.limit:
            raise RuntimeError(f"{len(found)} instances were found by {which}")
    return times


async def _query_rows(made: World, options: Options) -> list[Row]:
    few, many = 1000, 10_000 if options.quick else 100_000
    small = await _filled(made.root / "few.db", few)
    large = await _filled(made.root / "many.db", many)
    of_few, of_many = (AgentSpawner(store, AgentRegistry()) for store in (small, large))

    async def attempt(name: str, which: GetInstancesFilter) -> Row:
        mine, theirs = await in_turns(
            lambda: _asked(of_many, which), lambda: _asked(of_few, which), options.rounds(150)
        )
        p95, floor = _part(mine, 0.95), _part(theirs, 0.95)
        ratio = p95 / floor
        return Row(
            what=f"{which.limit} instances {name}, at {many:,}, p95",
            against="at 1,000",
            ours=f"{p95 * 1000:.2f} ms",
            floor=f"{floor * 1000:.2f} ms",
            ratio=ratio,
            reach="<= 2x, < 100 ms (aim 5 ms)",
            ok=ratio <= 2 and max(p95, floor) < 0.1,
            badness=max(ratio / 2, p95 / 0.1),
            samples=len(mine),
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
    p99 = _part(times, 0.99)
    return Row(
        what=f"terminate {AGENTS} instances at once to nothing left, after the grace, p99",
        against="",
        ours=f"{p99 * 1000:.0f} ms",
        reach="< 1 s",
        ok=p99 < 1,
        badness=p99,
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
        began, used = time.perf_counter(), _used()
        await asyncio.sleep(seconds)
        share = (_used() - used) / (time.perf_counter() - began)
    return Row(
        what=f"look after {WATCHED} live instances",
        against="",
        ours=f"{share * 100:.2f} % of a core",
        reach="<= 1 %",
        ok=share <= 0.01,
        badness=share / 0.01,
        samples=int(seconds / 5),
    )


def _used() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _part(values: list[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


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
