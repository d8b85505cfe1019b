"""What an earlier runner left of one lifecycle: orders, a process, and facts it may have missed.

It finds out and tells; nothing is decided or committed here.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.rules.blocks import open_words
from lifecycle.machine.states import (
    AwaitingHuman,
    Blocked,
    Queued,
    Spawning,
    Stopping,
    Suspended,
    Working,
)
from lifecycle.mask_values import masked
from lifecycle.past import alike
from lifecycle.perform.ci import fact_from, missed
from lifecycle.shortage_retry import patiently
from runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from lifecycle.machine.events import Event
    from lifecycle.machine.states import State
    from lifecycle.perform.performer import Performer
    from lifecycle.record import PendingEffect
    from lifecycle.services import SharedServices
    from lifecycle.working_copy import LocalCopy

SUPERSEDED_BY_RESTART = (do.SpawnAgent, do.StopAgent, do.FreezeAgent, do.ThawAgent)
SLACK = 60.0
"""Seconds before the last commit of an earlier runner in which it may not have heard all."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """What was left."""

    orders: tuple[PendingEffect, ...]
    """To be carried out now: they were ordered, and are not known to be done."""
    settled: tuple[str, ...] = ()
    """Orders that the restart itself has settled."""
    lost: Event | None = None
    """What became of an attempt that was under way."""


async def left_of(
    local: LocalCopy, state: State, shared: SharedServices, performer: Performer
) -> Leftover:
    """Read what was ordered; end what is left of a process, and tell what it left to say."""
    pending = await shared.store.pending(local.agent_id)
    if not isinstance(state, (Spawning, Working, Stopping)):
        return Leftover(pending)
    marks = tuple(each.effect_id for each in pending if isinstance(each.effect, do.SpawnAgent))
    if isinstance(state, (Working, Stopping)):
        marks = (*marks, state.process.spawn_id)
    gone = [each for each in pending if isinstance(each.effect, SUPERSEDED_BY_RESTART)]
    return Leftover(
        orders=tuple(each for each in pending if each not in gone),
        settled=tuple(each.effect_id for each in gone),
        lost=await patiently(
            lambda: performer.reclaim(local, state.tally.attempt, marks),
            shared.report,
            agent_id=local.agent_id,
        ),
    )


async def remember_commits(local: LocalCopy, state: State, performer: Performer) -> None:
    """Learn which commits the branch holds, where a CI report on one of them is not news."""
    inner = state.inner if isinstance(state, Suspended) else state
    if isinstance(inner, (Blocked, AwaitingHuman)) and inner.head and open_words(inner):
        with suppress(RuntimeFault, OSError):  # the attempts' heads are known all the same
            await performer.look_at_branch(local)


async def unheard(local: LocalCopy, state: State, shared: SharedServices) -> list[Event]:
    """Return what CI told around the end of an earlier runner, unless that one took it."""
    ci = shared.ci
    if ci is None or isinstance(state, Queued):
        return []
    # What came before the latest agent was started, the runner that started it has taken.
    spawns = [each.event.at for each in local.recent if isinstance(each.event, on.AgentSpawned)]
    since = max(local.record.updated_at - SLACK, *spawns, 0.0)
    since = state.since if isinstance(state, Blocked) else since
    told = await missed(ci, str(local.record.facts.get("branch", "")), since)
    taken = [replace(entry.event, at=0.0) for entry in local.recent]  # perhaps cut: see past.py
    heard = (fact_from(local, event, shared.clock.now()) for event in told)
    facts = [fact for fact in heard if fact is not None]
    return [
        fact
        for fact in masked(tuple(facts), shared.masker)
        if not any(alike(replace(fact, at=0.0), each) for each in taken)
    ]
