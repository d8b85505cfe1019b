"""A worker in a process of its own, to be killed or frozen; run as a script.

    python worker_process.py CLONE BASE LEASE

Its agent holds a lock in its workspace. It says a line for each thing that happens: `told` with the
name of a fact, `up` once the agent works, and `lost` once it has no assignment any more.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.machine.states import Working
from lifecycle.plan import Agent, Task
from lifecycle.settings import Settings
from tests.lifecycle.worker.deciding import Decider, worker_in

if TYPE_CHECKING:
    from lifecycle.machine.events import Event

AGENT = "agent-T001"
WORK = (
    "exec 9> lock && flock 9 && echo done > one.txt && git add one.txt && git commit -qm one && "
    "echo 'half done' > draft && (setsid sleep 600 < /dev/null > /dev/null 2>&1 &) && "
    "touch up && sleep 600"
)


def say(*words: str) -> None:
    print(*words, flush=True)  # noqa: T201  # this is how it talks


class Speaking(Decider):
    """Says what it is told."""

    def tell(self, assignment_id: str, fact: Event) -> None:
        say("told", type(fact).__name__)
        super().tell(assignment_id, fact)


async def main(clone: Path, base: str, lease: float) -> None:
    task = Task(id="T001", title="Calculator")
    agent = Agent(agent_id=AGENT, command=("/bin/sh", "-c", WORK))
    decider = Speaking(task, agent, Settings(), base)
    async with worker_in(clone, "one", decider, lease=lease) as worker:
        await decider.visit(worker, "a.1", lambda state: isinstance(state, Working))
        going = asyncio.create_task(decider.go_on(worker, lambda _: False))
        say("up")
        while worker.assignments():  # noqa: ASYNC110  # as an engine looks
            await asyncio.sleep(0.01)
        say("lost")
        going.cancel()
        await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])))
