"""`loopwright up`: one loop per task of a plan, or all unfinished lifecycles, in one process."""

from __future__ import annotations

from orchestrator.cli.loopoptions import isolation, with_looping
from orchestrator.cli.options import Parser, find_repo, positive

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from lifecycle.engine import Engine
    from orchestrator.service import Work

_MORE = """\
Without PLAN it takes loopwright.plan.toml or loopwright.plan.json of the repository, if there is
one, and goes on with every lifecycle that is not finished. What a person paused or stopped stays
so; `loopwright resume AGENT` starts it again while this runs.

Exit code, the worst of all loops in this order: 130/143 ended by a signal, 1 internal error, 6
failed for good, 5 out of retries, 3 blocked or held by a person, 4 still waits for a pull request,
0 all complete. 2 for a plan that cannot be run, 75 when another runner is at work here."""


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
    with_looping(made)
    return made.with_json("print the LoopResult objects at the end").with_repo()


def run(name: str, args: list[str]) -> int:
    """Run them all."""
    options = parser(name).parse_args(args)
    confined = isolation(options.isolation, allow_weaker=options.allow_weaker)
    repo = find_repo(options.repo)
    import asyncio  # noqa: PLC0415  # only now it is clear that something runs
    from pathlib import Path  # noqa: PLC0415  # as above

    from orchestrator import jobs, plans  # noqa: PLC0415  # as above
    from orchestrator.cli import looping  # noqa: PLC0415  # as above
    from orchestrator.cli.text import say, tell, to_json  # noqa: PLC0415  # as above

    bench = looping.Bench.of(repo, max_live_agents=options.max_live, **confined)
    path = Path(options.plan) if options.plan is not None else plans.find_plan(repo)
    plan = plans.load_plan(path) if path is not None else None
    for task in plan.tasks if plan is not None else ():
        # Who has no agent is refused before anything starts.
        plans.agent_for(task, plan, bench.settings())

    async def work(engine: Engine) -> Work:
        everything = options.plan is None
        return await jobs.planned(engine, plan, bench.settings(), everything=everything)

    ending = asyncio.run(
        looping.loop_through(bench, work, who="loopwright up", plain=options.plain, revives=True)
    )
    if options.json:
        results = [result.to_json() for _, result in sorted(ending.results.items())]
        held = [record.agent_id for record in ending.held]
        say(to_json({"results": results, "held": held, "exit_code": ending.exit_code}))
    elif not ending.results and not ending.held and not ending.signal_code:
        tell(
            "Nothing to do: no PLAN was given, there is no loopwright.plan.toml or .json in "
            f"{repo}, and no lifecycle is unfinished."
            if plan is None
            else "Nothing to do: all of the plan is over, and no lifecycle is unfinished."
        )
    else:
        looping.tell_ending(ending, bench)
    return ending.exit_code
