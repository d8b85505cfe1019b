"""1,000 lifecycles on a Temporal server, each of two attempts with a wait between them.

A coordinator and a worker with a clone each, as users start them; the agents are over at once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench.measure import Options, Row, limited, script
from bench.served import COMMAND, PATIENCE, served
from bench.world import git, world
from tests.orchestrator.engines.temporal.dev_server import dev_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.served import Served
    from bench.world import World

LIFECYCLES = 1000
SLOTS = 20
ATTEMPTS = 2
MIB = 1024 * 1024
LOOK_S = 1.0
LONGEST_S = 1800.0
SETTINGS = f"""\
engine = "temporal"
max_live_agents = {SLOTS}
verify = []
canary = "off"
baseline = false
blocked_timeout = 86400.0
isolation = "process"
"""
AGENT = """\
if [ "$LOOPWRIGHT_ATTEMPT" = 1 ]; then
    state=blocked more='"type": "blocked", "blocked_on": ["a word"]'
else
    state=complete more='"type": "task_complete"'
fi
printf '{"%s": {"lifecycle_state": "%s", "breakpoint": {%s, "task_id": "%s"}}}' \\
    "$LOOPWRIGHT_AGENT_ID" "$state" "$more" "$LOOPWRIGHT_TASK_ID" > ../new.$LOOPWRIGHT_AGENT_ID
mv ../new.$LOOPWRIGHT_AGENT_ID "$LOOPWRIGHT_COMM_FILE"
"""
_TICKS = os.sysconf("SC_CLK_TCK")


class Machines:
    """What runs: the server, the coordinator, the worker."""

    def __init__(self, serve: Served, worker: int, server: int) -> None:
        self.serve = serve
        self.ours = (serve.process.pid, worker)
        self.server = server

    def used(self, *pids: int) -> float:
        """Return the processor seconds of processes, with those of their ended children."""
        stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
        return sum(int(ticks) for stat in stats for ticks in stat[11:15]) / _TICKS

    def memory(self, *pids: int) -> int:
        """Return the memory that processes have (RSS), in bytes."""
        return sum(_rss(Path(f"/proc/{pid}/status").read_text()) for pid in pids)

    def add(self, count: int, agent: Path) -> None:
        """Have so many lifecycles begin."""
        for number in range(count):
            body = {"text": f"Do {number}", "name": f"T{number}", "command": f"/bin/sh {agent}"}
            self.serve.post("/api/v1/lifecycles", body)

    def unblock(self, count: int) -> None:
        """Say the word that all of them wait for."""
        self.serve.connection.close()  # the server has long closed its end
        for number in range(count):
            self.serve.post(f"/api/v1/lifecycles/T{number}/unblock", {})

    def until(self, state: str, count: int) -> None:
        """Wait until so many lifecycles are in a state."""
        end, there = time.monotonic() + LONGEST_S, 0
        while there < count:
            if time.monotonic() > end:
                raise RuntimeError(f"{there} of {count} lifecycles are {state}")
            time.sleep(LOOK_S)
            counts = json.loads(self.serve.get("/api/v1/statistics", accept="application/json"))
            there = counts["lifecycles"]["by_state"].get(state, 0)


class Figures(NamedTuple):
    """What came of it; of ours and of the server, where there are two."""

    each: float
    """Processor seconds of an attempt, of everybody."""
    lasted: float
    share: tuple[float, float]
    memory: tuple[int, int]


def _rss(status: str) -> int:
    (line,) = (each for each in status.splitlines() if each.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


@contextmanager
def _machines(made: World) -> Iterator[Machines]:
    bare, (here, there) = made.fresh("bare"), (made.fresh("coordinator"), made.fresh("worker"))
    git(made.root, "clone", "-q", "--bare", str(made.repository(20)), str(bare))
    for each in (here, there):
        git(made.root, "clone", "-q", str(bare), str(each))
        (each / "loopwright.toml").write_text(SETTINGS)
    with dev_server(made.root) as address:
        os.environ["LOOPWRIGHT_TEMPORAL_ADDRESS"] = address
        with served(here) as serve, _worker(there) as worker:
            yield Machines(serve, worker, _server_at(address))


@contextmanager
def _worker(clone: Path) -> Iterator[int]:
    words = (COMMAND, "worker", "--name", "bench", "--repo", str(clone))
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


def _server_at(address: str) -> int:
    """Return the process that `dev_server` began, a child of this one."""
    port = address.rpartition(":")[2].encode()
    for line in Path("/proc/self/task").glob("*/children"):
        for pid in line.read_text().split():
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"start-dev" in words and port in words:
                return int(pid)
    raise RuntimeError("the development server is not to be found")


def _play(machines: Machines, agent: Path, count: int, watched: float) -> Figures:
    """Have all of them begin, wait for a word, and end."""
    everybody = (*machines.ours, machines.server)
    busy = lasted = 0.0

    def turn(begin: Callable[[], None], state: str) -> None:
        nonlocal busy, lasted
        used, began = machines.used(*everybody), time.monotonic()
        begin()
        machines.until(state, count)
        busy += machines.used(*everybody) - used
        lasted += time.monotonic() - began

    turn(lambda: machines.add(count, agent), "waiting")
    time.sleep(watched / 6)  # what was begun comes to rest
    ours, server = machines.used(*machines.ours), machines.used(machines.server)
    time.sleep(watched)
    ours, server = machines.used(*machines.ours) - ours, machines.used(machines.server) - server
    memory = machines.memory(*machines.ours), machines.memory(machines.server)
    turn(lambda: machines.unblock(count), "done")
    return Figures(busy / count / ATTEMPTS, lasted, (ours / watched, server / watched), memory)


async def measure(options: Options) -> list[Row]:
    """Measure all of them at once."""
    count, watched = (20, 5.0) if options.quick else (LIFECYCLES, 60.0)
    with world() as made, _machines(made) as machines:
        agent = made.root / "agent.sh"
        agent.write_text(AGENT)
        found = _play(machines, agent, count, watched)
    each, (share, beside), (memory, besides) = found.each, found.share, found.memory
    what = f"{count} lifecycles on Temporal"
    note = f"{SLOTS} slots on one worker; git, a push for each attempt, pages on"
    return [
        limited(
            what=f"{what}, {ATTEMPTS} attempts each: processor time of an attempt, in all",
            ours=f"{1000 * each:.0f} ms; all ended in {found.lasted:.0f} s",
            value=each,
            at_most=0.12,
            reach="<= 120 ms",
            samples=count * ATTEMPTS,
            note=note,
        ),
        limited(
            what=f"{what}, parked: share of one core",
            ours=f"{share:.2%} (the server beside it: {beside:.2%})",
            value=share,
            at_most=0.02,
            reach="<= 2 %",
            samples=1,
            note=note,
        ),
        limited(
            what=f"{what}, parked: memory (RSS)",
            ours=f"{memory / MIB:.0f} MiB (the server beside it: {besides / MIB:.0f} MiB)",
            value=memory,
            at_most=300 * MIB,
            reach="<= 300 MiB",
            samples=1,
            note=note,
        ),
    ]


if __name__ == "__main__":
    script(measure)
