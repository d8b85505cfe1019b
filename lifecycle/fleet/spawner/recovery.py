"""After a crash of the runner: ends the instances it left alive, and records that they ended.

A process is known by its whole identity, never by its number alone.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lifecycle.fleet.api.instances import InstanceState
from lifecycle.fleet.bodies.command_order import mark_prefix, marked_instance
from lifecycle.fleet.spawner.event_hub import EventHub
from lifecycle.fleet.spawner.metrics import Metrics
from lifecycle.fleet.spawner.runner_identity import has_runner, machine_of
from lifecycle.fleet.spawner.state_changes import StateWriter
from runtime.processes.termination import ProcessIdentity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from uuid import UUID

    from lifecycle.clock import Clock
    from lifecycle.ports import Terminals
    from lifecycle.reporting import Report
    from lifecycle.store.instances import InstanceRow
    from lifecycle.store.sqlite.store import SqliteStore

GRACE = 2.0
"""Seconds that the rest of an instance gets to end; nobody needs its work any more."""
LOST = "its runner ended while it was alive"


@dataclass(frozen=True, slots=True)
class Recovered:
    """An instance that its runner had lost."""

    instance_id: UUID
    name: str
    state: InstanceState
    """As it is recorded now."""
    ended: int
    """Processes that were alive and were ended."""


async def recover(
    writer: StateWriter, terminals: Terminals | None, is_lost: Callable[[InstanceRow], bool]
) -> tuple[Recovered, ...]:
    """End what is recorded as alive and has lost its runner, and record its end."""
    lost = [row for row in await writer.store.live_rows() if is_lost(row)]
    marked = _marked(terminals) if terminals is not None and lost else {}
    return tuple(
        await asyncio.gather(
            *(_end_one(writer, terminals, row, marked.get(str(row.id), [])) for row in lost)
        )
    )


async def end_unrecorded(
    writer: StateWriter, terminals: Terminals, folder: Path, known: set[str]
) -> None:
    """End the instances of this folder whose runner died before their records were written."""
    prefix = mark_prefix(folder)
    for instance_id, identities in _marked(terminals).items():
        ours = [each for each in identities if each.mark.startswith(prefix)]
        if not ours or instance_id in known:
            continue
        for identity in ours:
            await terminals.stop_identity(identity, GRACE)
        writer.report("stray_instance_ended", instance_id=instance_id, ended=len(ours))


async def recover_instances(
    store: SqliteStore,
    terminals: Terminals,
    clock: Clock,
    report: Report,
    owns: Callable[[str], bool],
) -> tuple[Recovered, ...]:
    """End the instances whose runner is dead, wherever they are kept, and record their end.

    For everyone who opens a repository. Instances of a living runner, this one included, and those
    of a machine that the caller does not own stay as they are.
    """

    def is_lost(row: InstanceRow) -> bool:
        details = json.loads(row.details_json)
        return owns(machine_of(details)) and not has_runner(details)

    writer = StateWriter(store.instances, clock, EventHub(), Metrics(), report)
    return await recover(writer, terminals, is_lost)


def _marked(terminals: Terminals) -> dict[str, list[ProcessIdentity]]:
    """Return the living processes of instances, by instance."""
    found = defaultdict[str, list[ProcessIdentity]](list)
    for identity in terminals.find_all_marked():
        if instance_id := marked_instance(identity.mark):
            found[instance_id].append(identity)
    return found


async def _end_one(
    writer: StateWriter,
    terminals: Terminals | None,
    row: InstanceRow,
    identities: Iterable[ProcessIdentity],
) -> Recovered:
    found = {each.pid: each for each in identities}
    ended = len(found)
    recorded = _recorded(json.loads(row.details_json))
    if recorded is not None:
        found.setdefault(recorded.pid, recorded)
    survivors = 0
    if terminals is not None:
        for identity in found.values():
            report = await terminals.stop_identity(identity, GRACE)
            survivors += len(report.survivors)
    state = InstanceState(row.state)
    if not survivors:
        orderly = state is InstanceState.TERMINATING
        state = InstanceState.TERMINATED if orderly else InstanceState.FAILED
        reason = f"{LOST}; {ended} processes of it were ended" if ended else LOST
        await writer.end_recorded(row, state, graceful=False, reason=reason)
    writer.report(
        "instance_recovered",
        instance_id=str(row.id),
        state=str(state),
        ended=ended,
        survivors=survivors,
    )
    return Recovered(row.id, row.name, state, ended)


def _recorded(details: dict[str, object]) -> ProcessIdentity | None:
    match details:
        case {"pid": int(pid), "start_time": int(start), "boot_id": str(boot), "mark": str(mark)}:
            return ProcessIdentity(pid, start, boot, mark)
        case _:
            return None
