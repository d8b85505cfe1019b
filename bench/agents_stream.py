"""What a runner computes while the program of its one agent streams events at a steady pace."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from bench.agent import compiled
from bench.measure import Options, Row, best, cpu
from bench.transcripts import recorded
from bench.world import World, patient, task_of
from lifecycle.errors import LifecycleError
from lifecycle.machine.states import Working
from lifecycle.paths import Paths
from lifecycle.plan import Agent
from runtime.masking.masker import Masker
from runtime.process import TerminalManager

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.loop import AgentLifecycleLoop

EVENTS = 1000
SECONDS = 20.0
AT_MOST = 0.05
SETTLED = 2.0
MASKED = ", a secret looked for in it"
PATIENCE = 20.0
SECRET_NAME = "ANTHROPIC_API_KEY"  # noqa: S105  # a name
SECRET = "sk-ant-api03-nobodys-0123456789abcdef"  # noqa: S105  # nobody's

SOURCE = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* claude ... LINES EVENTS_PER_SECOND: prints the file's lines for ever, one write each. */
int main(int argc, char **argv) {
    static char text[1 << 20];
    FILE *file = fopen(argv[argc - 2], "r");
    if (!file) return 97;
    size_t size = fread(text, 1, sizeof text, file);
    long pause = 1000000000L / atol(argv[argc - 1]);
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (size_t at = 0;;) {
        size_t length = (char *)memchr(text + at, '\n', size - at) - (text + at) + 1;
        if (write(1, text + at, length) != (ssize_t)length) return 98;
        at = (at + length) % size;
        next.tv_nsec += pause;
        if (next.tv_nsec >= 1000000000L) next.tv_nsec -= 1000000000L, next.tv_sec++;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
}
"""

SCRIPT = r"""#!/usr/bin/env python3
import itertools, os, sys, time
with open(sys.argv[-2], "rb") as file:
    lines = file.readlines()
due = time.monotonic()
for line in itertools.cycle(lines):
    os.write(1, line)
    due += 1 / int(sys.argv[-1])
    time.sleep(max(0.0, due - time.monotonic()))
"""


async def _measure(made: World, options: Options, *, masked: bool) -> Row:
    folder = made.folder()
    built = compiled(folder / "claude", SOURCE, SCRIPT)
    run = recorded("claude")
    lines = folder / "lines"
    lines.write_bytes(b"".join(run.body))
    seconds = 3.0 if options.quick else SECONDS
    masker = Masker({SECRET_NAME: SECRET}) if masked else None
    environ = {
        **os.environ,
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        SECRET_NAME: SECRET,
    }
    made.terminals = TerminalManager(folder, environ=environ, masker=masker)

    async def attempt() -> Row:
        settings = patient(
            pass_env=(SECRET_NAME,) if masked else (), tool_server="off", max_tool_calls=0
        )
        loop = made.loop(made.folder(), with_git=False, settings=settings)
        name = made.fresh("stream").name
        agent = Agent(agent_id=name, adapter="claude", args=(str(lines), str(EVENTS)))
        share, events = await _share(loop, agent, seconds)
        return Row(
            what=f"runner while an agent streams 1,000 events/s{MASKED if masked else ''}",
            against="",
            ours=f"{share:.2%} of a core at {events:,.0f}/s",
            reach=f"<= {AT_MOST:.0%}",
            ok=share <= AT_MOST and events >= EVENTS * 0.95,
            badness=share / AT_MOST,
            samples=round(seconds * events),
            note="" if built else "no C compiler: the agent is a Python script",
        )

    return await best(attempt)


async def _share(loop: AgentLifecycleLoop, agent: Agent, seconds: float) -> tuple[float, float]:
    """Return the share of a core that this process used, and the events a second that came."""
    running = asyncio.create_task(loop.run_agent_loop(agent, task_of(agent.agent_id)))
    try:
        log = await _streams(loop, agent)
        began, at, size = cpu(), time.monotonic(), log.stat().st_size
        await asyncio.sleep(seconds)
        passed = time.monotonic() - at
        used, written = cpu() - began, log.stat().st_size - size
        if running.done():
            raise RuntimeError(f"the agent ended: {running.result()}")
    finally:
        await loop.shutdown()
        await running
    body = recorded("claude").body
    return used / passed, written / (sum(map(len, body)) / len(body)) / passed


async def _streams(loop: AgentLifecycleLoop, agent: Agent) -> Path:
    """Wait until the agent is at work and its start is long over; return its log."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        await asyncio.sleep(0.05)
        with suppress(LifecycleError):  # it has not opened yet
            states = [case.record.work for case in loop.engine.running().values()]
            if any(isinstance(each, Working) for each in states):
                await asyncio.sleep(SETTLED)
                return Paths.of(loop.repo_dir).log(agent.agent_id, 1)
    raise RuntimeError("the agent did not start")


async def measure(made: World, options: Options) -> list[Row]:
    """Measure without and with a secret that has to be looked for in all that is said."""
    return [await _measure(made, options, masked=masked) for masked in (False, True)]
