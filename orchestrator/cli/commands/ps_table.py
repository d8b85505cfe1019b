"""What `loopwright ps` prints: lifecycles, read straight from the database file.

Imports nothing heavy.
"""

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
    is_under_way,
    meant,
    needs_of,
)
from lifecycle.store.lock import holder
from lifecycle.store.plain_queries import read_documents, read_rows, read_silent_workers
from orchestrator.terminal.options import STATE_FOLDER
from orchestrator.terminal.text import (
    blocks,
    coloured,
    now,
    one_line,
    paint,
    say,
    span,
    tell,
    terminal_width,
    to_json,
)
from orchestrator.wording.lifecycle_row import row_of, word_in
from orchestrator.wording.states import COLOURS, ended_with
from orchestrator.wording.workers import UNPLACED, unplaced_in, worker_in

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from orchestrator.wording.lifecycle_row import Columns, LifecycleRow

    Cell = Callable[[LifecycleRow, Columns, float], str]

OVER = (ACCEPTED, REJECTED)
"""What is over: nothing is left to do."""
EVERY = ("queued", "running", "completed", "rejected", "accepted")
"""The five states of records, by which they are read."""
MOST_AT_ONCE = 1000
"""Rows of one reading."""
OPEN = ("queued", "running", "completed", "rejected")


def show(repo: Path, options: Namespace) -> int:
    """Print once."""
    found, rows, more, runner = listing(repo, options)
    if options.ids:
        for row in rows:
            say(row["agent_id"])
        return 0
    if options.json:
        say(to_json({"lifecycles": rows, "next_cursor": more, "runner": runner}))
        return 0
    width = terminal_width(sys.stdout, os.environ)
    wanted = coloured(sys.stdout, os.environ)
    say("\n".join(table_lines(found, rows, options, width, wanted=wanted)))
    if more is not None:
        tell(f"There are more: add --cursor {more}")
    if runner is None:
        _warn_of_no_runner(rows)
    elif "log" in runner:
        _tell_of_background(runner)
    if options.needs_me and rows:
        tell("Next: loopwright review   (shows one after the other, with what speaks for it)")
    return 0


def listing(
    repo: Path, options: Namespace
) -> tuple[list[Columns], list[LifecycleRow], int | None, dict[str, Any] | None]:
    """Return columns, rows, the cursor of what follows, and the runner."""
    folder = repo / STATE_FOLDER
    database, runner = folder / "state.db", holder(folder)
    is_there = database.exists()
    if not is_there or not database.stat().st_size:
        from orchestrator.control.lost_records import refuse_lost_to_people  # noqa: PLC0415  # rarely there are none

        refuse_lost_to_people(repo)
    runs = runner is not None
    alone = _Stuck(repo)
    found = _read(database, options, alone, runs=runs) if is_there else []
    more = found[options.limit - 1]["cursor"] if len(found) > options.limit else None
    found = found[: options.limit]
    present = now()
    waits = any(each["work_kind"] in {"Blocked", "PrPending"} for each in found)
    troubles = _troubles(database) if runs and waits else {}
    elsewhere = any(worker_in(each["facts"]) for each in found)
    silent = read_silent_workers(database, present) if elsewhere else {}
    unplaced = read_documents(database, UNPLACED) if runs else {}
    rows = [
        row_of(
            each,
            present,
            runs=runs,
            stuck=options.needs_me and each in alone,
            trouble=troubles.get(each["agent_id"], ""),
            silent=silent,
            unplaced=unplaced_in(unplaced, each["agent_id"]),
        )
        for each in found
    ]
    return found, rows, more, runner


def _troubles(database: Path) -> dict[str, str]:
    """Return by agent what is wrong at the forge that it waits for, as its runner noted it."""
    try:
        noted = read_documents(database, "ci.waits")
    except ValueError:
        return {}  # a damaged note; doctor and the runner say so
    return {key: str(body.get("text", "")) for key, body in noted.items() if body.get("trouble")}


