"""`loopwright serve`: the API and the loops of a repository, until it is told to end."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from orchestrator.cli import run_loops
from orchestrator.cli.loop_options import isolation, with_looping
from orchestrator.runner import job_selection
from orchestrator.terminal.options import CommandLineParser, UsageError, count, find_repo, positive
from orchestrator.terminal.text import say, tell, to_json
from orchestrator.web.bound_server import BoundServer, bind, with_server
from orchestrator.web.token import VARIABLE, find_token

if TYPE_CHECKING:
    from lifecycle.engine.engine import LocalEngine
    from orchestrator.runner.workload import Workload

MOST_PORT = 65_535
_MORE = """\
Continues every lifecycle that is not finished, as `loopwright up` does, starts what is added,
and keeps running when nothing is left. Requests need the token, in the header
"Authorization: Bearer TOKEN". It is made at the first start and kept in the named file, which only
you can read.

One line is printed once it answers: its address and where the token is. With --json it is one JSON
object: `url`, `token_file` (null when the token is in the variable LOOPWRIGHT_TOKEN), `pid`.

Exit code: 130/143 ended by a signal, 2 usage, 75 when another runner is at work here."""


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Serve the API of a repository, and run its loops.",
        example="loopwright serve\nloopwright serve --port 0 --json",
        more=_MORE,
    )
    made.add_argument("--host", metavar="H", help="the address to listen on (127.0.0.1)")
    made.add_argument("--port", type=count, metavar="P", help="0 picks a free one")
    made.add_argument("--token-file", metavar="FILE", help="the token to ask for is in this file")
    made.add_argument("--show-token", action="store_true", help="print the token itself, too")
    made.add_argument("--max-live", type=positive, metavar="N", help="agents alive at once")
    with_looping(made)
    return made.with_json("print that line as JSON").with_repo()


def run(name: str, args: list[str]) -> int:
    """Serve."""
    options = parser(name).parse_args(args)
    if options.port is not None and options.port > MOST_PORT:
        raise UsageError(f"--port {options.port} is not a valid port; ports go up to {MOST_PORT}")
    confined = isolation(options.isolation, allow_weaker=options.allow_weaker)
    repo = find_repo(options.repo)
    # Taken out, so that nothing that is started here inherits it.
    given = os.environ.pop(VARIABLE, "")
    context = run_loops.CommandContext.of(
        repo, max_live_agents=options.max_live, stay_for_people=True, **confined
    )
    settings = context.settings()
    host = options.host or settings.host
    port = options.port if options.port is not None else settings.port
    token = find_token(context.environ, repo=repo, given=options.token_file, variable=given)

    def listens(url: str) -> None:
        shown = {"token": token.value} if options.show_token else {}
        if options.json:
            file = str(token.path) if token.path is not None else None
            told = {"url": url, "token_file": file, "token_place": token.place, "pid": os.getpid()}
            say(to_json({**told, **shown}, compact=True))
        else:
            more = f": {token.value}" if options.show_token else ""
            say(f"{url} (token in {token.place}{more})")
        sys.stdout.flush()

    async def work(engine: LocalEngine) -> Workload:
        # The repository is ours: now nobody else of it can have the address.
        front = BoundServer(bind(host, port, token), host, token, stays=True, say=listens)
        planned = job_selection.planned(
            engine, None, context.settings(), everything=True, tell=tell, stays=True
        )
        return await with_server(front, planned)

    ending = asyncio.run(
        run_loops.loop_through(
            context, work, who="loopwright serve", plain=options.plain, revives=True
        )
    )
    return ending.exit_code
