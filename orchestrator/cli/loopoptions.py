"""Options of the commands that run loops. Imports nothing heavy, so that --help is quick."""

from __future__ import annotations

from orchestrator.cli.options import UsageError

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from orchestrator.cli.options import Parser

LEVELS = ("process",)
"""Isolation levels that this version can give."""
_NAMED = ("none", "thread", *LEVELS, "container")


def with_looping(parser: Parser) -> Parser:
    """Add what every command has that runs loops."""
    parser.add_argument(
        "--isolation",
        metavar="LEVEL",
        default="process",
        help="how agents are kept apart; only `process` exists in this version",
    )
    return with_plain(parser)


def with_plain(parser: Parser) -> Parser:
    """Add --plain."""
    parser.add_argument(
        "--plain", action="store_true", help="dated lines instead of a live table on a terminal"
    )
    return parser


def check_isolation(level: str) -> None:
    """Refuse a level that this version cannot give; never give a weaker one instead."""
    if level in LEVELS:
        return
    if level not in _NAMED:
        raise UsageError(f"there is no isolation level {level!r}; use --isolation process")
    raise UsageError(
        f"isolation {level!r} is not available in this version, and nothing weaker is used in its "
        "place: only `process` (own session, scrubbed environment, whole tree ended) is"
    )
