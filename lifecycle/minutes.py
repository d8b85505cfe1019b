"""Writes a decision down: the journal's entries, the orders under their ids, one transaction."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lifecycle.errors import StoreDamagedError, StoreError, StoreFromNewerVersionError
from lifecycle.machine.table import rule_name
from lifecycle.record import JournalEntry, PendingEffect
from runtime.shortage import shortage_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from lifecycle.case import Case
    from lifecycle.machine.effects import Effect
    from lifecycle.machine.events import Event
    from lifecycle.machine.states import State
    from lifecycle.machine.step import Step
    from lifecycle.parts import Parts

STORE_EVERY = 5.0
"""Seconds between two attempts to write to a store that refuses."""
STORE_TRIES = 120
"""How often it is tried again; the agent works on meanwhile, unattended."""


def entry_of(case: Case, event: Event, before: State, step: Step) -> JournalEntry:
    """Return the next entry of a lifecycle's journal."""
    case.seq += 1
    return JournalEntry(
        agent_id=case.agent_id,
        seq=case.seq,
        at=event.at,
        event=event,
        rule="late" if step.late else rule_name(before, event),
        before=type(before).__name__,
        after=type(step.state).__name__,
        late=step.late,
    )


def orders_of(case: Case, effects: Iterable[Effect]) -> tuple[PendingEffect, ...]:
    """Give orders their ids, which no other order of any lifecycle ever had."""
    record = case.record
    return tuple(
        PendingEffect(
            effect_id=f"{record.agent_id}.{record.birth}.{case.seq}.{number}",
            agent_id=record.agent_id,
            effect=effect,
        )
        for number, effect in enumerate(effects)
    )


async def keep(
    parts: Parts,
    agent_id: str,
    write: Callable[[], Awaitable[object]],
    *,
    hurry: Callable[[], bool],
) -> None:
    """Write; wait while the disk is full or locked: what has happened cannot be taken back.

    While the machine is only short of something, it is not given up at all.
    """
    left, waited = STORE_TRIES, False
    while True:
        try:
            await write()
        except (StoreFromNewerVersionError, StoreDamagedError):
            raise
        except StoreError as problem:
            if hurry() or not left:
                raise
            left -= not shortage_of(problem)
            waited = True
            parts.report("lifecycle_store_failed", agent_id=agent_id, reason=str(problem))
            await asyncio.sleep(STORE_EVERY)
        else:
            if waited:
                parts.report("lifecycle_store_recovered", agent_id=agent_id)
            return
