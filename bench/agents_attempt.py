"""An attempt of a real program in the loop, against the same program started in a shell."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import statistics
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from bench.measure import Options, Row, best, in_turns, spread
from bench.model import HOW, Ready, scripted
from bench.world import World, patient, task_of
from lifecycle.launch.programs import here, named
from lifecycle.paths import Paths
from lifecycle.plan import Agent
from runtime.agents.adapter import LaunchRequest, plan
from runtime.environment import allowed
from runtime.masking.masker import Masker, secrets_of
from runtime.process import AgentProcess, SpawnOrder, TerminalManager

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PROGRAMS = ("claude", "codex")
BURST = 5
WARM_UP = 1
"""The first attempt of a burst makes the workspace."""
SAMPLES = 60
FILES = 100
MORE_AT_MOST = 0.050
SHARE_AT_MOST = 0.05
REACH = "<= 5% or 50 ms more"


class Stamping(TerminalManager):
    """Notes when each start was ordered."""

    def __init__(self, repo: Path, environ: Mapping[str, str], masker: Masker) -> None:
        super().__init__(repo, environ=environ, masker=masker)
        self.ordered: list[float] = []

    async def spawn(self, order: SpawnOrder) -> AgentProcess:
        """Start a process."""
        self.ordered.append(time.monotonic())
        return await super().spawn(order)


@dataclass(slots=True)
class Bench:
    """One program, in the loop and by hand, with one home and one repository."""

    made: World
    ready: Ready
    environ: Mapping[str, str]
    repo: Path
    another: Path
    """A repository like the other, for the shell: without the loop's worktrees in it."""
    tools: bool
    prompt: Path

    async def looped(self) -> list[float]:
        """Return seconds from the order of a start to the order of the next."""
        made, count = self.made, WARM_UP + BURST + 1
        masker = Masker(secrets_of(self.environ))
        made.terminals = terminals = Stamping(made.root, self.environ, masker)
        settings = patient(
            max_retries=count - 1,
            pass_env=tuple(self.ready.env),
            tool_server="on" if self.tools else "off",
        )
        loop = made.loop(self.repo, with_git=True, settings=settings)
        name = made.fresh(self.ready.name).name
        agent = Agent(agent_id=name, adapter=self.ready.adapter)
        result = await loop.run_agent_loop(agent, task_of(name))
        stamps = terminals.ordered
        found = [after - before for before, after in pairwise(stamps)]
        if len(found) != WARM_UP + BURST:
            raise RuntimeError(f"{len(found)} attempts instead of {WARM_UP + BURST}: {result}")
        shutil.copy(Paths.of(self.repo).prompt(name, count - 1), self.prompt)
        return found[WARM_UP:]

    async def by_hand(self) -> list[float]:
        """Return seconds that a shell needs for the same command with the same prompt."""
        program = named(self.ready.adapter)
        request = LaunchRequest(
            model=program.model, as_root=here().as_root, passes=tuple(self.ready.env)
        )
        launch = plan(program.adapter, request)
        env = launch.environment(allowed(self.environ), self.environ)
        log = self.made.fresh("log")
        line = f"{shlex.join(launch.argv)} < {self.prompt} > {log} 2>&1"
        times = []
        for _ in range(BURST):
            began = time.monotonic()
            process = await asyncio.create_subprocess_exec(
                "sh", "-c", line, cwd=self.another, env=env, start_new_session=True
            )
            code = await process.wait()
            times.append(time.monotonic() - began)
            if code:
                raise RuntimeError(f"{line} ended with {code}: {log.read_text()[-1000:]}")
        return times


async def measure(made: World, options: Options) -> list[Row]:
    """Measure each program, and with our tools beside it."""
    cases = [(name, tools) for name in PROGRAMS for tools in (False, True)]
    with scripted(*PROGRAMS) as ready:
        if not ready:
            return [_absent(name, tools=tools) for name, tools in cases]
        found = {each.name: each for each in ready}
        return [await _case(made, found[name], options, tools=tools) for name, tools in cases]


async def _case(made: World, ready: Ready, options: Options, *, tools: bool) -> Row:
    if tools and not here().tool_server:
        return _absent(ready.name, tools=True)
    home = made.folder()
    environ = ready.at_home(home) | {"TMPDIR": str(made.folder())}
    repo, another = made.repository(FILES), made.repository(FILES)
    bench = Bench(made, ready, environ, repo, another, tools, made.fresh("prompt"))
    await bench.looped()  # first starts furnish the home
    samples = SAMPLES // 3 if tools else SAMPLES
    rounds = 1 if options.quick else -(-samples // BURST)

    async def attempt() -> Row:
        mine, theirs = await in_turns(bench.looped, bench.by_hand, rounds)
        return _row(ready.name, mine, theirs, tools=tools)

    return await (attempt() if tools else best(attempt))


def _row(name: str, mine: list[float], theirs: list[float], *, tools: bool) -> Row:
    floor = statistics.median(theirs)
    more = statistics.median(mine) - floor
    badness = more / max(MORE_AT_MOST, SHARE_AT_MOST * floor)
    return Row(
        what=_what(name, tools=tools),
        against="the same line in a shell",
        ours=f"{spread(mine)}, {more * 1000:+.0f} ms",
        floor=spread(theirs),
        ratio=statistics.median(mine) / floor,
        reach="(none)" if tools else REACH,
        ok=tools or badness <= 1,
        badness=0.0 if tools else badness,
        samples=min(len(mine), len(theirs)),
    )


def _what(name: str, *, tools: bool) -> str:
    return (
        f"an attempt of {name}, git and all on, scripted model{', with our tools' if tools else ''}"
    )


def _absent(name: str, *, tools: bool) -> Row:
    return Row(
        what=_what(name, tools=tools),
        against="the same line in a shell",
        ours=f"not installed ({HOW})",
        reach="(none)" if tools else REACH,
        ok=tools,
        badness=0.0 if tools else 2.0,
        samples=0,
    )
