"""`loopwright ps`: the lifecycles of a repository, read straight from the database file."""

from __future__ import annotations

import os
import sys

from lifecycle.state_words import (
    ACCEPTED,
    QUEUED,
    RECORD_STATES,
    REJECTED,
    STOPPED,
    is_under_way,
    meant,
    spelled,
)
from lifecycle.store.lock import holder
from lifecycle.store.plain_queries import read_rows
from orchestrator.terminal.options import (
    STATE_FOLDER,
    CommandLineParser,
    UsageError,
    count,
    find_repo,
    positive,
)
from orchestrator.terminal.text import (
    blocks,
    coloured,
    now,
    paint,
    say,
    span,
    tell,
    terminal_width,
    to_json,
)
from orchestrator.wording.lifecycle_row import row_of, word_in
from orchestrator.wording.states import COLOURS, ended_with

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable
    from pathlib import Path

    from orchestrator.wording.lifecycle_row import Columns, LifecycleRow

OVER = (ACCEPTED, REJECTED)
"""What is over: nothing is left to do."""
EVERY = ("queued", "running", "completed", "rejected", "accepted")
"""The five states of records, by which they are read."""
OPEN = ("queued", "running", "completed", "rejected")
PAGE = 50
MAX_PAGE = 1000
"""As many as a listing of the store gives at once."""


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "List the lifecycles of a repository, the newest first.",
        example="loopwright ps\nloopwright ps --state needs-you --json",
        more=f"States: {', '.join(RECORD_STATES)}.\nWithout --all and --state, what was accepted, "
        "or rejected by a person, is left out.",
    )
    made.add_argument(
        "--all",
        action="store_true",
        help="also those that are over, and earlier lifecycles of agents that have another now",
    )
    made.add_argument(
        "--state",
        action="append",
        default=[],
        type=_state,
        choices=[spelled(word) for word in RECORD_STATES],
        metavar="STATE",
        help="only these, such as needs-you or 'given up'; may be repeated",
    )
    made.add_argument(
        "--tag", action="append", default=[], help="only with this tag; may be repeated"
    )
    made.add_argument(
        "--created-after",
        metavar="WHEN",
        help="only those made since days (7d), hours (12h) or a date (2027-01-31)",
    )
    made.add_argument("--created-before", metavar="WHEN", help="only those made before that")
    made.add_argument("--limit", type=positive, default=PAGE, help=f"at most so many ({PAGE})")
    made.add_argument("--cursor", type=count, help="continue after an earlier page")
    made.add_argument("--ids", action="store_true", help="print agent ids only")
    return made.with_json().with_repo()


def run(name: str, args: list[str]) -> int:
    """List."""
    options = parser(name).parse_args(args)
    if options.limit > MAX_PAGE:
        raise UsageError(f"--limit {options.limit} exceeds one page; at most {MAX_PAGE}")
    states = frozenset(map(meant, options.state))
    repo = find_repo(options.repo)
    folder = repo / STATE_FOLDER
    database, runner = folder / "state.db", holder(folder)
    is_there = database.exists()
    if not is_there or not database.stat().st_size:
        _refuse_lost(repo, database)
    runs = runner is not None
    found = _read(database, options, states, runs=runs) if is_there else []
    more = found[options.limit - 1]["cursor"] if len(found) > options.limit else None
    found = found[: options.limit]
    if options.ids:
        for columns in found:
            say(columns["agent_id"])
        return 0
    present = now()
    rows = [row_of(columns, present, runs=runs) for columns in found]
    if options.json:
        say(to_json({"lifecycles": rows, "next_cursor": more, "runner": runner}))
        return 0
    _print_table(found, rows, present, filtered=_is_filtered(options))
    if more is not None:
        tell(f"There are more: add --cursor {more}")
    if not runs:
        _warn_of_no_runner(rows)
    return 0


def _state(given: str) -> str:
    return spelled(meant(given)) or given


def _instant(option: str, given: str | None) -> float | None:
    if given is None:
        return None
    from orchestrator.control.costs import instant_of  # noqa: PLC0415  # rarely given

    return instant_of(given, now(), option=option)


