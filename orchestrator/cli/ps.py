"""`loopwright ps`: the lifecycles of a repository, read straight from the database file."""

from __future__ import annotations

import os
import sys

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
    coloured,
    now,
    paint,
    say,
    span,
    state_name,
    table,
    tell,
    terminal_width,
    to_json,
)
from orchestrator.waiting import A_PLACE, UNREADABLE, since, waiting_for

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path
    from typing import Any

COARSE = ("queued", "running", "completed", "rejected", "accepted")
OPEN = ("queued", "running", "completed", "rejected")
"""What a person may still have to do something about; of the rejected, what gave up by itself."""
WORK = {
    "queued": ("Queued",),
    "preparing": ("Preparing",),
    "spawning": ("Spawning",),
    "working": ("Working",),
    "stopping": ("Stopping",),
    "capturing": ("Capturing",),
    "verifying": ("Verifying",),
    "blocked": ("Blocked",),
    "pr_pending": ("PrPending",),
    "backing_off": ("BackingOff",),
    "awaiting_human": ("AwaitingHuman",),
    "suspended": ("Suspended",),
}
"""Work states one may ask for, beside the five coarse ones."""
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
        example="loopwright ps\nloopwright ps --state blocked --json",
        more="Without --all and --state, what was accepted or rejected by a person is left out.",
    )
    made.add_argument("--all", action="store_true", help="also those that are over")
    made.add_argument(
        "--state",
        action="append",
        default=[],
        choices=(*COARSE, *(each for each in WORK if each not in COARSE)),
        metavar="STATE",
        help=f"only these: {', '.join(COARSE)}, or a work state such as blocked; may be repeated",
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
    folder = find_repo(options.repo) / STATE_FOLDER
    database = folder / "state.db"
    rows = _rows(database, options) if database.exists() else []
    more = rows[options.limit - 1]["cursor"] if len(rows) > options.limit else None
    rows = rows[: options.limit]
    if options.ids:
        for row in rows:
            say(row["agent_id"])
    elif options.json:
        _print_json(folder, rows, more)
    else:
        _print_table(folder, rows, more, filtered=bool(options.state or options.tag))
    return 0


def _rows(database: Path, options: Namespace) -> list[dict[str, Any]]:
    kinds = {kind for state in options.state for kind in WORK.get(state, ())}
    states = tuple(state for state in options.state if state in COARSE)
    if kinds and not (kinds == {"Queued"} and states == ("queued",)):
        states = (*states, "queued", "running")
    if not states:
        states = COARSE if options.all else OPEN
    wanted = {each for each in options.state if each in COARSE}

    def fits(row: dict[str, Any]) -> bool:
        if not options.state:
            return options.all or not _rejected_by_a_person(row)
        return row["coarse"] in wanted or row["work_kind"] in kinds

    from lifecycle.store.peek import read_rows  # noqa: PLC0415  # not for --help

    found: list[dict[str, Any]] = []
    before, many = options.cursor, options.limit + 1
    while len(found) <= options.limit:
        rows = read_rows(database, states=states, tags=options.tag, before=before, limit=many)
        found += [row for row in rows if fits(row)]
        if len(rows) < many:
            break
        before, many = rows[-1]["cursor"], MAX_PAGE
    return found[: options.limit + 1]


def _print_json(folder: Path, rows: list[dict[str, Any]], more: int | None) -> None:
    present, runner = now(), _runner(folder)
    shown = [
        {
            **{field: row[field] for field in _FIELDS},
            "state": row["coarse"],
            "work_state": row["work_kind"],
            "since": since(row["work"], row["updated_at"]),
            "waiting_for": _waits(row, present, runner),
        }
        for row in rows
    ]
    say(to_json({"lifecycles": shown, "next_cursor": more, "runner": runner}))


def _print_table(
    folder: Path, rows: list[dict[str, Any]], more: int | None, *, filtered: bool
) -> None:
    if not rows:
        say(
            "No lifecycle fits; try `loopwright ps --all`."
            if filtered
            else 'Nothing is under way here. Start with: loopwright run "TEXT"  '
            "(or see `loopwright ps --all`)"
        )
        return
    present, runner = now(), _runner(folder)
    lines = table(
        HEADS,
        [
            (
                row["agent_id"],
                row["task_id"],
                "damaged" if row["damaged"] else state_name(row["work_kind"]) or row["coarse"],
                str(_attempt(row)),
                str(row["retry_count"]),
                span(present - since(row["work"], row["updated_at"])),
                _waits(row, present, runner) or _ended(row),
            )
            for row in rows
        ],
        width=terminal_width(sys.stdout, os.environ),
    ).split("\n")
    if coloured(sys.stdout, os.environ):
        lines[0] = paint(lines[0], "bold", wanted=True)
        for at, row in enumerate(rows, 1):
            lines[at] = _painted(lines[at], row["work_kind"])
    say("\n".join(lines))
    if more is not None:
        tell(f"There are more: add --cursor {more}")
    if runner is None:
        _warn_of_no_runner(rows)


def _attempt(row: dict[str, Any]) -> int:
    """Return the attempt under way, else the latest; the record counts on to the next one."""
    under_way = row["work_kind"] in UNDER_WAY
    return int(row["attempt"] if under_way else row["spawn_count"])


def _waits(row: dict[str, Any], present: float, runner: dict[str, Any] | None) -> str:
    if row["damaged"]:
        return UNREADABLE
    text = waiting_for(row["work_kind"], row["work"], present, span)
    return "a runner" if text == A_PLACE and runner is None else text


def _ended(row: dict[str, Any]) -> str:
    """Say why it was given up; a person who rejected it knows."""
    given_up = row["work_kind"] == "Rejected" and not _rejected_by_a_person(row)
    return f"given up: {row['error'] or row['work'].get('text', '')}" if given_up else ""


def _rejected_by_a_person(row: dict[str, Any]) -> bool:
    return (row["work"] or {}).get("reason") == "person"


def _painted(line: str, kind: str) -> str:
    name = state_name(kind)
    colour = STATE_COLOURS.get(kind, "")
    return line.replace(f" {name} ", f" {paint(name, colour, wanted=True)} ", 1)


def _warn_of_no_runner(rows: list[dict[str, Any]]) -> None:
    running = sum(row["coarse"] in ("queued", "running") and not row["damaged"] for row in rows)
    if running:
        these = "This lifecycle does" if running == 1 else f"These {running} lifecycles do"
        tell(
            f"No runner is alive here. {these} not move until one is: "
            "`loopwright up` goes on with all of them."
        )


def _runner(folder: Path) -> dict[str, Any] | None:
    from lifecycle.store.lock import holder  # noqa: PLC0415  # not for --help

    return holder(folder)
