"""`loopwright costs`: what attempts used, and how much of each budget is left."""

from __future__ import annotations

from orchestrator.cli.options import STATE_FOLDER, Parser, find_repo

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.costs import Line, Part, Rows

BY = ("day", "agent", "plan", "program", "model")
HEADS = ("ATTEMPTS", "TOKENS", "COST", "TIME")
BUDGET_HEADS = ("BUDGET OF", "NAME", "USED", "OF", "LEFT")
SHOWN = 20
"""Budgets of lifecycles that a table holds."""
_MORE = """\
Counted are attempts that ended, kept for 400 days. What no program named is unknown; a sum with
such attempts in it says `at least`, and budgets count them as nothing. Budgets are those of now:
see docs/budgets.md."""


def parser(name: str) -> Parser:
    """Return the options."""
    made = Parser(
        name,
        "Show what attempts used, and how much of each budget is left.",
        example="loopwright costs\nloopwright costs --since 30d --by plan\n"
        "loopwright costs --since 2027-01-31 --by model --json",
        more=_MORE,
    )
    made.add_argument(
        "--since",
        default="7d",
        metavar="WHEN",
        help="days (7d, this one included; the default), hours (12h) or a date (2027-01-31)",
    )
    made.add_argument("--by", choices=BY, default="day", help="how to add up (day)")
    return made.with_json().with_repo()


def run(name: str, args: list[str]) -> int:
    """Show."""
    options = parser(name).parse_args(args)
    repo = find_repo(options.repo)

    import os  # noqa: PLC0415  # not for --help

    from lifecycle.store.peek import read_facts, read_spending  # noqa: PLC0415  # not for --help
    from orchestrator import costs  # noqa: PLC0415  # as above
    from orchestrator.budgetlimits import limits_of  # noqa: PLC0415  # as above
    from orchestrator.cli.text import now, say, to_json  # noqa: PLC0415  # as above

    present = now()
    since = costs.instant_of(options.since, present)
    limits = limits_of(repo, os.environ)
    database = repo / STATE_FOLDER / "state.db"
    there = database.exists()
    everything, facts = (read_spending(database), read_facts(database)) if there else ([], [])
    rows: Rows = [row for row in everything if row["at"] >= since]
    lines = costs.grouped(rows, options.by)
    parts = costs.budgets(everything, facts, limits, present)
    if options.json:
        value = {
            "since": since,
            "by": options.by,
            "lines": [line.to_json() for line in lines],
            "total": costs.total(rows).to_json(),
            "budgets": [part.to_json() for part in parts],
        }
        say(to_json(value))
        return 0
    if lines:
        _print_lines(options.by, [*lines, costs.total(rows)])
    else:
        _print_nothing(bool(everything), options.since)
    _print_budgets(parts)
    _tell_of_a_runner(repo)
    return 0


def _print_nothing(before: bool, since: str) -> None:  # noqa: FBT001  # one caller
    from orchestrator.cli.text import say  # noqa: PLC0415  # not for --help

    if before:
        say(f"No attempt ended since {since}; try `loopwright costs --since 400d`.")
    else:
        say("No attempt ended here yet, so nothing was spent.")


def _print_lines(by: str, lines: list[Line]) -> None:
    from orchestrator.cli.text import say, span, table  # noqa: PLC0415  # not for --help

    rows = [
        (line.name, f"{line.attempts:,}", _tokens(line), _cost(line), span(line.seconds))
        for line in lines
    ]
    say(table((by.upper(), *HEADS), rows))


def _tokens(line: Line) -> str:
    return _known(f"{line.tokens:,}", line.with_tokens, line.attempts)


def _cost(line: Line) -> str:
    from lifecycle.machine.money import dollars  # noqa: PLC0415  # not for --help

    return _known(dollars(line.cost_usd), line.with_cost, line.attempts)


def _known(told: str, by: int, of: int) -> str:
    """Say how much is known of a sum, which only some of the attempts may have told."""
    if not by:
        return "unknown"
    return told if by == of else f"at least {told}"


def _print_budgets(parts: list[Part]) -> None:
    from orchestrator.cli.text import say, table, tell  # noqa: PLC0415  # not for --help

    of_one = [part for part in parts if part.scope == "lifecycle"]
    most = sorted(of_one, key=lambda part: part.used / part.budget, reverse=True)[:SHOWN]
    shown = [part for part in parts if part.scope != "lifecycle"] + most
    if not shown:
        return
    rows = [
        (
            part.scope,
            part.name,
            _used(part),
            _amount(part, part.budget),
            "used up" if _is_used_up(part) else _left(part),
        )
        for part in shown
    ]
    say()
    say(table(BUDGET_HEADS, rows))
    if len(most) < len(of_one):
        tell(f"{len(of_one) - len(most)} more of lifecycles, less used; --json lists all")


def _is_used_up(part: Part) -> bool:
    from lifecycle.machine.money import HAIR  # noqa: PLC0415  # not for --help

    return part.left < (HAIR if part.what == "usd" else 1e-9)


def _used(part: Part) -> str:
    return ("" if part.exact else "at least ") + _amount(part, part.used)


def _left(part: Part) -> str:
    return ("" if part.exact else "at most ") + _amount(part, part.left)


def _amount(part: Part, value: float) -> str:
    from lifecycle.machine.money import HOUR, dollars, hours  # noqa: PLC0415  # not for --help

    if part.what == "usd":
        return dollars(value)
    if part.what == "hours":
        return f"{hours(value * HOUR)} hours"
    return f"{value:,.0f} {part.what}"


def _tell_of_a_runner(repo: Path) -> None:
    from lifecycle.store.lock import holder  # noqa: PLC0415  # not for --help
    from orchestrator.cli.text import tell  # noqa: PLC0415  # as above

    if holder(repo / STATE_FOLDER) is not None:
        tell("A runner is alive: attempts under way are added when they end.")