def _refuse_lost(repo: Path, database: Path) -> None:
    """Distinguish a repository without loops from one whose records are lost."""
    from runtime.proc_table import MARK_VARIABLE  # noqa: PLC0415  # rarely there is no database

    if os.environ.get(MARK_VARIABLE):
        return  # an agent may not see them
    import asyncio  # noqa: PLC0415  # as above

    from lifecycle.store.lost_records import refuse_lost  # noqa: PLC0415  # as above
    from runtime.branches import BranchManager  # noqa: PLC0415  # as above

    asyncio.run(refuse_lost(database, BranchManager(repo).agents))


def _read(
    database: Path, options: Namespace, states: frozenset[str], *, runs: bool
) -> list[Columns]:
    """Return the lifecycles that match, and one more if there is a next page."""
    read = {each for word in states for each in RECORD_STATES[word]}
    read = read or set(EVERY if options.all else OPEN)

    def fits(columns: Columns) -> bool:
        word = word_in(columns, runs=runs)
        return word in states if states else options.all or word not in OVER

    after = _instant("--created-after", options.created_after)
    until = _instant("--created-before", options.created_before)
    found: list[Columns] = []
    before, many = options.cursor, options.limit + 1
    while len(found) <= options.limit:
        rows = read_rows(
            database,
            states=sorted(read),
            tags=options.tag,
            created_after=after,
            created_before=until,
            current=not options.all,
            before=before,
            limit=many,
        )
        found += filter(fits, rows)
        if len(rows) < many:
            break
        before, many = rows[-1]["cursor"], MAX_PAGE
    return found[: options.limit + 1]


def _print_table(
    found: list[Columns], rows: list[LifecycleRow], present: float, *, filtered: bool
) -> None:
    if not rows:
        say(
            "No lifecycle matches; try `loopwright ps --all`."
            if filtered
            else 'Nothing is under way here. Start with: loopwright run "TEXT"  '
            "(or see `loopwright ps --all`)"
        )
        return
    lines = blocks(
        tuple(CELLS),
        [
            [cell(row, columns, present) for cell in CELLS.values()]
            for row, columns in zip(rows, found, strict=True)
        ],
        width=terminal_width(sys.stdout, os.environ),
    )
    if coloured(sys.stdout, os.environ):
        lines[0] = paint(lines[0], "bold", wanted=True)
        for at, row in enumerate(rows, 1):
            lines[at] = _painted(lines[at], meant(row["state"]))
    say("\n".join(lines))


def _is_filtered(options: Namespace) -> bool:
    asked = (options.state, options.tag, options.created_after, options.created_before)
    return any(map(bool, asked))


def _attempt(row: LifecycleRow) -> int:
    """Return the attempt under way, else the latest; the record counts on to the next one."""
    return row["attempt"] if is_under_way(row["work_state"]) else row["attempts"]


CELLS: dict[str, Callable[[LifecycleRow, Columns, float], str]] = {
    "AGENT": lambda row, _columns, _present: row["agent_id"],
    "TASK": lambda row, _columns, _present: row["task_id"],
    "STATE": lambda row, _columns, _present: meant(row["state"]),
    "ATTEMPT": lambda row, _columns, _present: str(_attempt(row)),
    "RETRIES": lambda row, _columns, _present: str(row["retry_count"]),
    "SINCE": lambda row, _columns, present: span(present - row["since"]),
    "WAITING FOR": lambda row, columns, _present: (
        row["waiting_for"] or ended_with(row["work_state"], columns["work"])
    ),
}
"""The columns of the table."""


def _painted(line: str, state: str) -> str:
    colour = COLOURS.get(state, "")
    return line.replace(f" {state} ", f" {paint(state, colour, wanted=True)} ", 1)


def _warn_of_no_runner(rows: list[LifecycleRow]) -> None:
    running = sum(
        row["state"] == QUEUED or (row["state"] == STOPPED and row["work_state"] != "Suspended")
        for row in rows
    )
    if running:
        these = "This lifecycle does" if running == 1 else f"These {running} lifecycles do"
        tell(
            f"No runner is alive here. {these} not move until one is: "
            "`loopwright up` continues all of them."
        )
