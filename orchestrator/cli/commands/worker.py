"""`worker`: runs agents of a repository that is coordinated on another machine."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from typing import TYPE_CHECKING

from lifecycle.settings import TEMPORAL
from orchestrator.cli.run_loops import CommandContext
from orchestrator.runner.engine_choice import require_engine
from orchestrator.runner.shadowing import check_own_packages
from orchestrator.terminal.options import CommandLineParser, find_repo
from orchestrator.terminal.text import tell
from orchestrator.wording import worker_lines

if TYPE_CHECKING:
    from collections.abc import Sequence


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Run agents of a repository that `up` or `serve` coordinates on another machine.",
        example=f"loopwright {name} --name a --repo /srv/clone\nloopwright {name} --name gpu-1 "
        "--max-live 2",
        more="It needs a clone with a remote, and the settings of the engine (temporal_address).\n"
        "Ctrl-C: it takes no new work, and hands on, saved and pushed, what it has.",
    )
    made.add_argument(
        "--name", default=socket.gethostname(), help="how it is called; by default its host's name"
    )
    made.add_argument("--repo", metavar="DIR", help="its clone; by default that around here")
    made.add_argument("--max-live", type=int, metavar="N", help="agents at once, at most")
    return made


def run(name: str, args: Sequence[str]) -> int:
    """Work until a signal."""
    options = parser(name).parse_args(list(args))
    context = CommandContext.of(
        find_repo(options.repo), engine=TEMPORAL, max_live_agents=options.max_live
    )
    require_engine(context.settings(), context.environ)
    check_own_packages()
    return asyncio.run(_work(context, options.name))


async def _work(context: CommandContext, name: str) -> int:
    from orchestrator.engines.temporal.joined import worker_of  # noqa: PLC0415  # loads its SDK

    settings, over = context.settings(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    async with worker_of(context.repo, name, settings, os.environ) as worker:
        slots = settings.max_live_agents
        for line in worker_lines.began(name, str(context.repo), slots=slots, labels=()):
            tell(line)
        await over.wait()
        tell(worker_lines.draining(worker.assignments()))
    tell(worker_lines.drained(0))
    return 0
