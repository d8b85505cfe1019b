"""20,000 finished lifecycles on record: how soon `serve` answers, what `ps` and `serve` take."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import Options, Row, best, limited, script
from bench.world import facts_like, fill, world
from lifecycle.clock import SystemClock
from lifecycle.machine import events as on
from lifecycle.machine.states import Accepted, Completed, Reason, Rejected, State, Tally
from lifecycle.paths import Paths
from lifecycle.record import AgentLifecycle, AttemptRow, JournalEntry, Spending, Transaction
from lifecycle.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT = 20_000
COMMAND = str(Path(sys.executable).with_name("loopwright"))
PATIENCE = 60.0
HEAD = "0123456789abcdef0123456789abcdef01234567"


def _work(number: int) -> State:
    """Return how it ended: half of them accepted, a quarter given up, a quarter to be reviewed."""
    tally = Tally(attempt=2, spawn_count=2, retry_count=1)
    match number % 4:
        case 0:
            return Completed(tally=tally, summary="It works.", head=HEAD, changed_files=("a.txt",))
        case 1:
            return Rejected(tally=tally, reason=Reason.MAX_RETRIES, text="out of retries")
        case _:
            return Accepted(tally=tally, commit=HEAD, summary="It works.")


async def finish(database: Path, count: int, work: Callable[[int], State] = _work) -> None:
    """Write so many finished lifecycles, each with journal, attempts and spending."""
    database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with await SqliteStore.open(database) as store:
        await fill(lambda number: _one(store, number, work(number)), count)


async def _one(store: SqliteStore, number: int, work: State) -> None:
    name = f"T{number}"
    agent_id, at = f"agent-{name}", SystemClock().now() - 3600.0
    record = AgentLifecycle(
        agent_id=agent_id,
        task=f"Task {name}",
        task_id=name,
        created_at=at,
        facts=facts_like(name),
        work=work,
    )
    for attempt in (1, 2):
        stopped = on.AgentExited(at=at, attempt=attempt, exit_code=0)
        entry = JournalEntry(
            agent_id=agent_id,
            seq=attempt,
            at=at,
            event=stopped,
            rule="agent_exited",
            before="Working",
            after=type(work).__name__,
        )
        row = AttemptRow(
            agent_id=agent_id,
            attempt=attempt,
            started_at=at,
            ended_at=at + 1,
            outcome="task_complete",
            summary="It works.",
        )
        spent = Spending(
            agent_id=agent_id, task_id=name, attempt=attempt, birth=record.birth, at=at,
            program="claude", tokens=1000, seconds=1.0,
        )  # fmt: skip
        await store.commit(
            Transaction(record=record, journal=(entry,), attempt=row, spending=spent)
        )


def serve_answers(repo: Path) -> tuple[float, int]:
    """Return seconds from the start of `serve` to its first answer, and its memory in bytes."""
    began = time.perf_counter()
    with subprocess.Popen(
        [COMMAND, "serve", "--port", "0", "--repo", str(repo)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            line = process.stdout.readline() if process.stdout is not None else ""
            found = re.match(r"(http://\S+)", line)
            if found is None:
                raise RuntimeError(f"serve did not begin: {line!r}")
            with urllib.request.urlopen(f"{found[1]}/readyz", timeout=PATIENCE) as answer:  # noqa: S310  # our own address
                answer.read()
            took = time.perf_counter() - began
            return took, memory_of(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


def memory_of(pid: int) -> int:
    """Return the resident memory of a process in bytes; 0 where the system does not tell."""
    status = Path(f"/proc/{pid}/status")
    told = (
        re.search(r"^VmRSS:\s+(\d+) kB", status.read_text(), re.MULTILINE)
        if status.exists()
        else None
    )
    return 1024 * int(told[1]) if told is not None else 0


def _lists(repo: Path) -> float:
    began = time.perf_counter()
    subprocess.run([COMMAND, "ps", "--repo", str(repo)], check=True, capture_output=True)
    return time.perf_counter() - began


async def measure(options: Options) -> list[Row]:
    """Measure both on one store."""
    count = 2000 if options.quick else COUNT
    with world() as made:
        repo = made.repository(10)
        await finish(Paths.of(repo).database, count)
        empty = made.repository(10)
        _, least = serve_answers(empty)

        async def serves() -> Row:
            took, size = serve_answers(repo)
            return limited(
                what=f"serve on {count:,} finished lifecycles: start to first answer",
                ours=f"{took:.2f} s, {size / 2**20:.0f} MiB ({least / 2**20:.0f} on none)",
                value=took,
                at_most=2.0,
                reach="<= 2 s",
                samples=1,
            )

        async def lists() -> Row:
            took = sorted(_lists(repo) for _ in range(3 if options.quick else 11))
            middle = took[len(took) // 2]
            return limited(
                what=f"loopwright ps on {count:,} finished lifecycles",
                ours=f"{middle * 1000:.0f} ms",
                value=middle,
                at_most=0.2,
                reach="<= 200 ms",
                samples=len(took),
            )

        return [await best(serves), await best(lists)]


if __name__ == "__main__":
    os.environ.setdefault("NO_COLOR", "1")
    script(measure)
