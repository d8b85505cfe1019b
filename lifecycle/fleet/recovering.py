"""After a crash of the runner: ends what it left alive, by identity, and says so in the records."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lifecycle.fleet.agentevents import AgentStateChangedEvent, AgentTerminatedEvent
from lifecycle.fleet.instances import AgentState, instant, path
from lifecycle.fleet.metrics import Metrics
from lifecycle.fleet.observe import Hub
from lifecycle.fleet.orders import mark_prefix, marked_instance
from lifecycle.fleet.records import event_rows
from lifecycle.fleet.scribe import Scribe
from lifecycle.fleet.whose import has_runner
from lifecycle.store.instances import instances_of
from runtime.containment import ProcessIdentity

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from uuid import UUID

    from lifecycle.clock import Clock
    from lifecycle.fleet.agentevents import AgentEvent
    from lifecycle.parts import Report
    from lifecycle.ports import Terminals
    from lifecycle.store.instances import InstanceRow
    from lifecycle.store.port import LifecycleStore

GRACE = 2.0
"""Seconds that what is left of an instance gets to end; its work has nobody any more."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """An instance that its runner had lost."""

    instance_id: UUID
    name: str
    state: AgentState
    """As it is recorded now."""
    ended: int
    """Processes that were alive and were ended."""


async def recover(
    scribe: Scribe, terminals: Terminals | None, folder: Path | None, ours: set[UUID]
) -> tuple[Recovered, ...]:
    """End what is recorded as alive and is not ours, and write down that it ended."""
    lost = [row for row in await scribe.store.live_rows() if row.id not in ours]
    marked: dict[str, list[ProcessIdentity]] = {}
    if terminals is not None and folder is not None:
        prefix = mark_prefix(folder)
        for identity in terminals.find_all_marked():
            if identity.mark.startswith(prefix):
                # The number of its life follows, and a word for its checks.
                instance_id = identity.mark.removeprefix(prefix).partition(".")[0]
                marked.setdefault(instance_id, []).append(identity)
    recovered = await asyncio.gather(*(_recovered(scribe, terminals, row, marked) for row in lost))
    known = {str(each) for each in (*ours, *(row.id for row in lost))}
    for instance_id, identities in marked.items():
        if terminals is not None and instance_id not in known:
            # Its runner died before even its record was written.
            for identity in identities:
                await terminals.stop_identity(identity, GRACE)
            scribe.report("stray_instance_ended", instance_id=instance_id, ended=len(identities))
    return tuple(recovered)


async def recover_instances(
    store: LifecycleStore, terminals: Terminals, clock: Clock, report: Report
) -> tuple[Recovered, ...]:
    """End the instances whose runner is dead, wherever they are kept; write down that they ended.

    For whoever opens a repository: what a living runner has, this one too, stays as it is.
    """
    scribe = Scribe(instances_of(store), clock, Hub(), Metrics(), report)
    rows = await scribe.store.live_rows()
    lost = [row for row in rows if not has_runner(json.loads(row.details_json))]
    if not lost:
        return ()
    marked: dict[str, list[ProcessIdentity]] = {}
    for identity in terminals.find_all_marked():
        if instance_id := marked_instance(identity.mark):
            marked.setdefault(instance_id, []).append(identity)
    return tuple(
        await asyncio.gather(*(_recovered(scribe, terminals, row, marked) for row in lost))
    )


async def _recovered(
    scribe: Scribe,
    terminals: Terminals | None,
    row: InstanceRow,
    marked: dict[str, list[ProcessIdentity]],
) -> Recovered:
    found = {each.pid: each for each in marked.get(str(row.id), ())}
    ended = len(found)
    recorded = _recorded(json.loads(row.details_json))
    if recorded is not None:
        found.setdefault(recorded.pid, recorded)
    survivors = 0
    if terminals is not None:
        for identity in found.values():
            report = await terminals.stop_identity(identity, GRACE)
            survivors += len(report.survivors)
    state = AgentState(row.state)
    if not survivors:
        orderly = state is AgentState.TERMINATING
        final = AgentState.TERMINATED if orderly else AgentState.FAILED
        await _record(scribe, row, final, ended)
        state = final
    scribe.report(
        "instance_recovered",
        instance_id=str(row.id),
        state=str(state),
        ended=ended,
        survivors=survivors,
    )
    return Recovered(row.id, row.name, state, ended)


async def _record(scribe: Scribe, row: InstanceRow, final: AgentState, ended: int) -> None:
    text = "its runner ended while it was alive"
    reason = f"{text}; {ended} processes of it were ended" if ended else text
    now = scribe.clock.now()
    steps = path(AgentState(row.state), final)
    events: list[AgentEvent] = list(_steps(row, steps, reason, now))
    events.append(
        AgentTerminatedEvent(
            instance_id=row.id,
            occurred_at=instant(now),
            final_state=final,
            was_graceful=False,
            reason=reason,
            uptime=instant(now) - instant(row.created_at),
        )
    )
    ended_row = replace(
        row,
        state=final.value,
        health_state="unknown",
        error_message=reason if final is AgentState.FAILED else row.error_message,
        updated_at=now,
        terminated_at=now,
    )
    await scribe.store.save(ended_row, event_rows(events))
    scribe.tell(*events)


def _steps(
    row: InstanceRow, steps: Iterable[AgentState], reason: str, now: float
) -> Iterable[AgentStateChangedEvent]:
    before = AgentState(row.state)
    for state in steps:
        yield AgentStateChangedEvent(
            instance_id=row.id,
            occurred_at=instant(now),
            previous_state=before,
            new_state=state,
            reason=reason,
        )
        before = state


def _recorded(details: dict[str, object]) -> ProcessIdentity | None:
    match details:
        case {"pid": int(pid), "start_time": int(start), "boot_id": str(boot), "mark": str(mark)}:
            return ProcessIdentity(pid, start, boot, mark)
        case _:
            return None
