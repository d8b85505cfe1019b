"""The options of `mcp`, and what it offers with --operator. Loaded only where there are options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.control.people_only import require_person
from orchestrator.extras import how_to_install
from orchestrator.operator_tools.command_tools import OperatorTools
from orchestrator.terminal.options import CommandLineParser, UsageError, find_repo, user

if TYPE_CHECKING:
    from argparse import Namespace

_MORE = f"""\
Needs the extra: {how_to_install("mcp")}. Ends with its standard input. For an agent it needs
the LOOPWRIGHT_* variables that Loopwright sets for the agents it starts.

With --operator it is for a program that works for you, such as Claude Code or Codex in your own
terminal: list, show, diff, add, answer, guide; accept and reject only with --allow-decide. The
audit names you and the program. An agent inside one of its attempts is refused."""


def parser_of(name: str) -> CommandLineParser:
    """Return the options; `operator_of` in what they are parsed to makes the tools."""
    made = CommandLineParser(
        name,
        "Offer the tools report_breakpoint, ask_question, report_progress and get_context to an "
        "agent (Model Context Protocol over standard input and output). Agent programs start it.",
        example=f"loopwright {name}\nloopwright {name} --operator",
        more=_MORE,
    )
    made.add_argument("--operator", action="store_true", help="offer the tools of a person instead")
    made.add_argument(
        "--allow-decide", action="store_true", help="with --operator: offer accept and reject, too"
    )
    made.with_by("with --operator: for whom it acts, for the record; by default you")
    made.set_defaults(operator_of=operator_of)
    return made.with_repo()


def operator_of(options: Namespace) -> OperatorTools | None:
    """Return the tools of a person, if they are asked for; an agent is refused."""
    if not options.operator:
        if options.allow_decide or options.by or options.repo:
            raise UsageError("--allow-decide, --by and --repo go with --operator")
        return None
    repo = find_repo(options.repo)
    require_person(repo, "use the tools of a person")
    return OperatorTools(repo, by=options.by or user(), decides=options.allow_decide)
