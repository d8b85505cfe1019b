"""Start of the command, against `python -c pass`."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

from bench.measure import Options, Row, burst, compared, script
from bench.world import World, agent_of, patient, task_of, world

COMMAND = Path(sys.executable).with_name("loopwright")
PASS = (sys.executable, "-c", "pass")


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
    return rows


if __name__ == "__main__":
    script(measure)
