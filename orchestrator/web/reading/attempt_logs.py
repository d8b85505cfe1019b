"""The log of one attempt for people who look: a window of it, and what is added while it runs.

Reads files in a thread, and remembers nothing. Must not change anything.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lifecycle.machine.states import Spawning, Stopping, Working
from orchestrator.web.edge.problems import unknown
from orchestrator.web.live.streams import BEAT
from orchestrator.web.reading.log_bytes import LogBytes
from orchestrator.web.reading.log_window import Asked, LogReader, window
from runtime.agents.catalogue import adapters

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from lifecycle.record import AgentLifecycle
    from orchestrator.runner.server_interface import RunnerPort
    from orchestrator.web.live.hub import StreamHub
    from orchestrator.web.reading.log_window import LogLineForm, LogWindowForm

LIVE = (Spawning, Working, Stopping)
LOOK_EVERY = 0.3
"""Seconds between two looks at a log that grows; news of the lifecycle come at once."""


async def log_window(
    runner: RunnerPort, record: AgentLifecycle, attempt: int, asked: Asked
) -> LogWindowForm:
    """Return a part of the log of an attempt."""
    reader = await reader_of(runner, record, attempt)
    path = runner.engine.machine.paths.log(record.agent_id, attempt)
    return await asyncio.to_thread(_window, path, reader, asked)


async def following(
    runner: RunnerPort, hub: StreamHub, record: AgentLifecycle, attempt: int, after: int
) -> AsyncGenerator[LogWindowForm | None]:
    """Yield what is added to a log, until its attempt is over; None where nothing is for long."""
    reader = await reader_of(runner, record, attempt)
    path = runner.engine.machine.paths.log(record.agent_id, attempt)
    last: list[LogLineForm] = []
    quiet = 0.0
    with hub.listening(record.agent_id) as listener:
        while not hub.closed:
            listener.woken.clear()
            fresh = await runner.store.get(record.agent_id)
            lives, more = fresh is not None and is_live(fresh, attempt), True
            while more:
                found = await asyncio.to_thread(_window, path, reader, Asked(after=after))
                more, after = found["more"], found["after"]
                # A line that is open comes again only if there is more of it.
                if found["lines"] and found["lines"] != last:
                    last, quiet = found["lines"], 0.0
                    yield found
            if not lives:
                return
            try:
                async with asyncio.timeout(LOOK_EVERY):
                    await listener.woken.wait()
            except TimeoutError:
                quiet += LOOK_EVERY
            if quiet >= BEAT:
                quiet = 0.0
                yield None


def is_live(record: AgentLifecycle, attempt: int) -> bool:
    """Tell whether the agent of an attempt may still print."""
    work = record.work
    return isinstance(work, LIVE) and work.tally.attempt == attempt


async def reader_of(runner: RunnerPort, record: AgentLifecycle, attempt: int) -> LogReader:
    """Return how the log of an attempt is read: by what its program reports."""
    rows = await runner.store.attempts(record.agent_id)
    row = next((each for each in rows if each.attempt == attempt), None)
    program = row.program if row is not None else ""
    adapter = adapters().get(program.partition(":")[0])
    return LogReader(
        adapter if adapter is not None and adapter.programs else None,
        runner.now,
        str(record.facts.get("workspace") or ""),
        runner.engine.shared.masker.mask,
    )


def _window(path: Path, reader: LogReader, asked: Asked) -> LogWindowForm:
    try:
        log = LogBytes(path)
    except OSError as problem:
        raise unknown(
            f"there is no log of attempt {path.stem} of {path.parent.name}",
            "GET the lifecycle: it lists its attempts",
        ) from problem
    with log:
        return window(log, reader, asked)
