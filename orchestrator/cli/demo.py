"""`loopwright demo`: a whole loop to watch, in a throw-away repository, with a scripted agent."""

from __future__ import annotations

from orchestrator.cli.loopoptions import with_plain
from orchestrator.cli.options import Parser

_MORE = """\
Attempt 1 writes code and waits for CI, attempt 2 opens a pull request that is checked and merged,
attempt 3 finishes and is verified. It takes about ten seconds and needs no network, no key and no
agent. The repository stays, so that you can try the other commands on it."""


def parser(name: str) -> Parser:
    """Return the options."""
    made = Parser(
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
    import asyncio  # noqa: PLC0415  # only now it is clear that something runs

    from orchestrator import demo  # noqa: PLC0415  # as above
    from orchestrator.cli import looping  # noqa: PLC0415  # as above

    repo = demo.prepare(options.keep)
    demo.introduce(repo)
    bench = looping.Bench.of(repo)
    ending = asyncio.run(
        looping.loop_through(
            bench, demo.work, who="loopwright demo", plain=options.plain, revives=False
        )
    )
    looping.tell_ending(ending, bench, hints=False)
    if ending.signal_code:
        demo.leave(repo)
    else:
        demo.explain(repo)
    return ending.exit_code
