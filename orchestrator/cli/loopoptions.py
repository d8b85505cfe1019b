"""Options of the commands that run loops. Imports nothing heavy, so that --help is quick."""

from __future__ import annotations

from orchestrator.cli.options import UsageError

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from orchestrator.cli.options import Parser

LEVELS = ("process", "container")
"""Isolation levels of agents that are commands."""
_IN_PROCESS = ("none", "thread")


def with_looping(parser: Parser) -> Parser:
    """Add what every command has that runs loops."""
    parser.add_argument(
        "--isolation",
        metavar="LEVEL",
        help="how agents are kept apart: process or container (see `doctor --isolation`)",
    )
    parser.add_argument(
        "--allow-weaker",
        action="store_true",
        help="start agents also where this machine cannot give that, and say so",
    )
    return with_plain(parser)


def with_stay(parser: Parser) -> Parser:
    """Add --stay and --no-stay."""
    stay = parser.add_mutually_exclusive_group()
    stay.add_argument(
        "--stay",
        action="store_true",
        default=None,
        help="wait for people also without a terminal",
    )
    stay.add_argument(
        "--no-stay",
        dest="stay",
        action="store_false",
        help="end with 3 when all that is left waits for people",
    )
    return parser


def with_plain(parser: Parser) -> Parser:
    """Add --plain."""
    parser.add_argument(
        "--plain", action="store_true", help="dated lines instead of a live table on a terminal"
    )
    return parser


def isolation(level: str | None, *, allow_weaker: bool) -> dict[str, object]:
    """Return the settings that these options stand for; refuse a level no command can have."""
    if level in _IN_PROCESS:
        raise UsageError(
            f"isolation {level!r} is for Python agents inside the runner and contains nothing; "
            "a command gets --isolation process or container"
        )
    if level is not None and level not in LEVELS:
        raise UsageError(f"there is no isolation level {level!r}; use process or container")
    return {"isolation": level, "allow_weaker": True if allow_weaker else None}
