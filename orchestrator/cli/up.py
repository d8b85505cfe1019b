"""`loopwright up`: one loop per task of a plan, or all unfinished lifecycles, in one process."""

from __future__ import annotations

from orchestrator.cli.loopoptions import isolation, with_looping, with_stay
from orchestrator.cli.options import Parser, UsageError, count, find_repo, positive, user

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.engine import Engine
    from orchestrator.cli.looping import Bench
    from orchestrator.service import Work
    from orchestrator.web.front import Front

MOST_PORT = 65_535
_MORE = """\
Without PLAN it takes loopwright.plan.toml or loopwright.plan.json of the repository, if there is
one, and goes on with every lifecycle that is not finished. What a person paused or stopped stays
so; `loopwright resume AGENT` starts it again while this runs. Meanwhile the API is served as by
`loopwright serve`; where it listens and where its token is, is told on standard error.

On a terminal it waits for people. Where neither standard input nor standard error is one it ends
when all that is left waits for people (--stay waits there, too).

Exit code, the worst of all loops in this order: 130/143 ended by a signal, 1 internal error, 6
failed for good, 5 out of retries, 3 blocked, waiting for a person, held by one or with a damaged
record, 4 still waits for a pull request, 0 all complete. 2 for a plan that cannot be run, 75 when
another runner is at work here."""


def parser(name: str) -> Parser:
    """Return the options."""
    made = Parser(
        name,
        "Run one loop per task of a plan, honouring its dependencies.",
        example="loopwright up plan.toml --max-live 2\nloopwright up",
        more=_MORE,
    )
    made.add_argument("plan", nargs="?", metavar="PLAN", help="a .toml or .json file of tasks")
    made.add_argument("--max-live", type=positive, metavar="N", help="agents alive at once")
    made.add_argument("--port", type=count, metavar="P", help="of the API; 0 is any that is free")
    made.add_argument("--no-server", action="store_true", help="serve no API")
    with_stay(with_looping(made))
    return made.with_json("print the LoopResult objects at the end").with_repo()


def run(name: str, args: list[str]) -> int:
    """Run them all."""
    options = parser(name).parse_args(args)
    confined = isolation(options.isolation, allow_weaker=options.allow_weaker)
    if options.port is not None and (options.no_server or options.port > MOST_PORT):
        raise UsageError(f"--port goes up to {MOST_PORT}, and not with --no-server")
    repo = find_repo(options.repo)
    import asyncio  # noqa: PLC0415  # only now it is clear that something runs
    from pathlib import Path  # noqa: PLC0415  # as above

    from lifecycle.errors import PlanError  # noqa: PLC0415  # as above
    from orchestrator import jobs, plans  # noqa: PLC0415  # as above
    from orchestrator.approval.approving import keep, told  # noqa: PLC0415  # as above
    from orchestrator.cli import looping  # noqa: PLC0415  # as above
    from orchestrator.cli.text import say, tell, to_json  # noqa: PLC0415  # as above
    from orchestrator.web.front import fronted  # noqa: PLC0415  # as above

    bench = looping.Bench.of(
        repo, max_live_agents=options.max_live, stay_for_people=options.stay, **confined
    )
    path = Path(options.plan) if options.plan is not None else plans.find_plan(repo)
    approvals = bench.settings.approvals
    try:
        plan = plans.load_plan(path, approvals) if path is not None else None
        for task in plan.tasks if plan is not None else ():
            # Who has no agent is refused before anything starts.
            plans.agent_for(task, plan, bench.settings())
    except PlanError as problem:
        if not approvals.held:
            raise
        asyncio.run(keep(repo, bench.environ, approvals, user()))
        raise PlanError(f"{problem}. {told(approvals)}") from problem

    async def work(engine: Engine) -> Work:
        everything = options.plan is None
        front = None if options.no_server else _front(bench, options.port, tell)
        settings = bench.settings()
        planned = jobs.planned(engine, plan, settings, everything=everything, tell=tell)
        return await fronted(front, planned)

    ending = asyncio.run(
        looping.loop_through(bench, work, who="loopwright up", plain=options.plain, revives=True)
    )
    if options.json:
        results = [result.to_json() for _, result in sorted(ending.results.items())]
        held = [record.agent_id for record in ending.held]
        damaged, code = [each.agent_id for each in ending.damaged], ending.exit_code
        say(to_json({"results": results, "held": held, "damaged": damaged, "exit_code": code}))
    elif not (ending.results or ending.held or ending.damaged or ending.signal_code):
        tell(
            "Nothing to do: no PLAN was given, there is no loopwright.plan.toml or .json in "
            f"{repo}, and no lifecycle is unfinished."
            if plan is None
            else "Nothing to do: all of the plan is over, and no lifecycle is unfinished."
        )
    else:
        looping.tell_ending(ending, bench)
    return ending.exit_code


def _front(bench: Bench, port: int | None, tell: Callable[[str], None]) -> Front | None:
    """Return the server to run beside the loops; the loops do not depend on it."""
    import os  # noqa: PLC0415  # as above

    from orchestrator.errors import OrchestratorError  # noqa: PLC0415  # as above
    from orchestrator.web.front import Front, bind  # noqa: PLC0415  # as above
    from orchestrator.web.token import VARIABLE, find_token  # noqa: PLC0415  # as above

    settings = bench.settings()
    host, wanted = settings.host, port if port is not None else settings.port
    try:
        # Taken out, so that nothing that is started here inherits it.
        token = find_token(bench.environ, repo=bench.repo, variable=os.environ.pop(VARIABLE, ""))
        sock = bind(host, wanted, token, any_port=port is None)
    except OrchestratorError as problem:
        if port is not None:
            raise
        tell(f"No API is served: {problem}")
        return None
    if sock.getsockname()[1] != wanted and wanted:
        tell(f"Port {wanted} is in use, perhaps by another runner; another one is taken.")
    return Front(sock, host, token, stays=False)
