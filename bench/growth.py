"""What a runner that stays keeps of 10,000 lifecycles that are over: its memory, every so often.

    python -m bench.growth [--lifecycles N] [--every M]

A runner as `serve` has it, with all that its server listens to, but without git; agents that say
`task_complete` at once, and a person who rejects each one's work. Prints a table as it goes; the
exit code is 1 if more than `AT_MOST` came on between the first hundred and the last.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import io
import os
import secrets
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.finished import memory_of
from bench.plain_folder import FolderWorkspaces
from bench.world import world
from lifecycle.clock import SystemClock
from lifecycle.loop import AgentLifecycleLoop
from lifecycle.machine import events as on
from lifecycle.plan import Plan
from lifecycle.record import AgentState
from lifecycle.settings import Settings
from orchestrator.runner.add_task import Addition
from orchestrator.runner.providers import ProviderInputs, make_providers
from orchestrator.runner.session import run_session
from orchestrator.runner.workload import RunResult, Workload
from orchestrator.web import operator as people
from orchestrator.web.services import ServerServices
from orchestrator.wording.live_view import PlainView
from runtime.branches import BranchManager
from runtime.process import TerminalManager

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from orchestrator.runner.server_interface import RunnerPort

LIFECYCLES = 10_000
FIRST = 100
AT_MOST = 10 << 20
AT_ONCE = 10
_AGENT = (
    'printf \'{"%s": {"breakpoint": {"type": "task_complete", "summary": "all done, as asked"}}}\''
    ' "$LOOPWRIGHT_AGENT_ID" > "$LOOPWRIGHT_COMM_FILE"'
)
LOOK = 0.002


@dataclass
class Feeding:
    """Adds one lifecycle after the other, as the API does, and rejects what each came to."""

    batches: list[int]
    """After how many in all to say so, in rising order."""
    reached: Callable[[int], None]
    stays: bool = True
    used_at: float | None = None

    _done: int = field(default=0, init=False)

    async def decisions(self) -> int:
        """Say that none waits."""
        return 0

    async def run(self, office: RunnerPort, over: Callable[[], Awaitable[None]]) -> None:
        """Feed, then let the runner end."""
        del over
        async with ServerServices(office, token=secrets.token_hex()):
            for upto in self.batches:
                await asyncio.gather(*(self._several(office, upto) for _ in range(AT_ONCE)))
                while office.engine.running():  # noqa: ASYNC110  # nobody tells that all is cleaned up
                    await asyncio.sleep(LOOK)
                self.reached(upto)
        office.engine.abandon()

    async def _several(self, office: RunnerPort, upto: int) -> None:
        while self._done < upto:
            self._done += 1
            await _one(office)


async def _one(office: RunnerPort) -> None:
    record, _ = await people.add(
        office, Addition(text="Make it work.", command=f"/bin/sh -c '{_quoted()}'")
    )
    agent_id = record.agent_id
    while not await _is_over(office, agent_id):  # noqa: ASYNC110  # nobody else tells
        await asyncio.sleep(LOOK)
    await office.engine.ask(agent_id, on.RejectRequested(at=office.now(), by="bench", why="no"))


async def _is_over(office: RunnerPort, agent_id: str) -> bool:
    found = await office.store.get(agent_id)
    done = found is not None and found.state is AgentState.COMPLETED
    return done and agent_id not in office.engine.running()


def _quoted() -> str:
    return _AGENT.replace("'", "'\\''")


async def grow(repo: Path, environ: Mapping[str, str], feeding: Feeding) -> RunResult:
    """Run such a runner in this process until all were fed."""
    settings = Settings(baseline=False, max_live_agents=AT_ONCE, retention_hours=1000.0)
    loop = AgentLifecycleLoop(
        repo_dir=repo,
        plan=Plan(tasks=()),
        ci_provider=None,
        terminal_manager=TerminalManager(repo),
        branch_manager=BranchManager(repo),
        workspace_manager=FolderWorkspaces(repo),
        settings=settings,
    )
    made = make_providers(ProviderInputs(repo, lambda: settings, environ, SystemClock().now))

    async def work(engine: object) -> Workload:
        del engine
        return Workload((), beside=feeding)

    return await run_session(
        loop, work, view=PlainView(io.StringIO()), providers=made, revives=True
    )


def main() -> int:
    """Grow, print the memory every so often, judge the difference."""
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("--lifecycles", type=int, default=LIFECYCLES, metavar="N")
    parser.add_argument("--every", type=int, default=1000, metavar="M")
    options = parser.parse_args()
    sizes: dict[int, int] = {}

    def reached(count: int) -> None:
        gc.collect()
        sizes[count] = memory_of(os.getpid())
        grown = sizes[count] - sizes[FIRST]
        print(
            f"| {count:>7,} | {sizes[count] / 2**20:>7.1f} | {grown / 2**20:>+7.2f} |", flush=True
        )

    print("| finished | RSS MiB | grown MiB |\n|---|---|---|")
    batches = sorted({FIRST, *range(options.every, options.lifecycles + 1, options.every)})
    with world() as made:
        asyncio.run(grow(made.folder(), os.environ, Feeding(batches, reached)))
    grown = sizes[batches[-1]] - sizes[FIRST]
    each = grown / (batches[-1] - FIRST)
    print(f"{each:,.0f} bytes each; at most {AT_MOST / 2**20:.0f} MiB in all are allowed")
    return 0 if grown <= AT_MOST else 1


if __name__ == "__main__":
    sys.exit(main())
