"""Where the programs of a spawner run: as it was told to, else in a place of its own.

Must not start a program.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING

from lifecycle.paths import Paths
from runtime.temp_folders import scratch

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.process import TerminalManager


class ProgramHost:
    """The manager of processes, and the folder of instances."""

    def __init__(self, terminals: TerminalManager | None, folder: Path | None) -> None:
        if folder is None and terminals is not None:
            folder = Paths.of(terminals.repo).instances
        self.terminals = terminals
        self.folder = folder
        self._own_terminals: TerminalManager | None = None
        self._own_folders = ExitStack()

    def open(self) -> tuple[TerminalManager, Path]:
        """Return both; what is missing is made, and removed by `aclose`."""
        if self.folder is None:
            self.folder = self._own_folders.enter_context(scratch("agents")) / "instances"
        if self.terminals is None:
            from runtime.process import TerminalManager  # noqa: PLC0415  # not needed for objects

            self._own_terminals = self.terminals = TerminalManager(self.folder)
        return self.terminals, self.folder

    async def aclose(self, grace: float) -> None:
        """End and remove what was made here."""
        if self._own_terminals is not None:
            await self._own_terminals.aclose(grace)
        await asyncio.to_thread(self._own_folders.close)
