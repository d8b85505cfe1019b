"""Start of the command, against `python -c pass`."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from bench.measure import BURST, Options, Row, best, compared, in_turns, script
from bench.world import World, agent_of, patient, task_of, world

COMMAND = Path(sys.executable).with_name("loopwright")
PASS = (sys.executable, "-c", "pass")


async def _times(command: tuple[str, ...], cwd: Path) -> list[float]:
    times = []
    for _ in range(BURST):
        began = time.perf_counter()
        done = subprocess.run(command, cwd=cwd, capture_output=True, check=False)  # noqa: ASYNC221  # nothing else goes on
        times.append(time.perf_counter() - began)
        if done.returncode != 0:
            raise RuntimeError(f"{command} failed: {done.stderr.decode(errors='replace')}")
    return times


async def _repository(made: World) -> Path:
    """Return a repository with a few lifecycles to list."""
    repo = made.repository(10)
    loop = made.loop(repo, with_git=True, settings=patient(max_retries=0))
    for number in range(10):
        name = f"T{number}"
        command = made.agent.exits(made.fresh("stamps"))
        await loop.run_agent_loop(agent_of(name, command), task_of(name))
    return repo


async def measure(options: Options) -> list[Row]:
    """Measure the help and the list, as a user starts them."""
    rows = []
    with world() as made:
        repo = await _repository(made)
        for words, at_most in ((("--help",), 5.0), (("ps",), 12.0)):
            command = (str(COMMAND), *words)

            async def attempt(command: tuple[str, ...] = command, at_most: float = at_most) -> Row:
                mine, theirs = await in_turns(
                    lambda: _times(command, repo), lambda: _times(PASS, repo), options.rounds()
                )
                return compared(
                    what=f"loopwright {command[1]}",
                    against="python -c pass",
                    mine=mine,
                    theirs=theirs,
                    at_most=at_most,
                )

            rows.append(await best(attempt))
    return rows


if __name__ == "__main__":
    script(measure)
