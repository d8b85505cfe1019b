"""The watchdog: how soon agents are gone after their runner, its memory, and what a start costs."""

from __future__ import annotations

import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.measure import BURST, Options, Row, best, in_turns, limited, script, spread
from bench.world import world
from runtime import proc_table
from runtime.processes.watchdog import program

ROOT = Path(__file__).resolve().parent.parent
AGENTS = 20
SOON = 1.0
DEAREST = 0.02
PATIENCE_MS = 60_000
MOST = 12 << 20
RUNNER = """
import asyncio, os, sys
from pathlib import Path
from runtime.process import SpawnOrder, TerminalManager
from runtime.processes.watchdog import client
folder, count = Path(sys.argv[1]), int(sys.argv[2])
async def main():
    terminals = TerminalManager(folder)
    for number in range(count):
        log, mark = folder / f"{number}.log", f"bench-{number}"
        script = Path(folder / "agent").read_text()
        await terminals.spawn(SpawnOrder(
            "agent", 1, mark, ("/bin/sh", "-c", script), folder, Path(os.devnull), log, {}, 1 << 20
        ))
    sys.stdin.readline()
    await terminals.aclose(0)
asyncio.run(main())
"""
COMMAND = """
import sys
from orchestrator.cli.main import main
from runtime.processes.watchdog import client
async def ready():
    pass
if sys.argv.pop(1) == "unwatched":
    client.begin, client.ready = (lambda: None), ready
sys.exit(main(sys.argv[1:]))
"""
"""`loopwright`, with or without a watchdog."""
AGENT = "exec 9> fifo; trap '' TERM; (setsid sleep 600 &); echo >&9; sleep 600"
"""With a daemon; all of it hold the pipe open."""


def _runner(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(folder), str(AGENTS)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def _death(folder: Path) -> float:
    """Kill a runner with living agents; return the seconds until the last of them is gone."""
    fifo = folder / "fifo"
    os.mkfifo(fifo)
    heard = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        (folder / "agent").write_text(AGENT)
        with _runner(folder) as runner:
            os.set_blocking(heard, True)
            up = b""
            while len(up) < AGENTS:
                up += os.read(heard, AGENTS)
            began = time.perf_counter()
            runner.kill()
            os.read(heard, 1)  # the end of the pipe: nobody holds it any more
            took = time.perf_counter() - began
            runner.communicate()
    finally:
        os.close(heard)
    return took


def _start(repo: Path, how: str) -> float:
    """Return the seconds from the start of `loopwright run` until its agent runs."""
    with tempfile.TemporaryDirectory() as name:
        fifo = Path(name) / "fifo"
        os.mkfifo(fifo)
        heard = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        waiting = select.poll()
        waiting.register(heard, select.POLLIN)
        agent = f"/bin/sh -c 'echo > {fifo}'"
        words = ("run", "measure", "--command", agent, "--max-retries", "0", "--repo", str(repo))
        began = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, "-c", COMMAND, how, *words],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as runner:
            is_up = waiting.poll(PATIENCE_MS)
            took = time.perf_counter() - began
            _, said = runner.communicate()
        os.close(heard)
        if not is_up:
            raise RuntimeError(f"no agent was started: {said.decode(errors='replace')}")
    return took


def _memory() -> tuple[list[int], list[int]]:
    """Return what each of the two processes of a watchdog has resident, and its share of that."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "agent").write_text("exec sleep 600")
        with _runner(folder) as runner:
            time.sleep(1.0)
            pids = [pid for pid in proc_table.all_pids() if _watches(pid, runner.pid)]
            rows = [row for pid in pids if (row := proc_table.read_row(pid)) is not None]
            rss = [row.resident for row in rows]
            pss = [proc_table.read_pss(pid) or 0 for pid in pids]
            runner.communicate(b"\n")
    return rss, pss


def _watches(pid: int, runner: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return os.fsencode(program.__file__) in words and str(runner).encode() in words


async def measure(options: Options) -> list[Row]:
    """Measure with real runners that are killed; Linux only."""
    if sys.platform != "linux":
        return []

    async def deaths() -> Row:
        times = []
        for _ in range(10 if options.quick else 200):
            with tempfile.TemporaryDirectory() as folder:
                times.append(_death(Path(folder)))
        p50, p99 = statistics.median(times), statistics.quantiles(times, n=100)[98]
        return limited(
            what=f"runner killed to the last of {AGENTS} agents and their daemons dead, p99",
            ours=f"{p99 * 1000:.0f} ms (p50 {p50 * 1000:.0f} ms)",
            value=p99,
            at_most=SOON,
            reach="< 1 s",
            samples=len(times),
        )

    async def memory() -> Row:
        rss, pss = _memory()
        most = max(rss)
        return Row(
            what="watchdog: memory of one of its two processes (RSS)",
            against="",
            ours=f"{most / (1 << 20):.1f} MiB; PSS of both {sum(pss) / (1 << 20):.1f} MiB",
            reach="<= 12 MiB",
            ok=most <= MOST and len(rss) == 2,
            badness=most / MOST,
            samples=len(rss),
        )

    async def starts(repo: Path) -> Row:
        async def burst(how: str) -> list[float]:
            return [_start(repo, how) for _ in range(BURST)]

        mine, theirs = await in_turns(
            lambda: burst("watched"), lambda: burst("unwatched"), options.rounds(60)
        )
        dearer = statistics.median(mine) - statistics.median(theirs)
        return Row(
            what="loopwright run until its first agent runs",
            against="the same without a watchdog",
            ours=spread(mine),
            floor=spread(theirs),
            ratio=statistics.median(mine) / statistics.median(theirs),
            reach="<= 20 ms more",
            ok=dearer <= DEAREST,
            badness=dearer / DEAREST,
            samples=len(mine),
        )

    rows = [await best(deaths), await best(memory)]
    with world() as made:
        repo = made.repository(10)
        rows.append(await best(lambda: starts(repo)))
    return rows


if __name__ == "__main__":
    script(measure)
