"""What an earlier runner left of one lifecycle: orders, a process, and what it may not have heard.

It finds out and tells; nothing is decided or committed here.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lifecycle.housing import look_once, opened
from lifecycle.machine import effects as do
from lifecycle.machine.blocks import open_words
from lifecycle.machine.states import (
    AwaitingHuman,
    Blocked,
    Queued,
    Spawning,
    Stopping,
    Suspended,
    Working,
)
from lifecycle.masking import masked
from lifecycle.outside import facts_from, missed
from lifecycle.shortfall import patiently
from runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from ci.interface import CIProvider
    from lifecycle.case import Case
    from lifecycle.machine.events import Event
    from lifecycle.machine.states import State
    from lifecycle.parts import Parts
    from lifecycle.performer import Performer
    from lifecycle.record import PendingEffect

SUPERSEDED_BY_RESTART = (do.SpawnAgent, do.StopAgent, do.FreezeAgent, do.ThawAgent)
SLACK = 60.0
"""Seconds before the last commit of an earlier runner in which it may not have heard all."""


@dataclass(frozen=True, slots=True)
class Left:
    """What was left."""

    orders: tuple[PendingEffect, ...]
    """To be carried out now: they were ordered, and are not known to be done."""
    settled: tuple[str, ...] = ()
    """Orders that the restart itself has settled."""
    lost: Event | None = None
    """What became of an attempt that was under way."""


async def left_of(case: Case, state: State, parts: Parts, performer: Performer) -> Left:
    """Read what was ordered; end what is left of a process, and tell what it left to say."""
    pending = await parts.store.pending(case.agent_id)
    if not isinstance(state, (Spawning, Working, Stopping)):
        return Left(pending)
    marks = tuple(each.effect_id for each in pending if isinstance(each.effect, do.SpawnAgent))
    if isinstance(state, (Working, Stopping)):
        marks = (*marks, state.process.spawn_id)
    gone = [each for each in pending if isinstance(each.effect, SUPERSEDED_BY_RESTART)]
    return Left(
        orders=tuple(each for each in pending if each not in gone),
        settled=tuple(each.effect_id for each in gone),
        lost=await patiently(
            lambda: performer.reclaim(case, state.tally.attempt, marks),
            parts.report,
            agent_id=case.agent_id,
        ),
    )


async def remember_commits(case: Case, state: State, parts: Parts) -> None:
    """Learn which commits the branch holds, where a report of CI on one of them is no news."""
    inner = state.inner if isinstance(state, Suspended) else state
    if parts.ci is None or not isinstance(inner, (Blocked, AwaitingHuman)) or not inner.head:
        return
    workspace = await opened(parts, case) if open_words(inner) else None
    if workspace is not None:
        with suppress(RuntimeFault, OSError):  # the attempts' heads are known all the same
            await look_once(parts, case, workspace)


async def unheard(case: Case, state: State, ci: CIProvider | None, parts: Parts) -> list[Event]:
    """Return what CI told around the end of an earlier runner, unless that one took it."""
    if ci is None or isinstance(state, Queued):
        return []
    since = state.since if isinstance(state, Blocked) else case.record.updated_at - SLACK
    told = await missed(ci, str(case.record.facts.get("branch", "")), since)
    taken = [replace(entry.event, at=0.0) for entry in case.recent]
    facts = [fact for event in told for fact in facts_from(case, event, parts.clock.now())]
    return [
        fact for fact in masked(tuple(facts), parts.masker) if replace(fact, at=0.0) not in taken
    ]
