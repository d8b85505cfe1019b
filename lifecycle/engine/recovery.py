"""What a new runner does first: end what the last one left alive and bring its work to safety.

Learns what is done already, too. Must not begin an attempt.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lifecycle.engine.retention import RETIRED
from lifecycle.machine.states import AgentState
from lifecycle.owner.owner import UNTIL_CAPTURED, Owner
from lifecycle.record import AgentLifecycle, Filter, mark_of, working_worker
from lifecycle.working_copy import load, machine_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from lifecycle.perform.performer import Performer
    from lifecycle.services import MachineServices, SharedServices

RECOVERED_AT_ONCE = 8


async def end_strays(machine: MachineServices) -> None:
    """End all processes that bear a mark of one of our records: nobody watches them.

    Those that another machine started, which may be one beside this on the same kernel, are its.
    """
    await _end_instances(machine)
    known = await machine.shared.store.list(limit=1)
    if not (known.records or known.damaged):
        return  # as in a new repository: all processes need not be read
    strays = machine.terminals.find_all_marked()
    if not strays:
        return
    workers = Filter(states=(AgentState.QUEUED, AgentState.RUNNING))
    theirs = {
        mark_of(each.agent_id, each.birth)
        async for each in machine.shared.store.every(workers)
        if working_worker(each)
    }
    # Nobody will watch one whose record is damaged, either.
    outlines = await machine.shared.store.outlines()
    births = {mark_of(known.agent_id, known.birth) for known in outlines} - theirs
    attended = {process.identity.mark for process in machine.terminals.live()}
    grace = machine.shared.settings().stop_grace
    ours = [
        stray
        for stray in strays
        if stray.mark not in attended
        and machine.owns(stray.machine)
        and any(stray.mark.startswith(birth) for birth in births)
    ]
    for stray in ours:
        machine.strays[stray.mark].add(stray)
    await asyncio.gather(*(machine.terminals.stop_identity(stray, grace) for stray in ours))


async def _end_instances(machine: MachineServices) -> None:
    """End what was spawned by itself, not as an attempt, and has lost its runner."""
    if not await machine.shared.store.instances.live_rows():
        return
    from lifecycle.fleet.spawner.recovery import recover_instances  # noqa: PLC0415  # rarely needed

    shared = machine.shared
    await recover_instances(
        shared.store, machine.terminals, shared.clock, shared.report, machine.owns
    )


async def learn_completed(shared: SharedServices) -> None:
    """Note the tasks that are done, with their titles, also those whose records are gone."""
    for known in await shared.store.outlines((AgentState.COMPLETED, AgentState.ACCEPTED)):
        if known.task_id:
            shared.completed[known.task_id] = known.task
    for task_id, retired in (await shared.store.all(RETIRED)).items():
        shared.completed.setdefault(task_id, str(retired.get("title", "")))


async def recover(
    machine: MachineServices,
    performer: Performer,
    claim: Callable[[str], AbstractContextManager[bool]],
) -> tuple[str, ...]:
    """Bring to safety what a crash of this machine left in mid-attempt; returns the agent ids.

    `claim` keeps others away from a lifecycle, or says that somebody has it.
    """
    shared, gate = machine.shared, asyncio.Semaphore(RECOVERED_AT_ONCE)

    async def settle(record: AgentLifecycle) -> bool:
        async with gate:
            with claim(record.agent_id) as free:
                if free:
                    owner = Owner(await load(shared.store, record), shared, performer)
                    owner.drain()
                    await owner.run()
                return free

    lost = await _in_the_middle(machine)
    done = await asyncio.gather(*map(settle, lost), return_exceptions=True)
    for record, result in zip(lost, done, strict=True):
        # One that cannot be brought to rest must not keep all the others from running.
        if isinstance(result, Exception):
            shared.report("lifecycle_recovery_failed", agent_id=record.agent_id, reason=str(result))
        elif isinstance(result, BaseException):
            raise result
    return tuple(
        record.agent_id for record, result in zip(lost, done, strict=True) if result is True
    )


async def _in_the_middle(machine: MachineServices) -> list[AgentLifecycle]:
    """Return our lifecycles that stand in the middle of an attempt, the oldest first."""
    shared, lost = machine.shared, list[AgentLifecycle]()
    async for page in shared.store.pages(Filter(states=(AgentState.QUEUED, AgentState.RUNNING))):
        for damaged in page.damaged:
            shared.report(
                "lifecycle_record_damaged", agent_id=damaged.agent_id, reason=damaged.problem
            )
        lost += [
            record
            for record in page.records
            if isinstance(record.work, UNTIL_CAPTURED)
            and machine.owns(machine_of(record))
            and not working_worker(record)
        ]
    return lost[::-1]
