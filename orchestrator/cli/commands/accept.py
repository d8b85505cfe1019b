"""`loopwright accept AGENT... | --all`: merge completed work, in the order of dependencies."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from orchestrator.config.known_secrets import masker_of
from orchestrator.config.settings import load_settings
from orchestrator.control import accept_in_order, commands
from orchestrator.control.approve_settings import note, waiting
from orchestrator.control.people_only import require_person
from orchestrator.runner.providers import bring_of
from orchestrator.terminal import exits
from orchestrator.terminal.options import (
    CommandLineParser,
    UsageError,
    commit_id,
    find_repo,
    seconds,
    user,
)
from orchestrator.terminal.text import one_line, say, tell, to_json

if TYPE_CHECKING:
    from orchestrator.control.outcomes import OperatorOutcome


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Merge completed work into its base, then remove workspace and branch. Repeating is safe.",
        example=f"loopwright {name} agent-T001\nloopwright {name} T001 T002\nloopwright {name} "
        "--all",
        more="The result of a merge is verified before the base moves, unless exactly that was\n"
        "verified already. Exit codes: 0 all merged, 3 some wait (a conflict, a failed check,\n"
        "flagged files with --all), 2 refused; each is named.",
    )
    made.add_argument(
        "agents", nargs="*", metavar="AGENT", help="agent or task id; `loopwright ps` lists them"
    )
    made.add_argument(
        "--all", action="store_true",
        help="all completed work whose verify commands passed and that changed no tests or gates",
    )  # fmt: skip
    made.add_argument(
        "--with-dependencies", action="store_true", dest="along",
        help="also accept the work that comes along, and include rejected work",
    )  # fmt: skip
    made.add_argument(
        "--no-verify", action="store_false", dest="verify",
        help="merge without running the verify commands on the result",
    )  # fmt: skip
    made.add_argument(
        "--expect-head", type=commit_id, metavar="SHA",
        help="merge only this commit, which you looked at; refused if the work moved on since",
    )  # fmt: skip
    made.with_by().with_reason()
    made.add_argument(
        "--wait", type=seconds, default=10.0, metavar="S",
        help="seconds to wait for a live runner to answer (10); a merge is awaited to its end",
    )  # fmt: skip
    return made.with_json("print the result as JSON").with_repo()


def run(name: str, args: list[str]) -> int:
    """Accept, and print each result."""
    options = parser(name).parse_args(args)
    if bool(options.agents) is options.all:
        raise UsageError(f"name whose work to accept, or all: loopwright {name} AGENT... | --all")
    if options.expect_head and len(options.agents) != 1:
        raise UsageError("--expect-head says what was seen of one agent's work: name that one")
    repo = find_repo(options.repo)
    for agent in options.agents or ("--all",):
        require_person(repo, f"{name} {agent}", "" if options.all else agent)
    command = commands.OperatorCommand(
        verb=name,
        agent_id="",
        by=options.by or user(),
        why=options.why.strip(),
        wait_s=options.wait,
        settle_s=float("inf"),
        along=options.along,
        verify=options.verify,
        expect_head=options.expect_head or "",
        progress=tell,
    )
    asyncio.run(note(repo, os.environ, command.by))
    settings = load_settings(repo, environ=os.environ)
    masker = masker_of(os.environ, settings.pass_env)
    outcomes = asyncio.run(
        accept_in_order.accept(
            repo,
            command,
            options.agents,
            tell=(lambda _: None) if options.json else _told,
            bring=bring_of(repo, settings, masker, os.environ),
        )
    )
    if options.json:
        forms = [outcome.to_json() for outcome in outcomes]
        alone = len(options.agents) == 1 and len(forms) == 1
        say(to_json(forms[0] if alone else {"results": forms}))
    elif not outcomes:
        say("There is no completed work.")
    elif waits := waiting(repo, os.environ):
        tell(one_line(waits))
    return accept_in_order.exit_code(outcomes)


def _told(outcome: OperatorOutcome) -> None:
    line = one_line(f"{outcome.agent_id}: {outcome.text}")
    if outcome.exit_code == exits.USAGE:
        tell(f"loopwright: {outcome.text}")
    else:
        say(line)
    if outcome.hint:
        tell(one_line(outcome.hint))
