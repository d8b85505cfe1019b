"""`loopwright demo`: a whole loop to watch, in a throw-away repository, with a scripted agent."""

from __future__ import annotations

import asyncio

from orchestrator import demo
from orchestrator.cli import run_loops
from orchestrator.cli.loop_options import with_plain
from orchestrator.terminal.options import CommandLineParser

_MORE = """\
Attempt 1 writes code and waits for CI, attempt 2 opens a pull request that is checked and merged,
attempt 3 finishes and is verified. It takes about ten seconds and needs no network, no key and no
agent. The repository stays, so that you can try the other commands on it."""


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Watch a whole loop with a scripted agent in a throw-away repository.",
        example="loopwright demo",
        more=_MORE,
    )
    made.add_argument("--keep", metavar="DIR", help="make the repository there; a new folder")
    return with_plain(made)


def run(name: str, args: list[str]) -> int:
    """Show it."""
    options = parser(name).parse_args(args)
    repo = demo.prepare(options.keep)
    demo.introduce(repo)
    context = run_loops.CommandContext.of(repo)
    ending = asyncio.run(
        run_loops.loop_through(
            context, demo.work, who="loopwright demo", plain=options.plain, revives=False
        )
    )
    run_loops.tell_ending(ending, context, hints=False)
    if ending.signal_code:
        demo.leave(repo)
    else:
        demo.explain(repo)
    return ending.exit_code
