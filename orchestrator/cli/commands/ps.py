"""`loopwright ps`: the lifecycles of a repository; its options. What it prints is `ps_table`."""

from __future__ import annotations

from lifecycle.state_words import RECORD_STATES, meant, spelled
from orchestrator.terminal.options import CommandLineParser, UsageError, count, find_repo, positive

PAGE = 50
MAX_PAGE = 1000
"""As many as a listing of the store gives at once."""


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "List the lifecycles of a repository, the newest first.",
        example="loopwright ps\nloopwright ps --needs-me\nloopwright ps --watch\n"
        "loopwright ps --search feb_29",
        more=f"States: {', '.join(RECORD_STATES)}.\nWithout --all and --state, what was accepted, "
        "or rejected by a person, is left out.",
    )
    made.add_argument(
        "--all",
        action="store_true",
        help="also those that are over, and earlier lifecycles of agents that have another now",
    )
    made.add_argument(
        "--state",
        action="append",
        default=[],
        type=_state,
        choices=[spelled(word) for word in RECORD_STATES],
        metavar="STATE",
        help="only these, such as needs-you or 'given up'; may be repeated",
    )
    made.add_argument(
        "--tag", action="append", default=[], help="only with this tag; may be repeated"
    )
    made.add_argument("--worker", metavar="NAME", help="only what this worker has, or had last")
    made.add_argument(
        "--created-after",
        metavar="WHEN",
        help="only those made since days (7d), hours (12h) or a date (2027-01-31)",
    )
    made.add_argument("--created-before", metavar="WHEN", help="only those made before that")
    made.add_argument("--limit", type=positive, default=PAGE, help=f"at most so many ({PAGE})")
    made.add_argument("--cursor", type=count, help="continue after an earlier page")
    made.add_argument(
        "--needs-me",
        action="store_true",
        help="only those that need a person, each with what to type",
    )
    made.add_argument(
        "--watch", action="store_true", help="draw the list again as it changes, until Ctrl-C"
    )
    made.add_argument(
        "--search",
        metavar="TEXT",
        help="those in whose task, words, gate outputs, journal or summaries all of it is found",
    )
    made.add_argument("--ids", action="store_true", help="print agent ids only")
    return made.with_json().with_repo()


def run(name: str, args: list[str]) -> int:
    """List."""
    options = parser(name).parse_args(args)
    if options.limit > MAX_PAGE:
        raise UsageError(f"--limit {options.limit} exceeds one page; at most {MAX_PAGE}")
    if options.watch and (options.json or options.ids):
        raise UsageError("--watch cannot be combined with --json or --ids")
    repo = find_repo(options.repo)
    if options.search is not None:
        from orchestrator.cli.commands.ps_search import search  # noqa: PLC0415  # rarely asked for

        return search(repo, options)
    if options.watch:
        from orchestrator.cli.commands.ps_watch import watch  # noqa: PLC0415  # heavy

        return watch(repo, options)
    from orchestrator.cli.commands.ps_table import show  # noqa: PLC0415  # not for --help: sqlite3

    return show(repo, options)


def _state(given: str) -> str:
    return spelled(meant(given)) or given
