"""`loopwright pr`: the pull requests, on this machine or at a forge."""

from __future__ import annotations

from orchestrator.cli.options import Parser, find_repo, positive, user

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

    from orchestrator.providers import Makings

HEADS = ("PR", "STATE", "CHECKS", "BRANCH", "INTO", "TITLE")
ALONG = "COMES ALONG"


def parser(name: str) -> Parser:
    """Return the options."""
    made = Parser(
        name,
        "List, merge or close pull requests, on this machine or at the forge.",
        example="loopwright pr list\nloopwright pr merge 1",
        more="A live runner does it itself, within a second or two, and wakes the agent.\n"
        "Exit code 3 when it is not merged: red or running checks, a conflict, local changes.",
    )
    made.add_argument("action", nargs="?", choices=("list", "merge", "close"), default="list")
    made.add_argument("number", nargs="?", type=positive, metavar="N", help="of the pull request")
    made.add_argument(
        "--with-dependencies", action="store_true", dest="along",
        help="merge it also if work comes along that nobody accepted",
    )  # fmt: skip
    made.add_argument(
        "--no-verify", action="store_false", dest="verify",
        help="merge it without running the checks on what comes of the merge",
    )  # fmt: skip
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

    from orchestrator import prdesk  # noqa: PLC0415  # as above
    from orchestrator.cli.text import say, table, to_json  # noqa: PLC0415  # as above

    pulls = asyncio.run(prdesk.listed(_makings(repo)))
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
    import asyncio  # noqa: PLC0415  # as above
    import os  # noqa: PLC0415  # as above

    from ci.interface import MergeTerms  # noqa: PLC0415  # as above
    from orchestrator import prdesk  # noqa: PLC0415  # as above
    from orchestrator.approval.approving import note  # noqa: PLC0415  # as above
    from orchestrator.cli import exits  # noqa: PLC0415  # as above
    from orchestrator.cli.text import one_line, say, to_json  # noqa: PLC0415  # as above
    from orchestrator.peopleonly import require_person  # noqa: PLC0415  # as above

    require_person(repo, f"pr {options.action} {options.number}")
    asyncio.run(note(repo, os.environ, options.by or user()))
    answer = asyncio.run(
        prdesk.order(
            _makings(repo),
            options.action,
            options.number,
            by=options.by or user(),
            terms=MergeTerms(along=options.along, verify=options.verify),
        )
    )
    if options.json:
        say(to_json({"number": options.number, "done": answer.done, "text": answer.text}))
    else:
        say(one_line(answer.text))
    return exits.COMPLETE if answer.done else exits.BLOCKED


def _makings(repo: Path) -> Makings:
    import os  # noqa: PLC0415  # as above

    from lifecycle.clock import SystemClock  # noqa: PLC0415  # as above
    from orchestrator.config import load_settings  # noqa: PLC0415  # as above
    from orchestrator.providers import Makings  # noqa: PLC0415  # as above
    from orchestrator.secrecy import masker_of  # noqa: PLC0415  # as above

    settings = load_settings(repo, environ=os.environ)
    return Makings(
        repo,
        lambda: settings,
        os.environ,
        SystemClock().now,
        masker_of(os.environ, settings.pass_env),
    )
