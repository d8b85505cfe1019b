"""Ends what is left of an attempt whose runner lost sight of it, and finds what it left to say.

It decides nothing: what it finds goes back as one fact.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from communication.mailbox import ReadingKind
from lifecycle.attempt.output_monitor import Monitor
from lifecycle.attempt.watch import signal_from
from lifecycle.errors import PlanError
from lifecycle.launch.programs import program_of
from lifecycle.machine import events as on
from lifecycle.machine.budget import price_of
from lifecycle.machine.states import Spawning, Stopping, Working, spawn_of
from lifecycle.setup.agent_workspace import end, mailbox_of, opened
from runtime.agents.outcome import Ending
from runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Collection

    from lifecycle.services import MachineServices
    from lifecycle.working_copy import LocalCopy
    from runtime.process import ProcessIdentity


async def reclaim(
    machine: MachineServices, local: LocalCopy, attempt: int, marks: tuple[str, ...]
) -> on.RunnerRestarted:
    """Make sure that nothing of a lost attempt is alive; return what it left to say."""
    swept: set[ProcessIdentity] = set()
    for mark in marks:
        swept |= machine.strays.pop(mark, set())
        for identity in machine.terminals.find_marked(mark):
            await end(machine, identity)
            swept.add(identity)
    word, work = None, local.record.work
    workspace = await opened(machine, local)
    if workspace is not None:
        with contextlib.suppress(RuntimeFault, OSError):  # the snapshot tries again, and tells
            await machine.workspaces.unlock(workspace)
        document = mailbox_of(machine, local, workspace).load()
        for mark in marks:
            reading = document.reading(local.agent_id, spawn_id=mark, task_id=local.task.id)
            if reading.breakpoint is not None and reading.kind is ReadingKind.SIGNAL:
                word = signal_from(reading)
    return on.RunnerRestarted(
        at=machine.shared.clock.now(),
        attempt=attempt,
        spawn_id=(spawn_of(work) if work is not None else "") or "",
        word=word,
        swept=len(swept),
        report=_told_before(machine, local, attempt, spoke=word is not None),
        last_sign=None if _lives(local, swept) else _last_sign(machine, local, attempt),
        began=not _is_on_record(local, attempt)
        and machine.paths.log(local.agent_id, attempt).exists(),
    )


def _is_on_record(local: LocalCopy, attempt: int) -> bool:
    """Tell whether an earlier process of the same attempt was written down."""
    return any(row.attempt == attempt for row in local.ledger[-1:])


def _last_sign(machine: MachineServices, local: LocalCopy, attempt: int) -> float | None:
    try:
        return machine.paths.log(local.agent_id, attempt).stat().st_mtime
    except OSError:
        return None


def _told_before(
    machine: MachineServices, local: LocalCopy, attempt: int, *, spoke: bool
) -> on.AgentReport | None:
    """Read what a lost attempt reported: what it used has to be paid all the same."""
    work = local.record.work
    if isinstance(work, (Working, Stopping)):
        start = work.log_start
    elif isinstance(work, Spawning) and not _is_on_record(local, attempt):
        start = 0
    else:
        return None  # where its output begins, behind that of an earlier process, is not known
    try:
        program = program_of(local.agent, work.tally.program)
    except PlanError:
        return None
    if not program.adapter.programs:
        return None
    price = price_of(machine.shared.settings().prices, program.adapter.name, program.model)
    monitor = Monitor(
        program.adapter,
        machine.paths.log(local.agent_id, attempt),
        start,
        machine.shared.clock.now,
        model=program.model,
        price=price,
    )
    return monitor.finish(None, None, Ending.KILLED, spoke=spoke)


def _lives(local: LocalCopy, found: Collection[ProcessIdentity]) -> bool:
    """Tell whether the agent itself was among what was found, not only what it had left behind."""
    work = local.record.work
    if not isinstance(work, (Working, Stopping)):
        return bool(found)
    known = work.process.pid, work.process.start_time
    return any((each.pid, each.start_time) == known for each in found)
