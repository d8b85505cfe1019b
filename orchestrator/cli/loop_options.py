"""Options of the commands that run loops. Imports nothing heavy, so that --help is quick."""

from __future__ import annotations

from orchestrator.terminal.options import UsageError, dollars, positive

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from lifecycle.settings import Settings
    from orchestrator.terminal.options import CommandLineParser

LEVELS = ("process", "container")
"""Isolation levels of agents that are commands."""
ENGINES = ("local", "temporal")
_IN_PROCESS = ("none", "thread")


def with_looping(parser: CommandLineParser) -> CommandLineParser:
    """Add the options of every command that runs loops."""
    parser.add_argument(
        "--isolation",
        metavar="LEVEL",
        help="how agents are kept apart: process or container (see `doctor --isolation`)",
    )
    parser.add_argument(
        "--allow-weaker",
        action="store_true",
        help="start agents with weaker isolation where this machine lacks it, and say so",
    )
    return with_plain(parser)


def with_engine(parser: CommandLineParser) -> CommandLineParser:
    """Add the choice of what decides."""
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        help="what decides: this process, or workflows on a Temporal server (many machines)",
    )
    return parser


def with_task(parser: CommandLineParser) -> CommandLineParser:
    """Add what says who works on a task, what verifies it and where it starts."""
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--agent", metavar="NAME", help="a known agent program, such as claude")
    who.add_argument("--command", metavar="'CMD ARG'", help="any program that reads its prompt")
    with_limits(parser)
    parser.add_argument("--base", metavar="B", help="branch to start from and merge into")
    parser.add_argument(
        "--issue",
        metavar="N",
        help="the issue that it is about: its number, owner/name#N or its address",
    )
    return parser


def with_source(parser: CommandLineParser) -> CommandLineParser:
    """Add what a list of tasks does not say itself."""
    parser.add_argument("--base", metavar="B", help="branch to start from and merge into")
    parser.add_argument(
        "--in-order", action="store_true", help="of a list: each task waits for the one before it"
    )
    return parser


def with_limits(parser: CommandLineParser) -> CommandLineParser:
    """Add the settings that people change for one run."""
    parser.add_argument(
        "--verify",
        action="append",
        default=[],
        metavar="CMD",
        help="must succeed on the committed work before it counts as complete; may be repeated",
    )
    parser.add_argument(
        "--setup",
        action="append",
        default=[],
        metavar="CMD",
        help="installs what the code needs in a fresh checkout; may be repeated",
    )
    parser.add_argument("--model", metavar="MODEL", help="the model of the agent program")
    parser.add_argument(
        "--budget-usd", type=dollars, metavar="USD", help="dollars that a task may cost"
    )
    parser.add_argument(
        "--max-attempts", type=positive, metavar="N", help="attempts that a task may take"
    )
    return parser


def with_model(agent: str | None, model: str | None, settings: Settings) -> str | None:
    """Return the agent program with the model that was typed for it."""
    if model is None:
        return agent
    chosen = agent or settings.adapter
    if not agent and (settings.agents or settings.command):
        chosen = None
    if not chosen or "," in chosen or ":" in (agent or ""):
        raise UsageError(
            f"--model {model} needs one agent program: give --agent NAME, or write the model "
            f"beside the name: --agent NAME:{model}"
        )
    return f"{chosen.partition(':')[0]}:{model}"


def with_stay(parser: CommandLineParser) -> CommandLineParser:
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
        help="end with 3 when everything left waits for people",
    )
    return parser


def with_plain(parser: CommandLineParser) -> CommandLineParser:
    """Add --plain."""
    parser.add_argument(
        "--plain", action="store_true", help="dated lines instead of a live table on a terminal"
    )
    return parser


def isolation(level: str | None, *, allow_weaker: bool) -> dict[str, object]:
    """Return the settings that these options stand for; refuse a level no command can have."""
    if level in _IN_PROCESS:
        raise UsageError(
            f"isolation {level!r} is for Python agents inside the runner and isolates nothing; "
            "a command gets --isolation process or container"
        )
    if level is not None and level not in LEVELS:
        raise UsageError(f"there is no isolation level {level!r}; use process or container")
    return {"isolation": level, "allow_weaker": True if allow_weaker else None}
