"""What a verdict and an accept cost, against git and the bare merge."""

from __future__ import annotations

import itertools
import subprocess
import time
from typing import TYPE_CHECKING

from bench.measure import BURST, Options, Row, burst, compared, script
from bench.world import World, agent_of, git, patient, task_of, world
from lifecycle.judging.gates import GateRunner
from lifecycle.judging.merge import Merger
from lifecycle.machine.effects import MergeBranch
from lifecycle.machine.events import MergeSucceeded
from lifecycle.machine.states import Completed
from lifecycle.record import AgentLifecycle
from lifecycle.setup.setup import SettingUp
from lifecycle.working_copy import LocalCopy
from runtime.branches import BranchManager

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
    local = LocalCopy(record=record, task=task_of("T001"), agent=agent_of("T001", ("true",)))
    async with made.loop(repo, with_git=True, settings=patient()).opened() as engine:
        runner = GateRunner(engine.machine, SettingUp(engine.machine))

        numbers, others = itertools.count(), itertools.count()

        async def verdict() -> None:
            number = next(numbers)
            commit = commits[number % 2]
            gates = await runner.on_commit(local, f"bench{number}", commit, ("true",), attempt=1)
            if not all(gate.ok for gate in gates):
                raise RuntimeError(f"`true` is red: {gates}")

        async def checkout() -> None:
            command = ("git", "checkout", "-q", commits[next(others) % 2])
            subprocess.run(command, cwd=plain, capture_output=True, check=True)  # noqa: ASYNC221  # the floor is just that

        return await compared(
            lambda: burst(verdict),
            lambda: burst(checkout),
            options.rounds(),
            what=f"verdict of `true` on {files:,} files, ten changed, checkout warm",
            against="git checkout in a plain worktree",
            at_most=1.5,
        )


async def _accepting(made: World, options: Options) -> Row:
    """Accept work whose base did not move since its verdict."""
    repo = made.repository(100)
    branches = BranchManager(repo)
    number = 0

    def work() -> tuple[str, str]:
        """Make a branch with one commit on top of the base, as completed work is."""
        nonlocal number
        number += 1
        branch = f"agent/agent-{number}"
        git(repo, "checkout", "-q", "-b", branch, "main")
        (repo / f"new-{number}.txt").write_text("new\n")
        git(repo, "add", f"new-{number}.txt")
        git(repo, "commit", "-qm", "work")
        head = git(repo, "rev-parse", "HEAD").strip()
        git(repo, "checkout", "-q", "main")
        return branch, head

    async with made.loop(
        repo, with_git=True, settings=patient(verify=("true",))
    ).opened() as engine:
        machine = engine.machine
        merger = Merger(machine, GateRunner(machine, SettingUp(machine)))

        async def accepts() -> list[float]:
            times = []
            for _ in range(BURST):
                branch, head = work()
                record = AgentLifecycle(agent_id=f"agent-{number}", task="bench")
                record.facts = {"branch": branch, "base_branch": "main"}
                record.work = Completed(summary="done", head=head, merging=True, passed=("true",))
                agent = agent_of(f"{number}", ("true",))
                local = LocalCopy(record=record, task=task_of(f"{number}"), agent=agent)
                began = time.perf_counter()
                told = await merger.merge(local, f"bench-{number}", MergeBranch(head=head))
                times.append(time.perf_counter() - began)
                if not isinstance(told, MergeSucceeded):
                    raise RuntimeError(f"not merged: {told}")  # noqa: TRY004  # no type was asked for
            return times

        async def merges() -> list[float]:
            times = []
            for _ in range(BURST):
                branch, head = work()
                began = time.perf_counter()
                told = await branches.merge(branch, "main", message="Merge", expected_head=head)
                times.append(time.perf_counter() - began)
                if not told.merged:
                    raise RuntimeError(f"not merged: {told}")
            return times

        return await compared(
            accepts,
            merges,
            options.rounds(),
            what="accept with an unchanged base",
            against="the merge alone, which was all of it before",
            at_most=1.2,
        )


async def measure(options: Options) -> list[Row]:
    """Measure verdicts in a small and a large repository, and an accept."""
    with world() as made:
        rows = [await _of_size(made, files, options) for files in (100, 10_000)]
        return [*rows, await _accepting(made, options)]


if __name__ == "__main__":
    script(measure)
