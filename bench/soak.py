"""Many agents for many minutes, each attempt with a fault: nothing wrong, nothing left.

Not a benchmark: it counts what went wrong. `MINUTES=10 make soak`; exit code 1 if anything did.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.world import World, git, world  # noqa: E402  # found only now
from lifecycle.machine import events as on  # noqa: E402  # as above
from lifecycle.plan import Agent, Task  # noqa: E402  # as above
from lifecycle.record import Filter  # noqa: E402  # as above
from lifecycle.result import LoopResult, LoopResultType  # noqa: E402  # as above
from lifecycle.settings import Settings  # noqa: E402  # as above
from runtime import proc_table  # noqa: E402  # as above

if TYPE_CHECKING:
    from lifecycle.engine.engine import LocalEngine

Steps = list[dict[str, Any]]
DONE: Steps = [
    {"append": {"path": "work.txt", "text": "x\n"}},
    {"commit": "work"},
    {"breakpoint": {"type": "task_complete", "summary": "done"}},
]
KILLED_FROM_OUTSIDE = "killed from outside"
STOPPED_FROM_OUTSIDE = "stopped from outside"


@dataclass(frozen=True, slots=True)
class Fault:
    """What the first attempt does, and how often that must cost a retry."""

    steps: Steps
    retries: int


def _daemon(*, clear: bool) -> dict[str, Any]:
    return {"daemon": {"s": 3600, "clear_env": clear}}


FAULTS: dict[str, Fault] = {
    "no fault": Fault(DONE, 0),
    "ends without a word": Fault([{"exit": 0}], 1),
    "exit code 3": Fault([{"exit": 3}], 1),
    "crash by signal": Fault([{"crash": "SIGSEGV"}], 1),
    "hang": Fault([{"hang": {}}], 1),
    "hang, ignores TERM": Fault([{"ignore_term": {}}, {"hang": {}}], 1),
    "daemon left behind": Fault([_daemon(clear=False), *DONE], 0),
    "daemon without marks": Fault([_daemon(clear=True), *DONE], 0),
    "daemon, then crash": Fault([_daemon(clear=True), {"crash": "SIGKILL"}], 1),
    "children left behind": Fault([{"child": 3600}, {"child": 3600}, {"exit": 1}], 1),
    "flood": Fault([{"flood": {"bytes": 20_000_000}}, *DONE], 0),
    "flood of one line": Fault([{"flood": {"bytes": 20_000_000, "newlines": False}}, *DONE], 0),
    "torn mailbox": Fault([{"breakpoint": {"type": "task_complete", "how": "torn"}}], 1),
    "mailbox is a FIFO": Fault([{"breakpoint": {"type": "task_complete", "how": "fifo"}}], 1),
    "uncommitted work": Fault([{"write": "left.txt"}, {"exit": 1}], 1),
    KILLED_FROM_OUTSIDE: Fault([{"hang": {}}], 1),
    STOPPED_FROM_OUTSIDE: Fault([{"hang": {}}], 1),
}
"""The second attempt of each is a good one."""


@dataclass(slots=True)
class Tally:
    """What was seen."""

    runs: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


class Soak:
    """One repository under many loops."""

    def __init__(self, made: World, *, agents: int, minutes: float, seed: int) -> None:
        self._made = made
        self._agents = agents
        self._ends = time.monotonic() + minutes * 60
        self._luck = random.Random(seed)  # noqa: S311  # repeatable, not secret
        self._numbers = itertools.count(1)
        self.repo = made.repository(100)
        self.tally = Tally()

    async def run(self) -> None:
        """Run until the time is up, then see what is left."""
        settings = Settings(
            retry_interval=0.0, idle_limit=2.0, stop_grace=0.5, max_live_agents=self._agents,
            max_retries=5, baseline=False, log_cap_bytes=1_000_000,
        )  # fmt: skip
        loop = self._made.loop(self.repo, with_git=True, settings=settings)
        async with loop.opened() as engine:
            await asyncio.gather(*(self._worker(loop, engine) for _ in range(self._agents)))
            await self._whole(engine)
        self._nothing_left()

    async def _worker(self, loop: Any, engine: LocalEngine) -> None:
        while time.monotonic() < self._ends:
            name = self._luck.choice(list(FAULTS))
            fault = FAULTS[name]
            number = next(self._numbers)
            script = self._made.fresh("script")
            script.write_text(json.dumps({"attempts": {"1": fault.steps, "default": DONE}}))
            agent = Agent(
                agent_id=f"agent-S{number}",
                command=(sys.executable, "-S", "-P", "-m", "runtime.agents.scripted", str(script)),
                env={"PYTHONPATH": str(ROOT)},
            )
            meddler = asyncio.create_task(self._meddle(engine, agent.agent_id, name))
            try:
                result = await loop.run_agent_loop(agent, Task(id=f"S{number}", title=name))
            finally:
                meddler.cancel()
            self._judge(name, fault, result)
            ask = on.RejectRequested(at=time.time(), by="soak")  # noqa: TID251  # people have clocks
            await engine.ask(agent.agent_id, ask)
            script.unlink()

    async def _meddle(self, engine: LocalEngine, agent_id: str, name: str) -> None:
        sent = {KILLED_FROM_OUTSIDE: signal.SIGKILL, STOPPED_FROM_OUTSIDE: signal.SIGSTOP}.get(name)
        if sent is None:
            return
        while (attended := engine.performer.attempt_watch(agent_id)) is None:  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0.05)
        os.kill(attended.process.identity.pid, sent)

    def _judge(self, name: str, fault: Fault, result: LoopResult) -> None:
        self.tally.runs[name] += 1
        good = result.result_type is LoopResultType.TASK_COMPLETE
        if not good or result.retry_count != fault.retries:
            self.tally.wrong[name] += 1
            self.tally.notes.append(f"{name}: {result}")

    async def _whole(self, engine: LocalEngine) -> None:
        async for record in engine.shared.store.every(Filter()):
            if record.state not in {"rejected", "accepted"}:
                self.tally.notes.append(f"{record.agent_id} is {record.state}")

    def _nothing_left(self) -> None:
        notes = self.tally.notes
        marked = {pid: mark for pid, mark in proc_table.read_marks().items() if "agent-S" in mark}
        notes += [f"process {pid} of {mark} is alive" for pid, mark in marked.items()]
        children = [pid for pid in proc_table.own_children() if not _is_dead(pid)]
        notes += [f"child {pid} is alive" for pid in children]
        trees = git(self.repo, "worktree", "list", "--porcelain").count("worktree ") - 1
        branches = git(self.repo, "branch", "--list", "agent/*").split()
        if trees or branches:
            notes.append(f"{trees} worktrees and {len(branches)} branches are left")
        notes += [f"control group {path}" for path in _groups()]


def _is_dead(pid: int) -> bool:
    row = proc_table.read_row(pid)
    return row is None or row.dead


def _groups() -> list[Path]:
    """Find control groups of ours that are left."""
    return [path for path in Path("/sys/fs/cgroup").rglob("*loopwright*agent-S*") if path.is_dir()]


def _memory_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def main() -> int:
    """Soak and tell."""
    parser = argparse.ArgumentParser(prog="python bench/soak.py", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with world() as made:
        soak = Soak(made, agents=options.agents, minutes=options.minutes, seed=options.seed)
        before, files = _memory_mb(), _open_files()
        asyncio.run(soak.run())
        after, opened = _memory_mb(), _open_files()
    tally = soak.tally
    print("| fault | lifecycles | wrong |\n|---|---|---|")
    for name in FAULTS:
        print(f"| {name} | {tally.runs[name]} | {tally.wrong[name]} |")
    print(f"| all | {tally.runs.total()} | {tally.wrong.total()} |")
    print(
        f"\n{options.agents} agents at once, {options.minutes:g} minutes; memory {before:.0f} -> "
        f"{after:.0f} MB, open files {files} -> {opened}"
    )
    for note in tally.notes[:50]:
        print(f"WRONG: {note}")
    if opened > files:
        print(f"WRONG: {opened - files} files are left open")
    return 1 if tally.notes or opened > files else 0


if __name__ == "__main__":
    sys.exit(main())
