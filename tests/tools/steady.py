"""Runs the suite many times in random order, some of them beside a busy neighbour: `make steady`.

Prints one row for each run once it is over, and ends with 1 after the first in which anything
failed; `--keep-going` makes the others, too. The log of each run stays in `.steady/`. Must not
retry anything: a test that fails once in ten runs is to be fixed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / ".steady"
ROW = "{:>4} {:>11} {:>10} {:>7} {:>7} {:>8}  {}"
SPIN = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): sum(range(100_000))"
"""A process that uses all of one core, until its parent is gone."""
BROKEN = "pytest ended with {}: see the log"


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of the suite came to."""

    passed: int
    failed: tuple[str, ...]
    seconds: float


@contextlib.contextmanager
def busy_neighbour() -> Iterator[None]:
    """Load every core with a process that spins."""
    command = [sys.executable, "-c", SPIN, str(os.getpid())]
    spinning = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for each in spinning:
            each.kill()
            each.wait()


def with_neighbour(runs: int, busy: int) -> list[bool]:
    """Spread the busy runs evenly over all of them."""
    return [(nth + 1) * busy // runs > nth * busy // runs for nth in range(runs)]


def suite(seed: int, log: Path, args: Sequence[str]) -> Run:
    """Run the tests once in the order of the seed."""
    report = log.with_suffix(".xml")
    own = [f"--randomly-seed={seed}", f"--junitxml={report}", "-q"]
    began = time.monotonic()
    with log.open("wb") as into:
        command = [sys.executable, "-m", "pytest", *own, *args]
        code = subprocess.run(command, cwd=ROOT, stdout=into, stderr=into, check=False).returncode
    seconds = time.monotonic() - began
    passed, failed = told(report) if report.exists() else (0, ())
    report.unlink(missing_ok=True)
    if code and not failed:
        failed = (BROKEN.format(code),)
    return Run(passed, failed, seconds)


def told(report: Path) -> tuple[int, tuple[str, ...]]:
    """Read how many tests passed, and the names of those that did not."""
    cases = list(ET.parse(report).getroot().iter("testcase"))  # noqa: S314  # pytest wrote it
    failed = {
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    }
    skipped = sum(case.find("skipped") is not None for case in cases)
    return len(cases) - skipped - len(failed), tuple(sorted(failed))


def main(argv: Sequence[str] | None = None) -> int:
    """Run them until one fails, or all; 1 if any test failed in any run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--busy", type=int, help="runs beside a busy neighbour (default: 3 of 10)")
    parser.add_argument("--keep-going", action="store_true", help="go on after a failure")
    parser.add_argument("--seed", type=int, help="of the first run; the next ones follow")
    options, args = parser.parse_known_args(argv)
    busy = -(-options.runs * 3 // 10) if options.busy is None else options.busy
    first = random.SystemRandom().randrange(10**9) if options.seed is None else options.seed
    LOGS.mkdir(exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started ends too
    say("run", "seed", "neighbour", "passed", "failed", "seconds", "failures")
    done = bad = 0
    for nth, beside in enumerate(with_neighbour(options.runs, busy)):
        log = LOGS / f"{nth + 1:02}-{first + nth}.log"
        with busy_neighbour() if beside else contextlib.nullcontext():
            run = suite(first + nth, log, args)
        done, bad = nth + 1, bad + bool(run.failed)
        kind, seconds = "busy" if beside else "quiet", f"{run.seconds:.1f}"
        names = iter(run.failed or ("",))
        say(nth + 1, first + nth, kind, run.passed, len(run.failed), seconds, next(names))
        for name in names:
            say("", "", "", "", "", "", name)
        if bad and not options.keep_going:
            break
    print(f"{done} of {options.runs} runs, {bad} with failures; logs in {LOGS.name}/")  # noqa: T201  # a table
    return 1 if bad else 0


def say(*cells: object) -> None:
    """Print one row of the table at once."""
    print(ROW.format(*cells).rstrip(), flush=True)  # noqa: T201  # a table


if __name__ == "__main__":
    sys.exit(main())
