"""What pages take: the board of 500 open of 10,000 lifecycles, and all scripts and styles."""

from __future__ import annotations

import gzip
import json
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import orchestrator.web.pages
from bench.finished import HEAD, finish
from bench.measure import Options, Row, best, limited, part, script
from bench.served import PATIENCE, served
from bench.world import world
from lifecycle.machine.states import (
    About,
    Accepted,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Completed,
    Reason,
    Rejected,
    Signal,
    State,
    Tally,
)
from lifecycle.paths import Paths

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.served import Served

OPEN, ALL = 500, 10_000
FAR = 4e9
"""An instant that does not come."""
KIB = 1024


def work_of(number: int) -> State:
    """Return a state: of one in twenty an open one that holds no process."""
    tally = Tally(attempt=3, spawn_count=3, retry_count=1)
    if number % (ALL // OPEN):
        if number % 4 == 1:
            return Rejected(tally=tally, reason=Reason.MAX_RETRIES, text="3 of 3 retries are used")
        return Accepted(tally=tally, commit=HEAD, summary="It works.", changed_files=("a.py",))
    word = Signal(type="blocked", reason="no key", blocked_on=("a key",))
    match number // (ALL // OPEN) % 4:
        case 0:
            return Completed(
                tally=tally, summary="It works.", head=HEAD, passed=("pytest -q",),
                changed_files=("a.py", "tests/test_a.py"), flagged=("tests/test_a.py",),
            )  # fmt: skip
        case 1:
            return AwaitingHuman(
                tally=tally, about=About.QUESTION, text="Blue or green?", since=1.8e9
            )
        case 2:
            return BackingOff(tally=tally, until=FAR, why="limit", fixed=True)
        case _:
            return Blocked(tally=tally, since=1.8e9, until=FAR, word=word)


def board(server: Served, options: Options) -> Row:
    """Measure the page that everybody begins with."""
    text = server.get("/")
    packed = len(gzip.compress(text, 6))
    server.get("/")
    times = [server.took("/") for _ in range(40 if options.quick else 200)]
    p95 = part(times, 0.95)
    return limited(
        what=f"board, {OPEN} open of {ALL:,} lifecycles, p95",
        ours=f"{p95 * 1000:.1f} ms; {len(text) / KIB:.0f} KiB, {packed / KIB:.1f} KiB gzipped",
        value=max(p95 / 0.05, packed / (60 * KIB)),
        at_most=1.0,
        reach="<= 50 ms, <= 60 KiB gzipped",
        samples=len(times),
    )


def static_files() -> Row:
    """Measure all scripts and styles, as they would be sent."""
    folder = Path(orchestrator.web.pages.__path__[0], "static")
    files = [each for each in folder.iterdir() if each.suffix in (".js", ".css")]
    packed = sum(len(gzip.compress(each.read_bytes(), 6)) for each in files)
    return limited(
        what=f"all {len(files)} scripts and style sheets",
        ours=f"{packed / KIB:.1f} KiB gzipped",
        value=packed / KIB,
        at_most=60,
        reach="<= 60 KiB gzipped",
        samples=len(files),
    )


def windows(server: Served, options: Options) -> Row:
    """Measure the first and the last lines of a large log, as the page of an attempt shows them."""
    path = Paths.of(server.repo).log("agent-T1", 2)
    path.parent.mkdir(parents=True, exist_ok=True)
    block = "".join(f"{number:09d} building part {number} of it all\n" for number in range(25_000))
    size = (1 << 24) if options.quick else (1 << 30)
    with path.open("w") as stream:
        for _ in range(-(-size // len(block))):
            stream.write(block)
    address = "/api/v1/lifecycles/agent-T1/attempts/2/log/window"
    count = 20 if options.quick else 100
    server.get(address)
    first = part([server.took(f"{address}?after=0") for _ in range(count)], 0.95)
    last = part([server.took(address) for _ in range(count)], 0.95)
    return limited(
        what=f"first and last window of a log of {size >> 20:,} MiB, p95",
        ours=f"{first * 1000:.1f} ms, {last * 1000:.1f} ms",
        value=max(first, last),
        at_most=0.05,
        reach="<= 50 ms",
        samples=2 * count,
    )


def search(server: Served, options: Options) -> Row:
    """Measure the search for words that many and that few have."""
    began = time.monotonic()
    while not json.loads(server.get("/api/v1/search?q=works"))["index"]["whole"]:
        if time.monotonic() - began > PATIENCE:
            raise RuntimeError("the index is not whole")
        time.sleep(0.2)
    chance = random.Random(1)  # noqa: S311  # the same words each time
    asked = ["works", "make it work", "retries", "blue green", '"task T77"', "nothing"]
    asked += [f"T{chance.randrange(ALL)}" for _ in range(len(asked))]
    count = 3 if options.quick else 25
    times = [server.took(f"/api/v1/search?q={quote(each)}") for each in asked for _ in range(count)]
    p95 = part(times, 0.95)
    return limited(
        what=f"search over {ALL:,} lifecycles, p95",
        ours=f"{p95 * 1000:.1f} ms",
        value=p95,
        at_most=0.05,
        reach="<= 50 ms",
        samples=len(times),
    )


def work(server: Served) -> None:
    """Have an agent write 60 files of Python with 84 lines each."""
    lines = "".join(f"def part_{n}(x):\n    return x * {n}  # part {n}\n" for n in range(42))
    steps: list[object] = [
        {"write": {"path": f"work/file_{number}.py", "text": lines}} for number in range(60)
    ]
    steps += [{"commit": "all of it"}, {"breakpoint": {"type": "task_complete", "summary": "done"}}]
    played = server.repo.parent / "big.json"
    played.write_text(json.dumps(steps))
    command = f"{Path(sys.executable).with_name('loopwright-agent')} {played}"
    server.post("/api/v1/lifecycles", {"text": "Much", "name": "big", "command": command})
    end = time.monotonic() + PATIENCE
    while json.loads(server.get("/api/v1/lifecycles/big"))["lifecycle"]["state"] != "done":
        if time.monotonic() > end:
            raise RuntimeError("the work was not done")
        time.sleep(0.2)


def diff_page(server: Served, options: Options) -> Row:
    """Measure the review of that."""
    text = server.get("/review/big")
    times = [server.took("/review/big") for _ in range(5 if options.quick else 30)]
    p95 = part(times, 0.95)
    return limited(
        what="review page of 5,040 changed lines in 60 files, p95",
        ours=f"{p95 * 1000:.0f} ms (p50 {part(times, 0.5) * 1000:.0f}); {len(text) / KIB:.0f} KiB",
        value=p95,
        at_most=0.3,
        reach="<= 300 ms",
        samples=len(times),
    )


async def measure(options: Options) -> list[Row]:
    """Measure the board on a real server, and count the bytes of what comes with it."""
    with world() as made:
        repo = made.repository(10)
        await finish(Paths.of(repo).database, ALL, work_of)
        with served(repo) as server:

            async def again(measured: Callable[[Served, Options], Row]) -> Row:
                async def attempt() -> Row:
                    return measured(server, options)

                return await best(attempt)

            return [
                await again(board),
                await again(windows),
                await again(search),
                await _of_work(made.repository(10), options),
                static_files(),
            ]


async def _of_work(repo: Path, options: Options) -> Row:
    with served(repo) as server:
        work(server)

        async def attempt() -> Row:
            return diff_page(server, options)

        return await best(attempt)


if __name__ == "__main__":
    script(measure)
