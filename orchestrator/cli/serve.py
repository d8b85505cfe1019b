"""`loopwright serve`: the API and the loops of a repository, until it is told to end."""

from __future__ import annotations

from orchestrator.cli.loopoptions import isolation, with_looping
from orchestrator.cli.options import Parser, UsageError, count, find_repo, positive

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from lifecycle.engine import Engine
    from orchestrator.service import Work

MOST_PORT = 65_535
_MORE = """\
Goes on with every lifecycle that is not finished, as `loopwright up` does, takes up what is added,
and stays when nothing is left. Requests need the token: the header "Authorization: Bearer TOKEN".
It is made at the first start and kept in the file that is named, which only you can read.

One line is printed once it answers: its address and where the token is.

Exit code: 130/143 ended by a signal, 2 usage, 75 when another runner is at work here."""


def parser(name: str) -> Parser:
    """Return the options."""
    made = Parser(
        name,
        "Serve the API of a repository, and run its loops.",
        example="loopwright serve\nloopwright serve --port 0 --json",
        more=_MORE,
    )
    made.add_argument("--host", metavar="H", help="the address to listen on (127.0.0.1)")
    made.add_argument("--port", type=count, metavar="P", help="0 is any that is free")
    made.add_argument("--token-file", metavar="FILE", help="the token to ask for is in this file")
    made.add_argument("--show-token", action="store_true", help="print the token itself, too")
    made.add_argument("--max-live", type=positive, metavar="N", help="agents alive at once")
    with_looping(made)
    return made.with_json("print one JSON object with address and token file").with_repo()


def run(name: str, args: list[str]) -> int:
    """Serve."""
    options = parser(name).parse_args(args)
    if options.port is not None and options.port > MOST_PORT:
        raise UsageError(f"--port {options.port} is no port; they go up to {MOST_PORT}")
    confined = isolation(options.isolation, allow_weaker=options.allow_weaker)
    repo = find_repo(options.repo)
    import asyncio  # noqa: PLC0415  # only now it is clear that something runs
    import os  # noqa: PLC0415  # as above
    import sys  # noqa: PLC0415  # as above

    from orchestrator import jobs  # noqa: PLC0415  # as above
    from orchestrator.cli import looping  # noqa: PLC0415  # as above
    from orchestrator.cli.text import say, tell, to_json  # noqa: PLC0415  # as above
    from orchestrator.web.front import Front, bind, fronted  # noqa: PLC0415  # as above
    from orchestrator.web.token import VARIABLE, find_token  # noqa: PLC0415  # as above

    # Taken out, so that nothing that is started here inherits it.
    given = os.environ.pop(VARIABLE, "")
    bench = looping.Bench.of(
        repo, max_live_agents=options.max_live, stay_for_people=True, **confined
    )
    settings = bench.settings()
    host = options.host or settings.host
    port = options.port if options.port is not None else settings.port
    token = find_token(bench.environ, repo=repo, given=options.token_file, variable=given)

    def listens(url: str) -> None:
        shown = {"token": token.value} if options.show_token else {}
        if options.json:
            say(to_json({"url": url, "token_place": token.place, "pid": os.getpid(), **shown}))
        else:
            more = f": {token.value}" if options.show_token else ""
            say(f"{url} (token in {token.place}{more})")
        sys.stdout.flush()

    async def work(engine: Engine) -> Work:
        # The repository is ours: now nobody else of it can have the address.
        front = Front(bind(host, port, token), host, token, stays=True, say=listens)
        planned = jobs.planned(
            engine, None, bench.settings(), everything=True, tell=tell, stays=True
        )
        return await fronted(front, planned)

    ending = asyncio.run(
        looping.loop_through(bench, work, who="loopwright serve", plain=options.plain, revives=True)
    )
    return ending.exit_code
