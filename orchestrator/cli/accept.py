"""`loopwright accept AGENT... | --all`: merge completed work, in the order of dependencies."""

from __future__ import annotations

from orchestrator.cli.options import Parser, UsageError, find_repo, seconds, user

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.outcomes import Outcome


def parser(name: str) -> Parser:
    """Return the options."""
    made = Parser(
        name,
        "Merge completed work into its base, then remove workspace and branch. Twice is harmless.",
        example=f"loopwright {name} agent-T001\nloopwright {name} T001 T002\nloopwright {name} "
        "--all",
        more="What comes of a merge is verified before the base moves, unless it equals what was\n"
        "verified already. Exit codes: 0 all is merged, 3 some waits (a conflict, a red merge,\n"
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
        help="accept what comes along, too, and take along what was rejected",
    )  # fmt: skip
    made.add_argument(
        "--no-verify", action="store_false", dest="verify",
        help="merge without running the verify commands on what comes of the merge",
    )  # fmt: skip
    made.add_argument("--by", metavar="NAME", help="who says so; by default you")
    made.add_argument(
        "--wait", type=seconds, default=10.0, metavar="S",
        help="seconds to wait for a live runner to answer (10); a merge is waited for to its end",
    )  # fmt: skip
    return made.with_json("print what came of it as JSON").with_repo()


def run(name: str, args: list[str]) -> int:
    """Accept, and say what came of each."""
    options = parser(name).parse_args(args)
    if bool(options.agents) is options.all:
        raise UsageError(f"name whose work to accept, or all: loopwright {name} AGENT... | --all")
    repo = find_repo(options.repo)
    import asyncio  # noqa: PLC0415  # only now it is clear that something is asked
    import os  # noqa: PLC0415  # as above

    from orchestrator.peopleonly import require_person  # noqa: PLC0415  # as above

    for agent in options.agents or ("--all",):
        require_person(repo, f"{name} {agent}", "" if options.all else agent)
    from orchestrator import accepting, steering  # noqa: PLC0415  # as above
    from orchestrator.approval.approving import note  # noqa: PLC0415  # as above
    from orchestrator.cli.text import one_line, say, tell, to_json  # noqa: PLC0415  # as above

    wish = steering.Wish(
        verb=name,
        agent_id="",
        by=options.by or user(),
        wait_s=options.wait,
        settle_s=float("inf"),
        along=options.along,
        verify=options.verify,
        progress=tell,
    )
    asyncio.run(note(repo, os.environ, wish.by))
    outcomes = asyncio.run(
        accepting.accept(repo, wish, options.agents, tell=_quiet if options.json else _told)
    )
    if options.json:
        forms = [outcome.to_json() for outcome in outcomes]
        alone = len(options.agents) == 1 and len(forms) == 1
        say(to_json(forms[0] if alone else {"results": forms}))
    elif not outcomes:
        say("There is no completed work.")
    elif waits := _waiting(repo):
        tell(one_line(waits))
    return accepting.exit_code(outcomes)


def _waiting(repo: Path) -> str:
    import os  # noqa: PLC0415  # only after something was merged

    from orchestrator.approval.approving import waiting  # noqa: PLC0415  # as above

    return waiting(repo, os.environ)


def _quiet(outcome: Outcome) -> None:
    del outcome


def _told(outcome: Outcome) -> None:
    from orchestrator.cli import exits  # noqa: PLC0415  # as above
    from orchestrator.cli.text import one_line, say, tell  # noqa: PLC0415  # as above

    line = one_line(f"{outcome.agent_id}: {outcome.text}")
    if outcome.exit_code == exits.USAGE:
        tell(f"loopwright: {outcome.text}")
    else:
        say(line)
    if outcome.hint:
        tell(one_line(outcome.hint))
