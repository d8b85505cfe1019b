"""`loopwright pr`: the pull requests of the local provider."""

from __future__ import annotations

from orchestrator.cli.options import Parser, find_repo, positive, user

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

HEADS = ("PR", "STATE", "CHECKS", "BRANCH", "INTO", "TITLE")


def parser(name: str) -> Parser:
    """Return the options."""
    made = Parser(
        name,
        "List, merge or close pull requests of the local provider.",
        example="loopwright pr list\nloopwright pr merge 1",
        more="A live runner does it itself, within a second or two, and wakes the agent.\n"
        "Exit code 3 when it is not merged: red or running checks, a conflict, local changes.",
    )
    made.add_argument("action", nargs="?", choices=("list", "merge", "close"), default="list")
    made.add_argument("number", nargs="?", type=positive, metavar="N", help="of the pull request")
    made.add_argument("--by", metavar="NAME", help="who says so; by default you")
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
    import asyncio  # noqa: PLC0415  # not for --help
    import os  # noqa: PLC0415  # as above

    from orchestrator import prdesk  # noqa: PLC0415  # as above
    from orchestrator.cli.text import say, table, to_json  # noqa: PLC0415  # as above
    from orchestrator.config import load_settings  # noqa: PLC0415  # as above

    checked = bool(load_settings(repo, environ=os.environ).test_command)
    pulls = asyncio.run(prdesk.listed(repo, checked=checked))
    if options.json:
        say(to_json({"pull_requests": [pull.model_dump(mode="json") for pull in pulls]}))
    elif not pulls:
        say("There are no local pull requests.")
    else:
        rows = [
            (
                str(pull.number),
                f"{pull.state}, in conflict" if pull.conflicts else str(pull.state),
                str(pull.checks),
                pull.branch,
                pull.base,
                pull.title,
            )
            for pull in pulls
        ]
        say(table(HEADS, rows))
    return 0


def _order(repo: Path, options: Namespace) -> int:
    import asyncio  # noqa: PLC0415  # as above
    import os  # noqa: PLC0415  # as above

    from orchestrator import prdesk  # noqa: PLC0415  # as above
    from orchestrator.cli import exits  # noqa: PLC0415  # as above
    from orchestrator.cli.text import one_line, say, to_json  # noqa: PLC0415  # as above
    from orchestrator.config import load_settings  # noqa: PLC0415  # as above

    settings = load_settings(repo, environ=os.environ)
    answer = asyncio.run(
        prdesk.order(
            repo, options.action, options.number, by=options.by or user(), settings=settings
        )
    )
    if options.json:
        say(to_json({"number": options.number, "done": answer.done, "text": answer.text}))
    else:
        say(one_line(answer.text))
    return exits.COMPLETE if answer.done else exits.BLOCKED
