"""`loopwright schema NAME`: the JSON schema of a file that is read or of an output."""

from __future__ import annotations

from orchestrator.cli.options import Parser
from orchestrator.cli.text import say, to_json

NAMES = (
    *("plan", "settings", "communications", "result", "export"),
    *("ps", "show", "events", "logs", "summary", "doctor"),
)


def parser(name: str) -> Parser:
    """Return the options."""
    made = Parser(
        name,
        "Print a JSON schema: of plan, settings (loopwright.toml) or communications.json, or of "
        "what a command prints with --json.",
        example=f"loopwright {name} plan",
    )
    made.add_argument("what", choices=NAMES, metavar="NAME", help=f"one of {', '.join(NAMES)}")
    return made.with_json("as always; accepted for the sake of scripts")


def run(name: str, args: list[str]) -> int:
    """Print."""
    options = parser(name).parse_args(args)
    from orchestrator.schemas import schema  # noqa: PLC0415  # the models are heavy

    say(to_json(schema(options.what)))
    return 0
