"""Starting a program in a sandbox, against `bwrap` by hand."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import Options, Row, burst, compared, script
from bench.world import World, world
from runtime.errors import SandboxUnavailableError
from runtime.isolation.probe import choose
from runtime.isolation.sandbox import SandboxEngine
from runtime.isolation.workspace_sandbox import SandboxPaths, around
from runtime.process import SpawnOrder

if TYPE_CHECKING:
    from runtime.isolation.sandbox import Sandbox
    from runtime.process import AgentProcess

WHAT = "run /bin/true to its end, level container"
BY_HAND = (
    "bwrap", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",  # noqa: S108  # inside of the sandbox
    "--unshare-all", "--new-session", "--die-with-parent", "/bin/true",
)  # fmt: skip


async def _sandboxed(made: World, sandbox: Sandbox, started: list[AgentProcess]) -> None:
    order = SpawnOrder(
        agent_id="sandboxed",
        attempt=1,
        spawn_id=made.fresh("sandbox").name,
        command=("/bin/true",),
        cwd=sandbox.workspace,
        stdin=Path(os.devnull),
        log=made.fresh("log"),
        env={},
        log_cap=65_536,
        sandbox=sandbox,
    )
    started.append(await made.terminals.spawn(order))
    how = await started[-1].wait()
    if how.code != 0:
        raise RuntimeError(f"{how}: {order.log.read_text()}")


async def _by_hand() -> None:
    process = await asyncio.create_subprocess_exec(*BY_HAND)
    if code := await process.wait():
        raise RuntimeError(f"{' '.join(BY_HAND)} ended with {code}")


async def measure(options: Options) -> list[Row]:
    """Measure where bubblewrap works; elsewhere there is nothing to compare."""
    try:
        choice = choose("container", network=False, engine=SandboxEngine.BUBBLEWRAP)
    except SandboxUnavailableError as refusal:
        print(f"no row for sandboxes: {refusal}", file=sys.stderr)
        return []
    with world() as made:
        folder = made.folder()
        sandbox = around(choice, SandboxPaths(folder, made.folder(), made.folder()))
        if sandbox is None:
            raise RuntimeError("a container without a sandbox")

        async def ours() -> list[float]:
            started: list[AgentProcess] = []
            times = await burst(lambda: _sandboxed(made, sandbox, started))
            for process in started:
                await process.sweep(1.0)
            return times

        row = await compared(
            ours,
            lambda: burst(_by_hand),
            options.rounds(),
            what=WHAT,
            against="bwrap by hand",
            at_most=4.0,
            note=made.note,
        )
        return [row]


if __name__ == "__main__":
    script(measure)
