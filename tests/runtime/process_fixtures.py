"""A stage for real processes: orders with everything in one folder, and waiting for conditions."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import uuid
from typing import TYPE_CHECKING

from runtime import proc_table
from runtime.process import SpawnOrder, TerminalManager
from tests import waiting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from runtime.process import AgentProcess

GRACE = 0.2
until, PATIENCE = waiting.until, waiting.PATIENCE
DAEMON = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open('daemon', 'w').write(f'{os.getpid()}\\n')
        os.execve('/bin/sleep', ['sleep', '600'], ENVIRON)
    os._exit(0)
os.wait()
"""
WITH_ENVIRONMENT = DAEMON.replace("ENVIRON", "os.environ")
WITHOUT_ENVIRONMENT = DAEMON.replace("ENVIRON", "{}")
LONG = "\nimport time\ntime.sleep(600)\n"


class Stage:
    """Starts commands in a folder of their own, under one terminal manager."""

    def __init__(self, folder: Path, terminals: TerminalManager) -> None:
        self.folder = folder
        self.terminals = terminals
        self.prompt = folder / "prompt.md"
        self.prompt.write_text("do it\n")
        self.log = folder / "logs" / "1.log"

    def order(
        self,
        *command: str,
        env: dict[str, str] | None = None,
        log_cap: int = 1 << 20,
        log: Path | None = None,
        mark: str | None = None,
    ) -> SpawnOrder:
        return SpawnOrder(
            agent_id="agent-T001",
            attempt=1,
            spawn_id=mark or f"spawn-{uuid.uuid4().hex}",
            command=command,
            cwd=self.folder,
            stdin=self.prompt,
            log=log or self.log,
            env=env or {},
            log_cap=log_cap,
        )

    async def sh(self, script: str, **more: str) -> AgentProcess:
        return await self.terminals.spawn(self.order("/bin/sh", "-c", script, env=more))

    async def python(self, program: str) -> AgentProcess:
        return await self.terminals.spawn(self.order(sys.executable, "-c", program))

    async def number(self, name: str) -> int:
        """Wait for a process to write a number into a file, and read it."""
        path = self.folder / name
        await until(lambda: path.exists() and path.read_text().endswith("\n"))
        return int(path.read_text())


def alive(pid: int) -> bool:
    row = proc_table.read_row(pid)
    return row is not None and not row.dead


def end(pid: int) -> None:
    """End a process the test itself is responsible for, if it still is there."""
    if alive(pid):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


@contextlib.asynccontextmanager
async def staged(folder: Path) -> AsyncIterator[Stage]:
    """Give a stage, and see to it that nothing that was started on it is left."""
    terminals = TerminalManager(folder)
    try:
        yield Stage(folder, terminals)
    finally:
        await terminals.aclose(GRACE)
    assert terminals.live() == ()
