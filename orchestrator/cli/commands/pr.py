"""`loopwright pr`: the pull requests, on this machine or at a forge."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from ci.interface import MergeTerms
from lifecycle.clock import SystemClock
from orchestrator.config.known_secrets import masker_of
from orchestrator.config.settings import load_settings
from orchestrator.control.approve_settings import note
from orchestrator.control.people_only import require_person
from orchestrator.runner import pull_requests
from orchestrator.runner.providers import ProviderInputs
from orchestrator.terminal import exits
from orchestrator.terminal.options import CommandLineParser, find_repo, positive, user
from orchestrator.terminal.text import one_line, say, table, to_json

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path


HEADS = ("PR", "STATE", "CHECKS", "BRANCH", "INTO", "TITLE")
ALONG = "COMES ALONG"


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "List, merge or close pull requests, on this machine or at the forge.",
        example="loopwright pr list\nloopwright pr merge 1",
        more="A live runner does it itself, within a second or two, and wakes the agent.\n"
        "Exit code 3 when it is not merged: failed or running checks, a conflict, local changes.",
    )
    made.with_action(("list", "merge", "close"))
    made.add_argument("number", nargs="?", type=positive, metavar="N", help="of the pull request")
    made.add_argument(
        "--with-dependencies", action="store_true", dest="along",
        help="merge it even if it brings along work that nobody accepted",
    )  # fmt: skip
    made.add_argument(
        "--no-verify", action="store_false", dest="verify",
        help="merge it without running the checks on the result of the merge",
    )  # fmt: skip
    made.with_by()
    return made.with_json().with_repo()


def run(name: str, args: list[str]) -> int:
    """Do it."""
    made = parser(name)
    options = made.parse_args(args)
    if (options.number is None) is not (options.action == "list"):
        made.error(
            f"`pr {options.action}` takes {'no' if options.action == 'list' else 'a'} number"
        )
    repo = find_repo(options.repo)
    return _list(repo, options) if options.action == "list" else _order(repo, options)


def _list(repo: Path, options: Namespace) -> int:
    pulls = asyncio.run(pull_requests.listed(_inputs(repo)))
    if options.json:
        say(to_json({"pull_requests": [pull.model_dump(mode="json") for pull in pulls]}))
    elif not pulls:
        say("There are no pull requests.")
    else:
        any_along = any(pull.comes_along for pull in pulls)
        rows = [
            (
                str(pull.number),
                f"{pull.state}, in conflict" if pull.conflicts else str(pull.state),
                str(pull.checks),
                pull.branch,
                pull.base,
                pull.title,
                *((", ".join(pull.comes_along),) if any_along else ()),
            )
            for pull in pulls
        ]
        say(table((*HEADS, ALONG) if any_along else HEADS, rows))
    return 0


def _order(repo: Path, options: Namespace) -> int:
    require_person(repo, f"pr {options.action} {options.number}")
    asyncio.run(note(repo, os.environ, options.by or user()))
    answer = asyncio.run(
        pull_requests.order(
            _inputs(repo),
            options.action,
            options.number,
            by=options.by or user(),
            terms=MergeTerms(along=options.along, verify=options.verify),
        )
    )
    text = answer.problem or answer.text
    if options.json:
        say(to_json({"number": options.number, "done": not answer.problem, "text": text}))
    else:
        say(one_line(text))
    return exits.BLOCKED if answer.problem else exits.COMPLETE


def _inputs(repo: Path) -> ProviderInputs:
    settings = load_settings(repo, environ=os.environ)
    return ProviderInputs(
        repo,
        lambda: settings,
        os.environ,
        SystemClock().now,
        masker_of(os.environ, settings.pass_env),
    )
