"""`worker`: runs agents of a repository that is coordinated on another machine."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from typing import TYPE_CHECKING

from lifecycle.plan import checked_name
from lifecycle.settings import TEMPORAL
from lifecycle.worker.coordinator_link import CoordinatorLink
from lifecycle.worker.upload import CoordinatorAddress
from orchestrator.cli.run_loops import CommandContext
from orchestrator.runner.engine_choice import require_engine
from orchestrator.runner.shadowing import check_own_packages
from orchestrator.terminal.options import CommandLineParser, UsageError, find_repo
from orchestrator.terminal.text import tell
from orchestrator.version import __version__
from orchestrator.web.token import WORKER_VARIABLE
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
    made.add_argument(
        "--coordinator",
        metavar="URL",
        help="where its up or serve answers: it then hears of this worker, and gets its logs. The "
        "token is what `loopwright serve --worker-token` prints there, in the variable "
        f"{WORKER_VARIABLE}",
    )
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
    # Taken out, so that no agent inherits it.
    token = os.environ.pop(WORKER_VARIABLE, "").strip()
    link = _link(options.name, options.coordinator, token)
    return asyncio.run(_work(context, options.name, link))


def _link(name: str, coordinator: str | None, token: str) -> CoordinatorLink | None:
    """Return the way to the coordinator, where one is named."""
    if not coordinator:
        return None
    if not token:
        raise UsageError(
            f"--coordinator needs the token of workers in the variable {WORKER_VARIABLE}; "
            "`loopwright serve --worker-token` prints it on the coordinator's machine"
        )
    try:
        checked_name(name)
    except ValueError as problem:
        raise UsageError(f"--name: {problem}") from problem
    return CoordinatorLink(
        to=CoordinatorAddress(coordinator, token, name),
        version=__version__,
    )


async def _work(context: CommandContext, name: str, link: CoordinatorLink | None) -> int:
    from orchestrator.engines.temporal.joined import worker_of  # noqa: PLC0415  # loads its SDK

    settings, over = context.settings(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    async with worker_of(context.repo, name, settings, os.environ, link) as worker:
        slots = settings.max_live_agents
        for line in worker_lines.began(name, str(context.repo), slots=slots, labels=()):
            tell(line)
        await over.wait()
        tell(worker_lines.draining(worker.assignments()))
    tell(worker_lines.drained(0))
    return 0
