"""50 repositories in one `serve`, idle: what they cost a core, in memory, in threads."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import Options, Row, limited, script
from bench.served import PATIENCE, served
from bench.world import world

if TYPE_CHECKING:
    from bench.served import Served

REPOSITORIES = 50
MIB = 1024 * 1024
SETTLES_S = 5.0
"""For what an opened repository still does: its search index, its first looks."""


def _served(options: Options, count: int) -> tuple[float, str, str]:
    """Return the share of a core, what the system says of the process, and about the place."""
    with world() as made:
        repos = [made.repository(20) for _ in range(count)]
        more = [word for each in repos[1:] for word in ("--repo", str(each))]
        with served(repos[0], *more) as serve:
            _all_open(serve, count)
            time.sleep(SETTLES_S)
            seconds = 5.0 if options.quick else 60.0
            began = serve.cpu()
            time.sleep(seconds)
            share = (serve.cpu() - began) / seconds
            status = Path(f"/proc/{serve.process.pid}/status").read_text()
    return share, status, made.note


async def measure(options: Options) -> list[Row]:
    """Measure them all at once."""
    count = 5 if options.quick else REPOSITORIES
    share, status, note = _served(options, count)
    told = dict(line.split(":", 1) for line in status.splitlines())
    memory, threads = int(told["VmRSS"].split()[0]) * 1024, int(told["Threads"])
    what = f"{count} repositories in one serve, idle"
    return [
        limited(
            what=f"{what}: share of one core",
            ours=f"{share:.2%}",
            value=share,
            at_most=0.01,
            reach="<= 1 %",
            samples=1,
            note=note,
        ),
        limited(
            what=f"{what}: memory (RSS)",
            ours=f"{memory / MIB:.0f} MiB, {threads} threads",
            value=memory,
            at_most=250 * MIB,
            reach="<= 250 MiB",
            samples=1,
            note=note,
        ),
    ]


def _all_open(serve: Served, count: int) -> None:
    end = time.monotonic() + 10 * PATIENCE
    while True:
        with urllib.request.urlopen(f"http://127.0.0.1:{serve.port}/healthz") as answer:
            told = json.load(answer)["repositories"]
        if len(told) == count and set(told.values()) == {"ok"}:
            return
        if time.monotonic() > end:
            raise RuntimeError(f"not all repositories were opened: {told}")
        time.sleep(0.5)


if __name__ == "__main__":
    script(measure)
