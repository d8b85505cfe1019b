"""`loopwright schema NAME`: the JSON schema of a file that is read or of an output."""

from __future__ import annotations

from orchestrator.review.queue import WaitingListForm
from orchestrator.review.work_diff import DiffForm
from orchestrator.terminal.options import CommandLineParser
from orchestrator.terminal.text import say, to_json
from orchestrator.wording.json_schemas import SCHEMAS, schema

OF_REVIEW = {"diff": DiffForm, "review": WaitingListForm}
"""What these commands print with --json."""
NAMES = (*SCHEMAS, *OF_REVIEW)


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Print a JSON schema: of plan, settings (loopwright.toml) or communications.json, or of "
        "what a command prints with --json.",
        example=f"loopwright {name} plan",
    )
    made.add_argument("what", choices=NAMES, metavar="NAME", help=f"one of {', '.join(NAMES)}")
    return made.with_json("the default; accepted for scripts")


def run(name: str, args: list[str]) -> int:
    """Print."""
    options = parser(name).parse_args(args)
    say(to_json(schema(options.what, OF_REVIEW.get(options.what))))
    return 0