class _Stuck:
    """Which agents are blocked on what nobody but a person can bring; looked up if asked for."""

    def __init__(self, repo: Path) -> None:
        self._repo = repo
        self._agents: frozenset[str] | None = None

    def __contains__(self, columns: Columns) -> bool:
        if columns["work_kind"] != "Blocked" or columns["damaged"]:
            return False
        if self._agents is None:
            import asyncio  # noqa: PLC0415  # heavy, and rarely anything is blocked

            from orchestrator.cli.review_screen import listed  # noqa: PLC0415  # as above

            waits = asyncio.run(listed(self._repo, []))
            self._agents = frozenset(each.record.agent_id for each in waits)
        return columns["agent_id"] in self._agents


def _instant(option: str, given: str | None) -> float | None:
    if given is None:
        return None
    from orchestrator.control.costs import instant_of  # noqa: PLC0415  # rarely given

    return instant_of(given, now(), option=option)


def _read(database: Path, options: Namespace, alone: _Stuck, *, runs: bool) -> list[Columns]:
    """Return the lifecycles that match, and one more if there is a next page."""
    states = frozenset(map(meant, options.state))
    read = {each for word in states for each in RECORD_STATES[word]}
    read = read or set(EVERY if options.all else OPEN)

    def fits(columns: Columns) -> bool:
        word = word_in(columns, runs=runs)
        if options.needs_me and not (_needs_a_person(columns, word) or columns in alone):
            return False
        if options.worker and worker_in(columns["facts"]) != options.worker:
            return False
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
        before, many = rows[-1]["cursor"], MOST_AT_ONCE
    return found[: options.limit + 1]


def table_lines(  # noqa: PLR0913  # the last by name
    found: list[Columns],
    rows: list[LifecycleRow],
    options: Namespace,
    width: int,
    *,
    wanted: bool,
    doing: Callable[[Columns], str] = lambda _columns: "",
) -> list[str]:
    """Return the table in lines of `width`; `doing` says what working agents do."""
    if not rows:
        return [_nothing(options)]
    present, shown = now(), _columns_for(rows)
    cells = [
        [cell(row, columns, present) for cell in shown.values()]
        for row, columns in zip(rows, found, strict=True)
    ]
    for line, columns in zip(cells, found, strict=True):
        line[-1] = line[-1] or doing(columns)
    lines = blocks(tuple(shown), cells, width=width)
    for at, row in enumerate(rows, 1):
        if wanted:
            lines[at] = _painted(lines[at], meant(row["state"]))
        if options.needs_me:
            lines[at] += "".join(
                f"\n    {paint(command, 'bold', wanted=wanted)}" for command in row["commands"]
            )
    lines[0] = paint(lines[0], "bold", wanted=wanted)
    return lines


def _nothing(options: Namespace) -> str:
    if options.needs_me:
        return "Nothing needs you."
    if _is_filtered(options):
        return "No lifecycle matches; try `loopwright ps --all`."
    return (
        'Nothing is under way here. Start with: loopwright run "TEXT"  '
        "(or see `loopwright ps --all`)"
    )


def _needs_a_person(columns: Columns, word: str) -> bool:
    return word == NEEDS_YOU or bool(needs_of(columns["work_kind"], columns["work"]))


def _is_filtered(options: Namespace) -> bool:
    times = (options.created_after, options.created_before)
    return any(map(bool, (options.state, options.tag, options.worker, *times)))


def _attempt(row: LifecycleRow) -> int:
    """Return the attempt under way, else the latest; the record counts on to the next one."""
    return row["attempt"] if is_under_way(row["work_state"]) else row["attempts"]


CELLS: dict[str, Cell] = {
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
_WORKER = "WORKER"


def _columns_for(rows: list[LifecycleRow]) -> dict[str, Cell]:
    """Return the columns; where workers have any of it, that of the worker too."""
    if not any(row["worker"] for row in rows):
        return CELLS
    shown = dict(CELLS)
    last = shown.popitem()
    return {**shown, _WORKER: lambda row, _columns, _present: row["worker"], **dict([last])}


def _painted(line: str, state: str) -> str:
    colour = COLOURS.get(state, "")
    return line.replace(f" {state} ", f" {paint(state, colour, wanted=True)} ", 1)


def _tell_of_background(runner: dict[str, Any]) -> None:
    """Say what runs the loops where no terminal shows it."""
    served = f", at {runner['url']}" if "url" in runner else ""
    who = f"{runner.get('who', 'a runner')} (pid {runner.get('pid', '?')})"
    tell(f"Run by {who}{served}; its output: {one_line(runner['log'])}")


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
