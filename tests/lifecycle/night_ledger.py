"""Whether ledger and books tell of each attempt what the diary does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lifecycle.record import AttemptRow, Spending
    from tests.lifecycle.night import Kept
    from tests.lifecycle.night_turns import Turn, Turns

CENT = 1e-5
"""Dollars by which sums may differ."""


def faults_of(kept: Kept, turns: Turns, agent_id: str) -> Iterator[tuple[float, str]]:
    """Return what of an agent's attempts is not written down as it was, and of when it is."""
    rows = {row.attempt: row for row in kept.attempts}
    books = {each.attempt: each for each in kept.spendings}
    for turn in turns.of.get(agent_id, []):
        at, number = turn.last.ended or 0.0, turn.attempt
        row, spending = rows.pop(number, None), books.pop(number, None)
        if row is None or spending is None:
            yield at, f"attempt {number} is not in the {'ledger' if row is None else 'books'}"
            continue
        for text in (*_row_faults(turns, turn, row), *_book_faults(turns, turn, spending)):
            yield at, f"attempt {number}: {text}"
    for number in sorted({*rows, *books}):
        yield 0.0, f"attempt {number} was written down and never was"


def _book_faults(turns: Turns, turn: Turn, spending: Spending) -> list[str]:
    found = []
    torn = any(turns.is_torn(ran) for ran in turn.runs)
    noted = [ran for ran in turn.runs if turns.was_noted(ran)]
    tokens = sum(ran.tokens for ran in noted)
    if spending.tokens != tokens:
        found.append(f"{spending.tokens} tokens are booked, {tokens} were reported")
    costs = [ran.cost for ran in noted if ran.cost is not None]
    missed = abs((spending.cost_usd or 0.0) - sum(costs)) > CENT
    if missed or (not torn and (spending.cost_usd is None) != (not costs)):
        found.append(f"cost {spending.cost_usd} is booked, {costs} was reported")
    seconds = sum(turns.seen_at(ran) - ran.began for ran in noted)
    if not torn and abs(spending.seconds - seconds) > 1.0:
        found.append(f"{spending.seconds:.0f} s are booked, it took {seconds:.0f} s")
    if not torn and spending.program != (turn.last.program or "command"):
        found.append(f"booked as {spending.program}, it was {turn.last.program}")
    return found


def _row_faults(turns: Turns, turn: Turn, row: AttemptRow) -> list[str]:
    found = []
    kind, torn = turn.kinds[-1], turns.is_torn(turn.last)
    if row.outcome != kind:
        found.append(f"the ledger says {row.outcome!r}, it was {kind!r}")
    if not torn and row.program != turn.last.program:
        found.append(f"the ledger says that {row.program!r} did it, not {turn.last.program!r}")
    talks = ("task_complete", "blocked", "question", "pr_created")
    if kind not in talks and not row.error:
        found.append(f"the ledger does not explain {kind}")
    if not torn and turn.last.program and row.report is None:
        found.append("what its program told is not in the ledger")
    if row.ended_at is None:
        found.append("the ledger does not know its end")
    return found
