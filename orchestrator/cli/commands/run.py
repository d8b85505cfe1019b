"""`loopwright run`: one task in a loop, in the foreground."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from orchestrator.cli import run_loops
from orchestrator.cli.loop_options import (
    isolation,
    with_looping,
    with_model,
    with_stay,
    with_task,
)
from orchestrator.config.plans import budget_of
from orchestrator.runner import job_selection
from orchestrator.terminal.options import CommandLineParser, UsageError, count, find_repo, seconds
from orchestrator.terminal.text import one_line, say, tell, to_json

if TYPE_CHECKING:
    from lifecycle.engine.engine import LocalEngine
    from orchestrator.runner.workload import Workload

_MORE = """\
The agent works in a branch of its own (agent/AGENT-ID); your checkout is not touched. The same TEXT
again, or --task-id alone, continues what was stopped. Ctrl-C stops after a clean save, a second
one at once.

On a terminal it waits for people. Where neither standard input nor standard error is one it ends
with 3 when only a person can move the task on, and says what to type (--stay waits there, too).

Exit code: 0 complete, 1 internal error, 2 usage, 3 blocked, waits for a person or held by one, 4
still waits for a pull request, 5 out of retries, 6 failed for good, 75 another runner is at work
here, 130/143 ended by a signal."""


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Run one task in a loop: a fresh agent per attempt, until the task is truly done.",
        example='loopwright run "Add a --version option" --agent claude --verify "make test"\n'
        'loopwright run --task-id T001 --command "./my-agent --fast"',
        more=_MORE,
    )
    made.add_argument("text", nargs="?", metavar="TEXT", help="what is to be done")
    made.add_argument("--task-id", metavar="ID", help="by default the next free one: T001, T002")
    with_task(made)
    made.add_argument(
        "--max-retries",
        type=count,
        metavar="N",
        help="retries after failed attempts, exactly so many; 0 for one attempt",
    )
    made.add_argument("--retry-interval", type=seconds, metavar="S", help="seconds after a failure")
    with_stay(with_looping(made))
    return made.with_json("print one LoopResult object at the end").with_repo()


def run(name: str, args: list[str]) -> int:
    """Run it."""
    options = parser(name).parse_args(args)
    text = (options.text or "").strip()
    if not text and options.task_id is None:
        raise UsageError('say what is to be done: loopwright run "TEXT" (see --help)')
    confined = isolation(options.isolation, allow_weaker=options.allow_weaker)
    repo = find_repo(options.repo)
    context = run_loops.CommandContext.of(
        repo,
        stay_for_people=options.stay,
        retry_interval=options.retry_interval,
        **confined,
    )
    request = job_selection.RunRequest(
        text=text,
        task_id=options.task_id,
        adapter=with_model(options.agent, options.model, context.settings()),
        command=options.command,
        verify=tuple(options.verify),
        setup=tuple(options.setup),
        budget=budget_of(options.budget_usd, options.max_attempts),
        base=options.base,
        issue=options.issue,
        max_retries=options.max_retries,
    )

    async def work(engine: LocalEngine) -> Workload:
        return await job_selection.requested(engine, request, context.settings(), tell)

    who = f"loopwright run {options.task_id or one_line(text, 40)}"
    ending = asyncio.run(
        run_loops.loop_through(context, work, who=who, plain=options.plain, revives=False)
    )
    if options.json:
        for result in ending.results.values():
            say(to_json(result.to_json()))
    else:
        run_loops.tell_ending(ending, context)
    return ending.exit_code
