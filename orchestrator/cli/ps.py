"""`loopwright ps`: the lifecycles of a repository, read straight from the database file."""

from __future__ import annotations

import os
import sys

from lifecycle.state_words import (
    ACCEPTED,
    NEEDS_YOU,
    QUEUED,
    RECORD_STATES,
    REJECTED,
    STOPPED,
    meant,
    spelled,
    word_of,
)
from orchestrator.cli.options import (
    STATE_FOLDER,
    Parser,
    UsageError,
    count,
    find_repo,
    positive,
)
from orchestrator.cli.text import (
    STATE_COLOURS,
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
from orchestrator.waiting import UNREADABLE, ended_with, since, waiting_for

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path
    from typing import Any

OVER = (ACCEPTED, REJECTED)
"""What nobody has to do anything about any more."""
EVERY = ("queued", "running", "completed", "rejected", "accepted")
"""The five states of records, by which they are read."""
OPEN = ("queued", "running", "completed", "rejected")
UNDER_WAY = ("Preparing", "Spawning", "Working", "Stopping", "Capturing", "Verifying")
HEADS = ("AGENT", "TASK", "STATE", "ATTEMPT", "RETRIES", "SINCE", "WAITING FOR")
PAGE = 50
MAX_PAGE = 1000
"""As many as a listing of the store gives at once."""
_FIELDS = (
    *("agent_id", "task_id", "task", "attempt", "retry_count", "spawn_count"),
    *("created_at", "updated_at", "tags", "error", "cursor", "damaged"),
)


def parser(name: str) -> Parser:
    """Return the options."""
    made = Parser(
        name,
        "List the lifecycles of a repository, the newest first.",
        example="loopwright ps\nloopwright ps --state needs-you --json",
        more=f"States: {', '.join(RECORD_STATES)}.\nWithout --all and --state, what was accepted, "
        "or rejected by a person, is left out.",
    )
    made.add_argument("--all", action="store_true", help="also those that are over")
    made.add_argument(
        "--state",
        action="append",
        default=[],
        type=_state,
        choices=[spelled(word) for word in RECORD_STATES],
        metavar="STATE",
        help="only these, such as needs-you or 'given up'; may be repeated",
    )
    made.add_argument("--tag", action="append", default=[], help="only with this tag; may repeat")
    made.add_argument("--limit", type=positive, default=PAGE, help=f"at most so many ({PAGE})")
    made.add_argument("--cursor", type=count, help="go on after an earlier page")
    made.add_argument("--ids", action="store_true", help="print agent ids only")
    return made.with_json().with_repo()


def run(name: str, args: list[str]) -> int:
    """List."""
    options = parser(name).parse_args(args)
    if options.limit > MAX_PAGE:
        raise UsageError(f"--limit {options.limit} is too much for one page; at most {MAX_PAGE}")
    states = frozenset(map(meant, options.state))
    repo = find_repo(options.repo)
    folder = repo / STATE_FOLDER
    database, runner = folder / "state.db", _runner(folder)
    found = database.exists()
    if not found or not database.stat().st_size:
        _refuse_lost(repo, database)
    rows = _rows(database, options, states, runs=bool(runner)) if found else []
    more = rows[options.limit - 1]["cursor"] if len(rows) > options.limit else None
    rows = rows[: options.limit]
    if options.ids:
        for row in rows:
            say(row["agent_id"])
    elif options.json:
        _print_json(rows, more, runner)
    else:
        _print_table(rows, more, runner, filtered=bool(states or options.tag))
    return 0


def _state(given: str) -> str:
    return spelled(meant(given)) or given


def _refuse_lost(repo: Path, database: Path) -> None:
    """Tell apart where no loop ran yet and where its records are lost."""
    from runtime.proctable import MARK_VARIABLE  # noqa: PLC0415  # rarely there is no database

    if os.environ.get(MARK_VARIABLE):
        return  # an agent may not see them
    import asyncio  # noqa: PLC0415  # as above

    from lifecycle.store.lost import refuse_lost  # noqa: PLC0415  # as above
    from runtime.branches import BranchManager  # noqa: PLC0415  # as above

    asyncio.run(refuse_lost(database, BranchManager(repo)))


def _rows(
    database: Path, options: Namespace, states: frozenset[str], *, runs: bool
) -> list[dict[str, Any]]:
    """Return the rows that fit, and their words for the state with them."""
    read = {each for word in states for each in RECORD_STATES[word]}
    read = read or set(EVERY if options.all else OPEN)

    def fits(row: dict[str, Any]) -> bool:
        row["state"] = _word(row, runs=runs)
        return row["state"] in states if states else options.all or row["state"] not in OVER

    from lifecycle.store.peek import read_rows  # noqa: PLC0415  # not for --help

    found: list[dict[str, Any]] = []
    before, many = options.cursor, options.limit + 1
    while len(found) <= options.limit:
        rows = read_rows(database, states=sorted(read), tags=options.tag, before=before, limit=many)
        found += [row for row in rows if fits(row)]
        if len(rows) < many:
            break
        before, many = rows[-1]["cursor"], MAX_PAGE
    return found[: options.limit + 1]


def _word(row: dict[str, Any], *, runs: bool) -> str:
    if row["damaged"]:
        return NEEDS_YOU
    return word_of(row["work_kind"], row["work"], row["coarse"], runs=runs)


def _print_json(
    rows: list[dict[str, Any]], more: int | None, runner: dict[str, Any] | None
) -> None:
    present = now()
    shown = [
        {
            **{field: row[field] for field in _FIELDS},
            "state": spelled(row["state"]),
            "record_state": row["coarse"],
            "work_state": row["work_kind"],
            "since": since(row["work"], row["updated_at"]),
            "waiting_for": _waits(row, present, runs=runner is not None),
        }
        for row in rows
    ]
    say(to_json({"lifecycles": shown, "next_cursor": more, "runner": runner}))


def _print_table(
    rows: list[dict[str, Any]], more: int | None, runner: dict[str, Any] | None, *, filtered: bool
) -> None:
    if not rows:
        say(
            "No lifecycle fits; try `loopwright ps --all`."
            if filtered
            else 'Nothing is under way here. Start with: loopwright run "TEXT"  '
            "(or see `loopwright ps --all`)"
        )
        return
    present, runs = now(), runner is not None
    lines = blocks(
        HEADS,
        [
            (
                row["agent_id"],
                row["task_id"],
                row["state"],
                str(_attempt(row)),
                str(row["retry_count"]),
                span(present - since(row["work"], row["updated_at"])),
                _waits(row, present, runs=runs) or ended_with(row["work_kind"], row["work"]),
            )
            for row in rows
        ],
        width=terminal_width(sys.stdout, os.environ),
    )
    if coloured(sys.stdout, os.environ):
        lines[0] = paint(lines[0], "bold", wanted=True)
        for at, row in enumerate(rows, 1):
            lines[at] = _painted(lines[at], row["state"])
    say("\n".join(lines))
    if more is not None:
        tell(f"There are more: add --cursor {more}")
    if runner is None:
        _warn_of_no_runner(rows)


def _attempt(row: dict[str, Any]) -> int:
    """Return the attempt under way, else the latest; the record counts on to the next one."""
    under_way = row["work_kind"] in UNDER_WAY
    return int(row["attempt"] if under_way else row["spawn_count"])


def _waits(row: dict[str, Any], present: float, *, runs: bool) -> str:
    if row["damaged"]:
        return UNREADABLE
    return waiting_for(row["work_kind"], row["work"], present, span, runs=runs)


def _painted(line: str, state: str) -> str:
    colour = STATE_COLOURS.get(state, "")
    return line.replace(f" {state} ", f" {paint(state, colour, wanted=True)} ", 1)


def _warn_of_no_runner(rows: list[dict[str, Any]]) -> None:
    running = sum(
        row["state"] == QUEUED or (row["state"] == STOPPED and row["work_kind"] != "Suspended")
        for row in rows
    )
    if running:
        these = "This lifecycle does" if running == 1 else f"These {running} lifecycles do"
        tell(
            f"No runner is alive here. {these} not move until one is: "
            "`loopwright up` goes on with all of them."
        )


def _runner(folder: Path) -> dict[str, Any] | None:
    from lifecycle.store.lock import holder  # noqa: PLC0415  # not for --help

    return holder(folder)
