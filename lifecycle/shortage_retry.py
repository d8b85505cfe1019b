"""What becomes of an order when the machine is short of descriptors, threads or memory.

Nothing is given up for that: an order of which the machine decides what follows ends in a fact
that says so, everything else waits here and is tried again. It must not decide what is a shortage.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.events import Fault
from runtime.shortage import shortage_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lifecycle.machine.effects import Effect
    from lifecycle.machine.events import Event
    from lifecycle.reporting import Report

T = TypeVar("T")

FIRST, LONGEST = 1.0, 30.0
"""Seconds between two tries; they double."""


def fault_of(error: Exception, otherwise: Fault = Fault.ENVIRONMENT) -> Fault:
    """Say whose fault it is, unless the machine was only short of something."""
    return Fault.SHORTAGE if shortage_of(error) else otherwise


def text_of(error: BaseException) -> str:
    """Put an error into words that name a shortage as what it is."""
    said, short = str(error), shortage_of(error)
    return said if short in said else short


def put_off(
    effect_id: str,
    effect: Effect,
    at: float,
    error: BaseException,
    fault: Fault = Fault.SHORTAGE,
) -> Event | None:
    """Return the fact that has the order given again later; None where there is none."""
    text = text_of(error)
    match effect:
        case do.PrepareWorkspace(attempt=attempt):
            return on.WorkspaceFailed(at=at, attempt=attempt, text=text, fault=fault)
        case do.SpawnAgent(attempt=attempt):
            return on.SpawnFailed(
                at=at, attempt=attempt, spawn_id=effect_id, text=text, fault=fault
            )
        case do.TakeSnapshot(attempt=attempt, spawn_id=spawn_id):
            return on.SnapshotFailed(
                at=at, attempt=attempt, spawn_id=spawn_id, text=text, fault=fault
            )
        case do.RunGates(attempt=attempt):
            return on.GatesFinished(at=at, attempt=attempt, gates=(), problem=text, fault=fault)
        case do.RunReview(attempt=attempt):
            return on.ReviewFinished(at=at, attempt=attempt, problem=text, fault=fault)
        case _:
            return None


async def patiently(act: Callable[[], Awaitable[T]], report: Report, **fields: object) -> T:
    """Do it; while the machine is short of something, say so, wait and do it again."""
    pause, waited = FIRST, False
    while True:
        try:
            result = await act()
        except Exception as error:
            short = shortage_of(error)
            if not short:
                raise
            report("machine_short", reason=short, again_in=pause, **fields)
        else:
            if waited:
                report("machine_recovered", **fields)
            return result
        await asyncio.sleep(pause)
        pause, waited = min(2 * pause, LONGEST), True
