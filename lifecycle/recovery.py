"""What a new runner does first: end what the last one left alive, learn what is done already."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lifecycle.errors import StoreError
from lifecycle.machine.states import Coarse
from lifecycle.retention import RETIRED
from lifecycle.store.instances import instances_of

if TYPE_CHECKING:
    from lifecycle.parts import Parts


async def end_strays(parts: Parts) -> None:
    """End all processes that bear a mark of one of our records: nobody attends them."""
    await _end_instances(parts)
    strays = parts.terminals.find_all_marked()
    if not strays:
        return
    # Nobody will attend one whose record is damaged, either.
    births = {f"{known.agent_id}.{known.birth}." for known in await parts.store.outlines()}
    attended = {process.identity.mark for process in parts.terminals.live()}
    grace = parts.settings().stop_grace
    ours = [
        stray
        for stray in strays
        if stray.mark not in attended and any(stray.mark.startswith(birth) for birth in births)
    ]
    for stray in ours:
        parts.strays[stray.mark].add(stray)
    await asyncio.gather(*(parts.terminals.stop_identity(stray, grace) for stray in ours))


async def _end_instances(parts: Parts) -> None:
    """End what was spawned by itself, not as an attempt, and has lost its runner."""
    try:
        instances = instances_of(parts.store)
    except StoreError:
        return  # a store that keeps none
    if not await instances.live_rows():
        return
    from lifecycle.fleet.recovering import recover_instances  # noqa: PLC0415  # rarely needed

    await recover_instances(parts.store, parts.terminals, parts.clock, parts.report)


async def learn_completed(parts: Parts) -> None:
    """Note the tasks that are done, with their titles, also those whose records are gone."""
    for known in await parts.store.outlines((Coarse.COMPLETED, Coarse.ACCEPTED)):
        if known.task_id:
            parts.completed[known.task_id] = known.task
    for task_id, retired in (await parts.store.all(RETIRED)).items():
        parts.completed.setdefault(task_id, str(retired.get("title", "")))
