"""`loopwright costs`: what attempts used, and how much of each budget is left."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lifecycle.machine.budget import HAIR, HOUR, dollars, hours
from lifecycle.store.lock import holder
from lifecycle.store.plain_queries import read_ends, read_spending
from orchestrator.config.settings import load_settings
from orchestrator.control import costs
from orchestrator.terminal.options import STATE_FOLDER, CommandLineParser, find_repo
from orchestrator.terminal.text import now, say, span, table, tell, to_json

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.control.costs import BudgetPart, EndedLifecycles, Rows, UsageLine

BY = ("day", "hour", "agent", "task", "plan", "program", "model")
HEADS = ("ATTEMPTS", "TOKENS", "COST", "TIME")
BUDGET_HEADS = ("BUDGET OF", "NAME", "USED", "OF", "LEFT")
SHOWN = 20
"""Budgets of lifecycles that a table holds."""
_MORE = """\
Attempts count once they ended, and are kept for 400 days. Usage that a program did not report is
unknown: a sum with such attempts says `at least`, and budgets count them as zero. The budgets shown
are the current ones; see docs/how-to/budgets.md. Lifecycles that ended count as long as their
records are kept (retention_hours)."""


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
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
        help="night (since 18:00), days (7d, this one included; the default), hours (12h) or a "
        "date (2027-01-31)",
    )
    made.add_argument("--by", choices=BY, default="day", help="how to add up (day)")
    return made.with_json().with_repo()


def run(name: str, args: list[str]) -> int:
    """Show."""
    options = parser(name).parse_args(args)
    repo = find_repo(options.repo)
    present = now()
    since = costs.instant_of(options.since, present)
    limits = load_settings(repo, environ=os.environ).model_dump()
    database = repo / STATE_FOLDER / "state.db"
    there = database.exists()
    everything = read_spending(database) if there else []
    ended = costs.ends_since(read_ends(database, since) if there else (), since)
    rows: Rows = [row for row in everything if row["at"] >= since]
    lines = costs.grouped(rows, options.by)
    parts = costs.budgets(database, limits, present)
    if options.json:
        value = {
            "since": since,
            "by": options.by,
            "lines": [line.to_json() for line in lines],
            "total": costs.total(rows).to_json(),
            "budgets": [part.to_json() for part in parts],
            "lifecycles": ended.to_json(),
        }
        say(to_json(value))
        return 0
    if lines:
        _print_lines(options.by, [*lines, costs.total(rows)])
    else:
        _print_nothing(bool(everything), options.since)
    _print_budgets(parts)
    _print_ends(ended)
    _tell_of_a_runner(repo)
    return 0


def _print_nothing(before: bool, since: str) -> None:  # noqa: FBT001  # one caller
    if before:
        say(f"No attempt ended since {since}; try `loopwright costs --since 400d`.")
    else:
        say("No attempt ended here yet, so nothing was spent.")


def _print_ends(ended: EndedLifecycles) -> None:
    rate, taken = ended.success_rate, ended.mean_seconds
    if rate is not None and taken is not None:
        say(
            f"\n{ended.ended} ended, {ended.accepted} of them accepted ({rate:.0%}); "
            f"{span(taken)} each on average"
        )


def _print_lines(by: str, lines: list[UsageLine]) -> None:
    rows = [
        (
            line.name,
            f"{line.attempts:,}",
            _known(f"{line.tokens:,}", line.with_tokens, line.attempts),
            _known(dollars(line.cost_usd), line.with_cost, line.attempts),
            span(line.seconds),
        )
        for line in lines
    ]
    say(table((by.upper(), *HEADS), rows))


def _known(told: str, by: int, of: int) -> str:
    """Say how much is known of a sum, which only some of the attempts may have told."""
    if not by:
        return "unknown"
    return told if by == of else f"at least {told}"


def _print_budgets(parts: list[BudgetPart]) -> None:
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


def _is_used_up(part: BudgetPart) -> bool:
    return part.left < (HAIR if part.what == "usd" else 1e-9)


def _used(part: BudgetPart) -> str:
    return ("" if part.exact else "at least ") + _amount(part, part.used)


def _left(part: BudgetPart) -> str:
    return ("" if part.exact else "at most ") + _amount(part, part.left)


def _amount(part: BudgetPart, value: float) -> str:
    if part.what == "usd":
        return dollars(value)
    if part.what == "hours":
        return f"{hours(value * HOUR)} hours"
    return f"{value:,.0f} {part.what}"


def _tell_of_a_runner(repo: Path) -> None:
    if holder(repo / STATE_FOLDER) is not None:
        tell("A runner is alive: attempts under way are added when they end.")
