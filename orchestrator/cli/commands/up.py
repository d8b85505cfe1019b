"""`loopwright up`: one loop per task of a plan, or all unfinished lifecycles, in one process."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.errors import PlanError
from orchestrator.background.readiness import ready
from orchestrator.cli import run_loops
from orchestrator.cli.detach import start_detached, with_detach
from orchestrator.cli.loop_options import (
    isolation,
    with_engine,
    with_limits,
    with_looping,
    with_model,
    with_source,
    with_stay,
)
from orchestrator.cli.task_source import read_source
from orchestrator.config import plans
from orchestrator.config.settings import load_settings
from orchestrator.control.approve_settings import keep, told
from orchestrator.errors import OrchestratorError
from orchestrator.runner import job_selection
from orchestrator.runner.engine_choice import require_engine
from orchestrator.runner.plan_reload import PlanReload
from orchestrator.tasks.sources import is_plan
from orchestrator.terminal.options import (
    CommandLineParser,
    UsageError,
    count,
    find_repo,
    positive,
    user,
)
from orchestrator.terminal.text import one_line, say, tell, to_json
from orchestrator.web.bound_server import BoundServer, bind, with_server
from orchestrator.web.token import VARIABLE, WORKER_VARIABLE, find_token, find_worker_token

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from lifecycle.engine.engine import LocalEngine
    from lifecycle.plan import Plan
    from orchestrator.approval.approvals import Approvals
    from orchestrator.cli.run_loops import CommandContext
    from orchestrator.runner.workload import Workload

MOST_PORT = 65_535
_MORE = """\
Without PLAN it takes loopwright.plan.toml or loopwright.plan.json of the repository, if there is
one, and continues every lifecycle that is not finished. What a person paused or stopped stays
so; `loopwright resume AGENT` starts it again while this runs. Meanwhile the API is served as by
`loopwright serve`; its address and the place of its token are printed on standard error.

A plan file (.toml, .json) is read again whenever it changes while this runs: new tasks begin, those
that have not begun are changed or taken out, those that have begun go on. A file that cannot be run
is told, and the plan as it was read before goes on.

On a terminal it waits for people. Where neither standard input nor standard error is one it ends
when all that is left waits for people (--stay waits there, too).

--detach starts it in the background, says where its log is once it is ready, and waits for people
(--stay). It needs no terminal; `loopwright ps` shows it, `loopwright down` ends it.

Work that is done needs no runner: when all else is over it ends, also with --stay, and the API
ends with it. While somebody decides in its pages it stays, and goes on with what is decided: until
nothing waits, or 10 minutes after their last use (stay_for_pages; not with --no-stay). Then
`loopwright review` shows what waits, and `loopwright serve` does so in the browser.

--verify, --setup, --model and --budget-usd are for tasks to which the plan gives none of their own;
--max-attempts is for all.

