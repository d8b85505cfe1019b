"""The machines of a story with real processes; run as a script, one process each.

    python machines.py coordinator ADDRESS PROJECT REPO LEASE FOLDER
    python machines.py worker ADDRESS PROJECT CLONE LEASE NAME

The coordinator says `up`, then what came of the lifecycle, whose agent is `lock_agent.py`; a worker
says `up`.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from lifecycle.engine.engine import LocalEngine
from lifecycle.plan import Agent, Task
from lifecycle.settings import Settings
from lifecycle.worker.build import worker_machine
from orchestrator.engines.temporal.connection import connect
from orchestrator.engines.temporal.coordinator import coordinating
from orchestrator.engines.temporal.options import Queues
from orchestrator.engines.temporal.owners import RemoteOwners
from orchestrator.engines.temporal.payloads import CONVERTER
from orchestrator.engines.temporal.worker import working

AGENT = "agent-T001"
SETTINGS = {"retry_interval": 0.0, "canary": "off", "stop_grace": 0.3, "max_live_agents": 4}


def say(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201  # this is how it talks


async def coordinate(address: str, project: str, repo: str, lease: str, folder: str) -> None:
    """Run one lifecycle to its end."""
    settings = Settings.model_validate({**SETTINGS, "temporal_address": address})
    task = Task(id="T001", title="Calculator", verify=("test -e one.txt",))
    agent = Agent(
        agent_id=AGENT,
        command=(sys.executable, str(Path(__file__).with_name("lock_agent.py")), folder),
    )
    async with AsyncExitStack() as stack:
        machine, travel = await stack.enter_async_context(
            worker_machine(Path(repo), name="coordinator", settings=settings)
        )
        client = await connect(settings, {}, data_converter=CONVERTER)
        decider = await stack.enter_async_context(
            coordinating(client, Queues(project), lease=float(lease))
        )
        engine = LocalEngine(machine, None, RemoteOwners(decider, lambda _: travel))
        await engine.start()
        try:
            say("up")
            result = await engine.run(agent, task)
            record = await machine.shared.store.get(AGENT)
            assert record is not None
            assert record.work is not None
            tally = record.work.tally
            say(result.result_type, tally.retry_count, tally.interruptions, tally.spawn_count)
        finally:
            await engine.aclose()


async def work(address: str, project: str, clone: str, lease: str, name: str) -> None:
    """Be a worker until SIGTERM."""
    settings, over = (
        Settings.model_validate({**SETTINGS, "temporal_address": address}),
        asyncio.Event(),
    )
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
