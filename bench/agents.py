"""Agent programs: reading what they print, beside them and afterwards, and starting real ones."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench import agents_attempt, agents_stream
from bench.measure import Options, Row, best, limited, script, spread
from bench.transcripts import PROGRAMS, recorded, write
from bench.world import World, world

if TYPE_CHECKING:
    from pathlib import Path

MEGABYTE = 1_000_000
SIZE = 100 * MEGABYTE
READINGS = 5
SPEED_AT_LEAST = 100.0
MEMORY_AT_MOST = 16.0


@dataclass(frozen=True, slots=True)
class Reading:
    """What a process found that read a transcript."""

    speeds: list[float]
    """Megabytes a second of one core."""
    more: float
    """Mebibytes that reading took, at most, over a process in which all is loaded."""
    whole: float
    """Mebibytes of the whole process, at most."""


async def _reading(program: str, path: Path, *options: str, times: int) -> Reading:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.transcripts", program, str(path), str(times), *options),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"the transcript of {program} could not be read, see above")
    told = json.loads(out)
    speeds = [told["bytes"] / MEGABYTE / each for each in told["seconds"]]
    return Reading(speeds, told["more"] / 2**20, told["whole"] / 2**20)


async def _parsing(made: World, options: Options) -> list[Row]:
    size = SIZE // 10 if options.quick else SIZE
    times = 2 if options.quick else READINGS
    rows = []
    readings: list[Reading] = []
    for program in PROGRAMS:
        run = recorded(program)
        unneeded, whole, long = (made.fresh("transcript") for _ in range(3))
        for path, lines in ((unneeded, run.unneeded), (whole, run.body), (long, run.long)):
            write(path, run, lines, size)
        mixed = await _reading(program, whole, times=times)
        along = await _reading(program, whole, "--along", times=times)
        rows.append(await _speed(program, unneeded, times, readings, (mixed, along)))
        readings += (mixed, along)
        for along_too in ((), ("--along",)):
            readings.append(await _reading(program, long, *along_too, times=1))
        for each in (unneeded, whole, long):
            each.unlink()
    return [*rows, _memory(readings, size)]


async def _speed(
    program: str, path: Path, times: int, readings: list[Reading], others: tuple[Reading, Reading]
) -> Row:
    async def attempt() -> Row:
        found = await _reading(program, path, times=times)
        readings.append(found)
        median = statistics.median(found.speeds)
        mixed, along = (statistics.median(each.speeds) for each in others)
        return Row(
            what=f"parse a transcript of {program}, lines the outcome does not need, per core",
            against="",
            ours=f"{spread(found.speeds, 1, 'MB/s')}; all kinds {mixed:.0f}, beside it {along:.0f}",
            reach=f">= {SPEED_AT_LEAST:.0f} MB/s",
            ok=median >= SPEED_AT_LEAST,
            badness=SPEED_AT_LEAST / median,
            samples=times,
        )

    return await best(attempt)


def _memory(readings: list[Reading], size: int) -> Row:
    more, whole = max(each.more for each in readings), max(each.whole for each in readings)
    return limited(
        what=f"memory that parsing {size // MEGABYTE} MB takes, the most of the four",
        ours=f"{more:.1f} MiB (whole process {whole:.0f} MiB)",
        value=more,
        at_most=MEMORY_AT_MOST,
        reach=f"<= {MEMORY_AT_MOST:.0f} MiB",
        samples=len(readings),
    )


async def measure(options: Options) -> list[Row]:
    """Measure all three."""
    with world() as made:
        return [
            *await _parsing(made, options),
            *await agents_stream.measure(made, options),
            *await agents_attempt.measure(made, options),
        ]


if __name__ == "__main__":
    script(measure)
