"""Many lifecycles on three workers, with a fault every few seconds, for as long as is asked for.

    python -m tests.orchestrator.engines.temporal.faults.soak [--minutes 60] [--loops 50]

Prints what came of them, and what each role held at the beginning and at the end. Exit code 1 when
anything was lost, doubled, wrongly charged, left running, or has grown.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.orchestrator.engines.temporal.faults.story import RemoteFleet, Story, alive, fleet_in

WORKERS = ("a", "b", "c")
CALM = 8.0
"""Seconds between two faults, on average."""
LASTS = 4.0
"""Seconds that a fault lasts, at most."""
LOOK = 0.2
SAMPLE_EVERY = 10.0
LONGEST = 900.0
"""Seconds that a lifecycle may take beside so many others."""
GROWTH = 1.3
"""How much more of something a role may hold in the last third than in the first."""
FAULTS: dict[str, tuple[int, tuple[str, ...], tuple[str, ...]]] = {
    "worker killed": (3, ("kill", "W"), ("begin",)),
    "worker and its watchdogs killed": (2, ("kill_all_of", "W"), ("begin",)),
    "worker frozen": (2, ("kill", "W", "SIGSTOP"), ("kill", "W", "SIGCONT")),
    "worker cut off": (2, ("cut", "W"), ("mend", "W")),
    "worker hears nothing": (1, ("cut", "W", "back"), ("mend", "W")),
    "watchdogs killed": (1, ("kill_watchdogs", "W"), ()),
    "coordinator killed": (1, ("kill", "coordinator"), ("begin",)),
    "server killed": (1, ("kill", "server"), ("server",)),
}
"""How often beside the others, how it begins, and how it ends; `W` is a worker."""


@dataclass
class Lifecycle:
    """One that runs."""

    story: Story
    since: float
    fails_at: float
    """When its hanging agent gives up."""


@dataclass
class Books:
    """What is counted."""

    ended: int = 0
    starts: int = 0
    wrong: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    memory: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    handles: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))


class Heard:
    """What the coordinator says, read on as it grows; it begins anew with each coordinator."""

    def __init__(self, file: Path) -> None:
        self._file, self._at = file, 0
        self.ended: dict[str, list[str]] = {}
        self.failed_at: dict[str, float] = {}
        """When it was first decided to try again."""

    def look(self) -> None:
        """Read on."""
        if self._file.stat().st_size < self._at:
            self._at = 0
        with self._file.open("rb") as said:
            said.seek(self._at)
            whole, end, _ = said.read().rpartition(b"\n")
            self._at += len(whole) + len(end)
        for line in whole.decode().splitlines():
            match line.split():
                case ["end", task, *came]:
                    self.ended[task] = came
                case ["state", task, "BackingOff", _, at]:
                    self.failed_at.setdefault(task, float(at))


class Soak:
    """What runs on a fleet, and what happens to it."""

    def __init__(self, fleet: RemoteFleet, drawn: random.Random) -> None:
        self.books = Books()
        self._fleet, self._drawn = fleet, drawn
        self._heard = Heard(fleet.folder / "coordinator.out")
        self._live: dict[str, Lifecycle] = {}
        self._begun = 0
        self._sampled = 0.0

    def play(self, seconds: float, loops: int) -> None:
        """Keep so many going for so long, with faults; then let all of them end."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._wait(self._drawn.expovariate(1 / CALM), loops)
            self._fault(loops)
        self._fleet("begin")
        calm = time.monotonic() + LONGEST
        while self._live and time.monotonic() < calm:
            self._wait(LOOK, 0)
        self.books.wrong += [f"{task} has not ended" for task in self._live]

    def _wait(self, seconds: float, loops: int) -> None:
        """Let it go on; replace what ended."""
        end, once = time.monotonic() + seconds, True
        while once or time.monotonic() < end:
            once = False
            self._heard.look()
            for task in self._live.keys() & self._heard.ended.keys():
                self._check(task, self._live.pop(task).story)
            for task, each in self._live.items():
                self._attend(task, each)
            while len(self._live) < loops:
                self._begin()
            self._sample()
            time.sleep(LOOK)

    def _begin(self) -> None:
        self._begun += 1
        task = f"T{self._begun:05}"
        story = Story(self._fleet, task, hangs=self._drawn.random() < 0.5)
        story.begin()
        now = time.monotonic()
        self._live[task] = Lifecycle(story, now, now + self._drawn.uniform(5.0, 30.0))

    def _attend(self, task: str, each: Lifecycle) -> None:
        now = time.monotonic()
        if now > each.fails_at:
            (each.story.folder / "fail").touch()
        if now - each.since > LONGEST:
            self.books.wrong.append(f"{task} goes on for more than {LONGEST:.0f} s")
            each.since = now

    def _check(self, task: str, story: Story) -> None:
        """Book what came of one."""
        result, retries, *_ = self._heard.ended.pop(task)
        starts, commits = story.starts(), story.commits()
        failures = commits + (story.folder / "fail").exists()
        failed_at = self._heard.failed_at.pop(task, float("inf"))
        wrong = {
            "two agents at once": (story.folder / "overlaps").exists(),
            f"ended as {result}": result != "task_complete",
            "a commit was lost": any(at > failed_at for at in _times(story.folder / "commits")[1:]),
            "a retry was wrongly charged": int(retries) > failures,
            "an agent was left": any(alive(each.pid) for each in starts),
        }
        self.books.ended += 1
        self.books.starts += len(starts)
        self.books.wrong += [f"{task}: {what}" for what, is_so in wrong.items() if is_so]

    def _fault(self, loops: int) -> None:
        weights = [weight for weight, *_ in FAULTS.values()]
        (name,) = self._drawn.choices(list(FAULTS), weights)
        worker = self._drawn.choice(WORKERS)
        _, begins, ends = FAULTS[name]
        self.books.faults[name] += 1
        self._fleet(*(worker if word == "W" else word for word in begins))
        if name == "coordinator killed":
            time.sleep(self._drawn.uniform(0, LASTS))
            self._fleet(*ends)
            for each in self._live.values():
                each.story.begin()
            return
        self._wait(self._drawn.uniform(0, LASTS), loops if name != "server killed" else 0)
        if ends:
            self._fleet(*(worker if word == "W" else word for word in ends))

    def _sample(self) -> None:
        if time.monotonic() - self._sampled < SAMPLE_EVERY:
            return
        self._sampled = time.monotonic()
        for role, pid in self._fleet.pids().items():
            place = Path(f"/proc/{pid}")
            with suppress(OSError, ValueError):
                (line,) = (
                    each for each in (place / "status").read_text().splitlines() if "VmRSS" in each
                )
                self.books.memory[role].append(int(line.split()[1]) // 1024)
                self.books.handles[role].append(len(list((place / "fd").iterdir())))


def _times(file: Path) -> list[float]:
    return [float(line) for line in file.read_text().splitlines()] if file.exists() else []


def _thirds(values: list[int]) -> tuple[float, float]:
    third = max(1, len(values) // 3)
    return statistics.median(values[:third]), statistics.median(values[-third:])


def table(books: Books, minutes: float) -> str:
    """Return what came of it as two tables; what has grown counts as wrong."""
    lines = [f"{books.ended} lifecycles, {books.starts} agents in {minutes:g} minutes; faults:"]
    lines += [f"  {count:4} {name}" for name, count in books.faults.most_common()]
    lines += ["", "| role | memory, MiB: first third, last third | open files |", "|---|---|---|"]
    for role in sorted(books.memory):
        cells = []
        for what, values in (("memory", books.memory[role]), ("open files", books.handles[role])):
            first, last = _thirds(values)
            cells.append(f"{first:g}, {last:g}")
            if last > GROWTH * first:
                books.wrong.append(f"{what} of {role} grew from {first:g} to {last:g}")
        lines.append(f"| {role} | {cells[0]} | {cells[1]} |")
    return "\n".join([*lines, "", f"wrong: {len(books.wrong)}", *sorted(books.wrong)])


def main() -> int:
    """Play it and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--loops", type=int, default=50)
    parser.add_argument("--lease", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        fleet_in(Path(folder), given.lease, WORKERS) as fleet,
    ):
        soak = Soak(fleet, random.Random(given.seed))  # noqa: S311  # no secret
        with suppress(KeyboardInterrupt):
            soak.play(60 * given.minutes, given.loops)
    print(table(soak.books, given.minutes))  # noqa: T201  # what is asked for
    return int(bool(soak.books.wrong))


if __name__ == "__main__":
    sys.exit(main())
