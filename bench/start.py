"""Start of the command, and what an order of a person costs, against `python -c pass`."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import BURST, Options, Row, burst, compared, script
from bench.world import World, agent_of, patient, task_of, world

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMAND = Path(sys.executable).with_name("loopwright")
PASS = (sys.executable, "-c", "pass")
ORDERS = (("pause", "T001"), ("resume", "T001"))
AT_MOST = 26.0
"""Times the processor time of `python -c pass`: 0.3 s where that is 11.5 ms."""
READY_S = 60.0


async def _run(command: tuple[str, ...], cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, check=False)  # noqa: ASYNC221  # nothing else runs
    if done.returncode != 0:
        raise RuntimeError(f"{command} failed: {done.stderr.decode(errors='replace')}")


async def _repository(made: World) -> Path:
    """Return a repository with a few lifecycles to list."""
    repo = made.repository(10)
    loop = made.loop(repo, with_git=True, settings=patient(max_retries=0))
    for number in range(10):
        name = f"T{number}"
        command = made.agent.exits(made.fresh("stamps"))
        await loop.run_agent_loop(agent_of(name, command), task_of(name))
    return repo


async def _processor_time(commands: Iterator[tuple[str, ...]], cwd: Path) -> list[float]:
    """Return how long the processor worked for each of these commands."""
    times = []
    for _ in range(BURST):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        await _run(next(commands), cwd)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return times


@contextmanager
def _runner(repo: Path) -> Iterator[None]:
    """Have a runner whose agent works, for as long as it lasts."""
    command = (str(COMMAND), "run", "x", "--command", "sleep 600", "--stay", "--plain")
    with subprocess.Popen(
        command, cwd=repo, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as runner:
        try:
            end = time.perf_counter() + READY_S
            while "working" not in _states(repo):
                if time.perf_counter() > end:
                    raise RuntimeError("the agent does not work")
            yield
        finally:
            runner.terminate()


def _states(repo: Path) -> list[str]:
    listed = subprocess.run(
        (str(COMMAND), "ps", "--json"), cwd=repo, capture_output=True, check=True
    ).stdout
    return [each["state"] for each in json.loads(listed)["lifecycles"]]


async def _orders(options: Options) -> Row:
    """Measure what a person's order to a live runner costs."""
    with world() as made:
        repo = made.repository(10)
        with _runner(repo):
            ours = cycle((str(COMMAND), *order) for order in ORDERS)
            return await compared(
                partial(_processor_time, ours, repo),
                partial(_processor_time, cycle((PASS,)), repo),
                options.rounds(40),
                what="loopwright pause, resume to a live runner: processor time",
                against="python -c pass",
                at_most=AT_MOST,
            )


async def measure(options: Options) -> list[Row]:
    """Measure the help and the list, as a user starts them."""
    rows = []
    with world() as made:
        repo = await _repository(made)
        for words, at_most in ((("--help",), 5.0), (("ps",), 12.0)):
            ours = partial(_run, (str(COMMAND), *words), repo)
            row = await compared(
                partial(burst, ours),
                partial(burst, partial(_run, PASS, repo)),
                options.rounds(),
                what=f"loopwright {words[0]}",
                against="python -c pass",
                at_most=at_most,
            )
            rows.append(row)
    return [*rows, await _orders(options)]


if __name__ == "__main__":
    script(measure)
