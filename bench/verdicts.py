"""A verdict in a warm judging checkout, against a checkout of the same change by git."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

from bench.measure import BURST, Options, Row, best, compared, in_turns, script
from bench.world import World, agent_of, git, patient, task_of, world
from lifecycle.case import Case
from lifecycle.judging.gates import GateRunner
from lifecycle.record import AgentLifecycle
from lifecycle.setting_up.front import SettingUp

if TYPE_CHECKING:
    from pathlib import Path

CHANGED = 10


def _commits(repo: Path, files: int) -> tuple[str, str]:
    """Return two commits between which ten files differ."""
    first = git(repo, "rev-parse", "HEAD").strip()
    for number in range(CHANGED):
        at = number * files // CHANGED
        [path] = repo.glob(f"*/f{at}.txt")
        path.write_text("changed\n")
    git(repo, "commit", "-qam", "second")
    return first, git(repo, "rev-parse", "HEAD").strip()


async def _of_size(made: World, files: int, options: Options) -> Row:
    repo = made.repository(files)
    commits = _commits(repo, files)
    plain = made.fresh("plain")
    git(repo, "worktree", "add", "-q", "--detach", str(plain), commits[0])
    record = AgentLifecycle(agent_id="agent-T001", task="bench")
    case = Case(record=record, task=task_of("T001"), agent=agent_of("T001", ("true",)))
    async with made.loop(repo, with_git=True, settings=patient()).opened() as engine:
        runner = GateRunner(engine.parts, SettingUp(engine.parts))

        async def verdicts() -> list[float]:
            times = []
            for number in range(BURST):
                began = time.perf_counter()
                gates = await runner.on_commit(
                    case, f"bench{number}", commits[number % 2], ("true",), attempt=1
                )
                times.append(time.perf_counter() - began)
                if not all(gate.ok for gate in gates):
                    raise RuntimeError(f"`true` is red: {gates}")
            return times

        async def checkouts() -> list[float]:
            times = []
            for number in range(BURST):
                began = time.perf_counter()
                command = ("git", "checkout", "-q", commits[number % 2])
                subprocess.run(command, cwd=plain, capture_output=True, check=True)  # noqa: ASYNC221  # the floor is just that
                times.append(time.perf_counter() - began)
            return times

        async def attempt() -> Row:
            mine, theirs = await in_turns(verdicts, checkouts, options.rounds())
            return compared(
                what=f"verdict of `true` on {files:,} files, ten changed, checkout warm",
                against="git checkout in a plain worktree",
                mine=mine,
                theirs=theirs,
                at_most=1.5,
            )

        return await best(attempt)


async def measure(options: Options) -> list[Row]:
    """Measure a small and a large repository."""
    with world() as made:
        return [await _of_size(made, files, options) for files in (100, 10_000)]


if __name__ == "__main__":
    script(measure)
