"""Makes each role fail ROUNDS times, in states drawn at random, and prints what came of it.

    python -m tests.orchestrator.engines.temporal.faults.kill_workers [--rounds 20] [--lease 5]

With `--far` the second worker is in a network of its own, behind a slow and lossy way. The states
are drawn by `--seed`; Ctrl-C ends it with what there is. Exit code 1 when anything was lost,
doubled or wrongly charged.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.orchestrator.engines.temporal.faults.fleet import WORKERS
from tests.orchestrator.engines.temporal.faults.story import RemoteFleet, Story, alive, fleet_in

if TYPE_CHECKING:
    from collections.abc import Callable

STATES = ("Preparing", "Spawning", "Working", "Stopping", "Capturing", "Verifying")
BEFORE_AN_AGENT = ("Preparing", "Spawning", "Working")
"""States that another worker begins an agent in."""
SERVER_AWAY = 1.0
LOOK = 0.002


def _cut(fleet: RemoteFleet, worker: str, story: Story) -> None:
    del story
    fleet("cut", worker)


def _freeze(fleet: RemoteFleet, worker: str, story: Story) -> None:
    del story
    fleet("kill", worker, "SIGSTOP")


def _kill(fleet: RemoteFleet, worker: str, story: Story) -> None:
    del story
    fleet("kill", worker)


def _kill_with_watchdogs(fleet: RemoteFleet, worker: str, story: Story) -> None:
    del story
    fleet("kill_all_of", worker)


def _kill_watchdogs(fleet: RemoteFleet, worker: str, story: Story) -> None:
    fleet("kill_watchdogs", worker)
    (story.folder / "fail").touch()


def _kill_coordinator(fleet: RemoteFleet, worker: str, story: Story) -> None:
    del worker
    fleet("kill", "coordinator")
    (story.folder / "fail").touch()
    fleet("begin")
    story.begin()


def _kill_server(fleet: RemoteFleet, worker: str, story: Story) -> None:
    del worker
    fleet("kill", "server")
    (story.folder / "fail").touch()
    story.pause(SERVER_AWAY)
    fleet("server")


FAULTS: dict[str, Callable[[RemoteFleet, str, Story], None]] = {
    "worker killed": _kill,
    "worker and its watchdogs killed": _kill_with_watchdogs,
    "worker frozen": _freeze,
    "worker cut off": _cut,
    "watchdogs killed": _kill_watchdogs,
    "coordinator killed": _kill_coordinator,
    "server killed, back after 1 s": _kill_server,
}
OF_A_WORKER = tuple(FAULTS)[:4]


@dataclass(frozen=True, slots=True)
class Round:
    """What one fault came to."""

    fault: str
    state: str
    next_after: float | None
    """Seconds until an agent began on another worker, if one was to."""
    dead_after: float | None
    """Seconds until the agent that lived was dead, if one did."""
    wrong: tuple[str, ...]


def play(fleet: RemoteFleet, fault: str, state: str, task: str) -> Round:
    """Have one lifecycle meet a fault in a state."""
    fleet("begin")
    story = Story(fleet, task, hangs=state == "Working")
    story.begin()
    if state == "Working":
        had_it = story.hangs().worker
    else:
        story.wait(lambda: story.reached(state) or story.reached("Completed"))
        had_it = story.worker()
    worker = had_it or random.choice(WORKERS)  # noqa: S311  # no secret
    had_ended = story.reached("BackingOff")
    live = [each for each in story.starts() if alive(each.pid)]
    wall, began = time.time(), time.monotonic()  # noqa: TID251  # as agents write it
    FAULTS[fault](fleet, worker, story)
    dead_after = next_after = None
    if fault in OF_A_WORKER and live:
        while alive(live[-1].pid) and time.monotonic() - began < 2 * fleet.lease:
            time.sleep(LOOK)
        dead_after = time.monotonic() - began
    try:
        result, retries, *_ = story.end()
    except AssertionError as stuck:
        return Round(fault, state, next_after, dead_after, (f"stuck: {stuck}",))
    elsewhere = [each.at for each in story.starts() if each.at > wall and each.worker != worker]
    if fault in OF_A_WORKER and had_it and state in BEFORE_AN_AGENT and elsewhere:
        next_after = elsewhere[0] - wall
    if fault == "worker cut off":
        fleet("mend", worker)
    if fault == "worker frozen":
        fleet("kill", worker, "SIGCONT")
    failed = story.commits() + (story.folder / "fail").exists()
    wrong = {
        "overlap": (story.folder / "overlaps").exists(),
        "lost breakpoint": result != "task_complete",
        "lost commit": had_ended and story.commits() > 1,
        "wrongly charged": int(retries) > failed,
    }
    return Round(
        fault, state, next_after, dead_after, tuple(name for name, is_so in wrong.items() if is_so)
    )


def _figure(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} / {max(values):.2f}" if values else "-"


def table(rounds: list[Round]) -> str:
    """Return the figures of each fault as a table."""
    heads = (
        *("fault", "rounds", "next agent elsewhere, p50 / max, s", "old agent dead, p50 / max, s"),
        *("overlaps", "lost breakpoints", "lost commits", "wrongly charged"),
    )
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for fault in FAULTS:
        mine = [each for each in rounds if each.fault == fault]
        wrong = Counter(word for each in mine for word in each.wrong)
        nexts = [each.next_after for each in mine if each.next_after is not None]
        deaths = [each.dead_after for each in mine if each.dead_after is not None]
        counts = [
            *(str(wrong[word]) for word in ("overlap", "lost breakpoint", "lost commit")),
            str(wrong["wrongly charged"]),
        ]
        figures = [str(len(mine)), _figure(nexts), _figure(deaths), *counts]
        lines.append("| " + " | ".join((fault, *figures)) + " |")
    return "\n".join(lines)


def main() -> int:
    """Play all rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--lease", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--far", action="store_true", help="one worker in another network: as root")
    given = parser.parse_args()
    drawn, rounds = random.Random(given.seed), []  # noqa: S311  # no secret
    with (
        tempfile.TemporaryDirectory() as folder,
        fleet_in(Path(folder), given.lease, kind="far_fleet" if given.far else "fleet") as fleet,
        suppress(KeyboardInterrupt),
    ):
        for number in range(given.rounds):
            for which, fault in enumerate(FAULTS):
                task = f"T{number:03}{which}"
                rounds.append(play(fleet, fault, drawn.choice(STATES), task))
                print(rounds[-1], file=sys.stderr, flush=True)  # noqa: T201  # progress
    print(table(rounds))  # noqa: T201  # what is asked for
    return int(any(each.wrong for each in rounds))


if __name__ == "__main__":
    sys.exit(main())
