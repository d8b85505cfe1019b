"""How is measured: product and floor in turns within one run, medians, ratio of medians.

A shared machine is noisy, so no absolute time decides (but where the promise is one); a miss is
measured again, and the table says how often.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import sys
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

BURST = 15
"""Samples taken of one side before the other has its turn."""
TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table."""

    what: str
    against: str
    """The floor or peer; empty where the promise is an absolute figure."""
    ours: str
    floor: str = ""
    ratio: float | None = None
    reach: str
    ok: bool
    badness: float
    """How near to a miss: 1.0 is just reached, more is a miss. Chooses the best of several runs."""
    samples: int
    tries: int = 1
    note: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """How much is measured."""

    quick: bool

    def rounds(self, samples: int = 120) -> int:
        """Return how many bursts of each side give at least so many samples."""
        return 2 if self.quick else -(-samples // BURST)


def spread(values: list[float], scale: float = 1000.0, unit: str = "ms") -> str:
    """Show the median and the quartiles."""
    if len(values) < 2:
        return f"{values[0] * scale:.3g} {unit}" if values else "-"
    low, middle, high = (each * scale for each in statistics.quantiles(values, n=4))
    return f"{_short(middle)} ({_short(low)}-{_short(high)}) {unit}"


def _short(value: float) -> str:
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


async def in_turns(
    ours: Callable[[], Awaitable[list[float]]],
    floor: Callable[[], Awaitable[list[float]]],
    rounds: int,
) -> tuple[list[float], list[float]]:
    """Take bursts of both sides in turns, the order changing from round to round."""
    mine: list[float] = []
    theirs: list[float] = []
    for number in range(rounds):
        if number % 2:
            theirs += await floor()
            mine += await ours()
        else:
            mine += await ours()
            theirs += await floor()
    return mine, theirs


async def burst(one: Callable[[], Awaitable[object]]) -> list[float]:
    """Take the time of one thing, done so often in a row."""
    times = []
    for _ in range(BURST):
        began = time.perf_counter()
        await one()
        times.append(time.perf_counter() - began)
    return times


async def compared(  # noqa: PLR0913  # all but the two sides by name
    ours: Callable[[], Awaitable[list[float]]],
    floor: Callable[[], Awaitable[list[float]]],
    rounds: int,
    *,
    what: str,
    against: str,
    at_most: float,
    note: str = "",
) -> Row:
    """Return the line of two series of times, the best of several runs."""

    async def attempt() -> Row:
        mine, theirs = await in_turns(ours, floor, rounds)
        ratio = statistics.median(mine) / statistics.median(theirs)
        return Row(
            what=what,
            against=against,
            ours=spread(mine),
            floor=spread(theirs),
            ratio=ratio,
            reach=f"<= {at_most:g}x",
            ok=ratio <= at_most,
            badness=ratio / at_most,
            samples=min(len(mine), len(theirs)),
            note=note,
        )

    return await best(attempt)


def pages_compared(  # noqa: PLR0913  # all by name
    *,
    what: str,
    against: str,
    mine: list[float],
    theirs: list[float],
    at_most: float,
    reach: str,
    within: float,
) -> Row:
    """Return the line of the times of pages: their p95, and a limit in seconds for ours."""
    p95, floor = part(mine, 0.95), part(theirs, 0.95)
    badness = max(p95 / floor / at_most, p95 / within)
    return Row(
        what=f"{what}, p95",
        against=against,
        ours=f"{p95 * 1000:.2f} ms",
        floor=f"{floor * 1000:.2f} ms",
        ratio=p95 / floor,
        reach=reach,
        ok=badness <= 1,
        badness=badness,
        samples=len(mine),
    )


def limited(  # noqa: PLR0913  # all by name
    *, what: str, ours: str, value: float, at_most: float, reach: str, samples: int, note: str = ""
) -> Row:
    """Return the line of one figure that is promised by itself."""
    return Row(
        what=what,
        against="",
        ours=ours,
        reach=reach,
        ok=value <= at_most,
        badness=value / at_most,
        samples=samples,
        note=note,
    )


def part(values: list[float], share: float) -> float:
    """Return the value below which so large a share of them is."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def cpu() -> float:
    """Return the processor seconds that this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def best(attempt: Callable[[], Awaitable[Row]]) -> Row:
    """Measure again on a miss; return the best run, with the number of tries."""
    found: Row | None = None
    for tries in range(1, TRIES + 1):
        row = await attempt()
        found = row if found is None or row.badness < found.badness else found
        found = replace(found, tries=tries)
        if found.ok:
            break
    if found is None:
        raise RuntimeError("nothing was measured")
    return found


def script(measure: Callable[[Options], Awaitable[list[Row]]]) -> None:
    """Run one measuring script by itself; its rows go to standard output as JSON."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--quick", action="store_true", help="few samples: does it run at all?")
    rows = asyncio.run(_measured(measure, Options(parser.parse_args().quick)))
    json.dump([asdict(row) for row in rows], sys.stdout, indent=1)
    sys.stdout.write("\n")


async def _measured(
    measure: Callable[[Options], Awaitable[list[Row]]], options: Options
) -> list[Row]:
    return await measure(options)


def row_of(data: dict[str, Any]) -> Row:
    """Return a row that a script printed."""
    return Row(**data)


def table(rows: list[Row]) -> str:
    """Return the rows as a Markdown table that is read well as plain text too."""
    head = ("what", "floor or peer", "ours", "floor", "ratio", "reach", "n", "tries", "ok")
    lines = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    shown = [
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    ]
    shown.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    notes = [f"- {row.what}: {row.note}" for row in rows if row.note]
    return "\n".join([*shown, "", *notes]).rstrip() + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return (
        row.what, row.against, row.ours, row.floor, ratio, row.reach,
        str(row.samples), str(row.tries), "yes" if row.ok else "NO",
    )  # fmt: skip