Exit code, the worst of all loops in this order: 130/143 ended by a signal, 1 internal error, 6
failed for good, 5 out of retries, 3 blocked, waiting for a person, held by one or with a damaged
record, 4 still waits for a pull request, 0 all complete. 2 for a plan that cannot be run, 75 when
another runner is at work here."""


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Run one loop per task of a plan, honouring its dependencies.",
        example="loopwright up plan.toml --max-live 2\nloopwright up PRD.md\n"
        "loopwright up github:label=ready\nloopwright up --detach",
        more=_MORE,
    )
    made.add_argument(
        "plan", nargs="?", metavar="PLAN",
        help="a plan (.toml, .json), prd.json, a Markdown checklist, github:label=NAME or the like",
    )  # fmt: skip
    made.add_argument("--max-live", type=positive, metavar="N", help="agents alive at once")
    made.add_argument("--port", type=count, metavar="P", help="of the API; 0 picks a free one")
    made.add_argument("--no-server", action="store_true", help="serve no API")
    with_detach(with_stay(with_engine(with_looping(with_limits(with_source(made))))))
    return made.with_json("print the LoopResult objects at the end").with_repo()


def run(name: str, args: list[str]) -> int:
    """Run them all."""
    options = parser(name).parse_args(args)
    confined = isolation(options.isolation, allow_weaker=options.allow_weaker)
    if options.port is not None and (options.no_server or options.port > MOST_PORT):
        raise UsageError(f"--port goes up to {MOST_PORT}, and not with --no-server")
    repo = find_repo(options.repo)
    context = run_loops.CommandContext.of(
        repo,
        **_limits(repo, options),
        engine=options.engine,
        max_live_agents=options.max_live,
        stay_for_people=options.stay,
        stay_for_pages=0.0 if options.stay is False else None,
        **confined,
    )
    require_engine(context.settings(), context.environ)
    path = options.plan if options.plan is not None else plans.find_plan(repo)
    approvals = context.settings.approvals
    try:
        plan = _plan(context, path, options.base, in_order=options.in_order)
        for task in plan.tasks if plan is not None else ():
            # Who has no agent is refused before anything starts.
            plans.agent_for(task, plan, context.settings())
    except PlanError as problem:
        if not approvals.held:
            raise
        asyncio.run(keep(repo, context.environ, approvals, user()))
        raise PlanError(f"{problem}. {told(approvals)}") from problem

    _refuse_lost(options.model, plan)
    if options.detach:
        stay = ["--stay"] if options.stay is None else []
        return start_detached(name, args, [repo], options, *stay)

    async def work(engine: LocalEngine) -> Workload:
        everything = options.plan is None
        front = None if options.no_server else _front(context, options.port, tell)
        settings = context.settings()
        planned = job_selection.planned(engine, plan, settings, everything=everything, tell=tell)
        found = await with_server(front, planned)
        if found.jobs:
            ready()
        return replace(found, reload=_reload(engine, path, plan, approvals))

    ending = asyncio.run(
        run_loops.loop_through(
            context, work, who="loopwright up", plain=options.plain, revives=True
        )
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
            else "Nothing to do: the plan is finished, and no lifecycle is unfinished."
        )
    else:
        run_loops.tell_ending(ending, context)
    return ending.exit_code


def _reload(
    engine: LocalEngine, source: str | Path | None, plan: Plan | None, approvals: Approvals
) -> PlanReload | None:
    """Return what reads a plan again while it runs; lists of other programs are read once."""
    if plan is None or not is_plan(str(source)):
        return None
    return PlanReload(engine, Path(str(source)).absolute(), plan, approvals)


def _plan(
    context: CommandContext, source: str | Path | None, base: str | None, *, in_order: bool
) -> Plan | None:
    """Return the plan that is named, or that a list of tasks stands for; none where none is."""
    if source is None or is_plan(str(source)):
        if base is not None or in_order:
            raise UsageError("--base and --in-order are for a list of tasks; a plan says it itself")
        return None if source is None else plans.load_plan(Path(source), context.settings.approvals)
    read = read_source(
        str(source), context.repo, context.settings(), context.environ, base=base, in_order=in_order
    )
    tell(one_line(f"{source}: {read.form}, {read.said}"))
    if read.branch and base is None:
        tell(one_line(f"It names the branch {read.branch}, which is not used unless --base does."))
    return read.plan


def _limits(repo: Path, options: Namespace) -> dict[str, object]:
    """Return the settings that were typed, for tasks to which the plan gives no others."""
    limits: dict[str, object] = {
        "verify": tuple(options.verify) or None,
        "setup": tuple(options.setup) or None,
        "budget_usd": options.budget_usd,
        "max_attempts": options.max_attempts,
    }
    if options.model is not None:
        settings = load_settings(repo, environ=os.environ)
        limits["adapter"] = with_model(None, options.model, settings)
    return limits


def _refuse_lost(model: str | None, plan: Plan | None) -> None:
    """Refuse a model that no task would use."""
    if model and plan and all(plans.own_agent(task, plan) for task in plan.tasks):
        raise UsageError(
            f"--model {model} has no effect: the plan gives every task an agent; write "
            f'the model there: adapter = "NAME:{model}"'
        )


def _front(
    context: CommandContext, port: int | None, tell: Callable[[str], None]
) -> BoundServer | None:
    """Return the server to run beside the loops; the loops do not depend on it."""
    settings = context.settings()
    host, wanted = settings.host, port if port is not None else settings.port
    try:
        # Taken out, so that nothing that is started here inherits it.
        token = find_token(
            context.environ, repo=context.repo, variable=os.environ.pop(VARIABLE, "")
        )
        workers = find_worker_token(
            token, repo=context.repo, variable=os.environ.pop(WORKER_VARIABLE, "")
        )
        sock = bind(host, wanted, token, any_port=port is None)
    except OrchestratorError as problem:
        if port is not None:
            raise
        tell(f"No API is served: {problem}")
        return None
    if sock.getsockname()[1] != wanted and wanted:
        tell(f"Port {wanted} is in use, perhaps by another runner; another one is taken.")
    return BoundServer(sock, host, token, stays=False, worker_token=workers.value)
