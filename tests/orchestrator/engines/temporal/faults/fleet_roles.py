"""The roles of a fleet; run as a script, one process each.

    python fleet_roles.py coordinator ADDRESS PROJECT REPO LEASE
    python fleet_roles.py worker ADDRESS PROJECT CLONE LEASE NAME [SKEW]

Each says `up`. The coordinator runs a lifecycle for each line `TASK FOLDER [PROGRAM]` that it reads
and says `state TASK STATE WORKER TIME` as that is decided on, and at last `end TASK` with what came
of it. The agent is `hanging_agent.py` unless another program is named. A worker's clock is wrong
by SKEW seconds.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.clock import SystemClock
from lifecycle.engine.engine import LocalEngine
from lifecycle.plan import Agent, Task
from lifecycle.record import worker_of
from lifecycle.settings import Settings
from lifecycle.worker import build
from orchestrator.engines.temporal.connection import connect
from orchestrator.engines.temporal.coordinator import coordinating
from orchestrator.engines.temporal.options import Queues
from orchestrator.engines.temporal.owners import RemoteOwners
from orchestrator.engines.temporal.payloads import CONVERTER
from orchestrator.engines.temporal.worker import working

if TYPE_CHECKING:
    from lifecycle.reporting import Committed

SETTINGS = {"retry_interval": 0.0, "retry_interval_cap": 0.5, "canary": "off", "stop_grace": 0.3,
            "max_live_agents": 4}  # fmt: skip
AGENT = (sys.executable, str(Path(__file__).with_name("hanging_agent.py")))


def say(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201  # this is how it talks


def _settings(address: str) -> Settings:
    return Settings.model_validate({**SETTINGS, "temporal_address": address})


def _say_state(news: Committed) -> None:
    record = news.record
    at = time.time()  # noqa: TID251  # as agents write it
    say("state", record.facts["task"]["id"], news.after, worker_of(record) or "-", at)


async def _run(engine: LocalEngine, task_id: str, folder: str, *program: str) -> None:
    name = f"agent-{task_id}"
    task = Task(id=task_id, title="Calculator", verify=("sleep 0.2 && test -e one.txt",))
    agent = Agent(agent_id=name, command=(*(program or AGENT), folder, name))
    result = await engine.run(agent, task)
    record = await engine.shared.store.get(name)
    assert record is not None
    assert record.work is not None
    tally = record.work.tally
    counted = (tally.retry_count, tally.interruptions, tally.spawn_count)
    say("end", task_id, result.result_type, *counted, result.error)


async def coordinate(address: str, project: str, repo: str, lease: str) -> None:
    """Run the lifecycles that are asked for, until nobody asks any more."""
    loop, settings = asyncio.get_running_loop(), _settings(address)
    async with AsyncExitStack() as stack:
        machine, travel = await stack.enter_async_context(
            build.worker_machine(Path(repo), name="coordinator", settings=settings)
        )
        machine.shared.observers.append(_say_state)
        client = await connect(settings, {}, data_converter=CONVERTER)
        decider = await stack.enter_async_context(
            coordinating(client, Queues(project), lease=float(lease))
        )
        engine = LocalEngine(machine, None, RemoteOwners(decider, lambda _: travel))
        await engine.start()
        running = []
        try:
            say("up")
            while line := await loop.run_in_executor(None, sys.stdin.readline):
                running.append(loop.create_task(_run(engine, *line.split())))
        finally:
            await engine.aclose()
            await asyncio.gather(*running, return_exceptions=True)


async def work(  # noqa: PLR0913, PLR0917  # words of a command line
    address: str, project: str, clone: str, lease: str, name: str, skew: str = "0"
) -> None:
    """Be a worker until SIGTERM."""
    right = SystemClock.now

    def wrong(self: SystemClock) -> float:
        return right(self) + float(skew)

    SystemClock.now = wrong  # type: ignore[method-assign]  # all of a process go alike
    settings, over = _settings(address), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    client = await connect(settings, {}, data_converter=CONVERTER)
    async with working(
        client, Queues(project), Path(clone), name=name, settings=settings, lease=float(lease)
    ):
        say("up")
        await over.wait()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["coordinator", *given]:
            asyncio.run(coordinate(*given))
        case ["worker", *given]:
            asyncio.run(work(*given))
