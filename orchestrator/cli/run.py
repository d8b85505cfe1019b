"""`loopwright run`: one task in a loop, in the foreground."""

from __future__ import annotations

from orchestrator.cli.loopoptions import isolation, with_looping, with_stay
from orchestrator.cli.options import Parser, UsageError, count, find_repo, seconds

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from lifecycle.engine import Engine
    from orchestrator.service import Work

_MORE = """\
The agent works in a branch of its own (agent/AGENT-ID); your checkout is not touched. The same TEXT
again, or --task-id alone, goes on with what was stopped. Ctrl-C stops after a clean save, a second
one at once.

On a terminal it waits for people. Where neither standard input nor standard error is one it ends
with 3 when only a person can move the task on, and says what to type (--stay waits there, too).

Exit code: 0 complete, 1 internal error, 2 usage, 3 blocked, waits for a person or held by one, 4
still waits for a pull request, 5 out of retries, 6 failed for good, 75 another runner is at work
here, 130/143 ended by a signal."""


def parser(name: str) -> Parser:
    """Return the options."""
    made = Parser(
        name,
        "Run one task in a loop: a fresh agent per attempt, until the task is truly done.",
        example='loopwright run "Add a --version option" --agent claude --verify "make test"\n'
        'loopwright run --task-id T001 --command "./my-agent --fast"',
        more=_MORE,
    )
    made.add_argument("text", nargs="?", metavar="TEXT", help="what is to be done")
    made.add_argument("--task-id", metavar="ID", help="by default the next free one: T001, T002")
    who = made.add_mutually_exclusive_group()
    who.add_argument("--agent", metavar="NAME", help="a known agent program, such as claude")
    who.add_argument("--command", metavar="'CMD ARG'", help="any program that reads its prompt")
    made.add_argument(
        "--max-retries",
        type=count,
        metavar="N",
        help="retries after failed attempts, exactly so many; 0 for one attempt",
    )
    made.add_argument("--retry-interval", type=seconds, metavar="S", help="seconds after a failure")
    made.add_argument(
        "--verify",
        action="append",
        default=[],
        metavar="CMD",
        help="must succeed on the committed work before it counts as complete; may be repeated",
    )
    made.add_argument("--base", metavar="B", help="branch to start from and merge into")
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
    import asyncio  # noqa: PLC0415  # only now it is clear that something runs

    from orchestrator import jobs  # noqa: PLC0415  # as above
    from orchestrator.cli import looping  # noqa: PLC0415  # as above
    from orchestrator.cli.text import one_line, say, tell, to_json  # noqa: PLC0415  # as above

    bench = looping.Bench.of(
        repo,
        stay_for_people=options.stay,
        retry_interval=options.retry_interval,
        **confined,
    )
    wish = jobs.Wish(
        text=text,
        task_id=options.task_id,
        adapter=options.agent,
        command=options.command,
        verify=tuple(options.verify),
        base=options.base,
        max_retries=options.max_retries,
    )

    async def work(engine: Engine) -> Work:
        return await jobs.wished(engine, wish, bench.settings(), tell)

    who = f"loopwright run {options.task_id or one_line(text, 40)}"
    ending = asyncio.run(
        looping.loop_through(bench, work, who=who, plain=options.plain, revives=False)
    )
    if options.json:
        for result in ending.results.values():
            say(to_json(result.to_json()))
    else:
        looping.tell_ending(ending, bench)
    return ending.exit_code
