"""Runs the set-up commands in a folder, as shut in as gates are.

Must not decide what a failure means.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from lifecycle.housing import end
from lifecycle.judging.outcomes import gate_of
from runtime.output import tail
from runtime.setup.errors import SetUpFailedError

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.machine.states import Gate
    from lifecycle.parts import Parts
    from lifecycle.setting_up.subjects import Subject
    from lifecycle.settings import Network
    from runtime.commands import CommandResult

LOOKS_EVERY = 0.5
"""Seconds between two looks whether a person ended meanwhile what is set up."""
OWN_FILES = {"UV_LINK_MODE": "copy"}
"""Installed files must not be the same as those in a cache: to change one would change both."""
LAST_LINE = 300


class Failure(NamedTuple):
    """A set-up command that failed."""

    gate: Gate
    log: Path

    @property
    def text(self) -> str:
        """Say which, how, and where to read on."""
        last = tail(self.log, LAST_LINE).strip().rpartition("\n")[2]
        said = f": {last}" if last else ""
        return f"`{self.gate.command}` {self.gate.end}{said} (see {self.log})"


class SetupCommands:
    """Runs them for all lifecycles of one repository."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run(
        self, subject: Subject, folder: Path, *, mark: str, network: Network
    ) -> Failure | None:
        """Run one after the other; return the one that failed, if one did."""
        settings = self._parts.settings()
        for number, command in enumerate(subject.commands, 1):
            each = f"{subject.mark}.{mark}{number}"
            for identity in self._parts.terminals.find_marked(each):
                await end(self._parts, identity)
            log = self._next_log(subject)
            running = asyncio.ensure_future(
                self._parts.commands.run(
                    command,
                    cwd=folder,
                    log=log,
                    timeout=settings.setup_timeout,
                    env=self._parts.ports.env_of(subject.name) | OWN_FILES,
                    mark=each,
                    network=network,
                    made=None,
                )
            )
            result = await _unless_over(running, subject)
            if not result.ok:
                return Failure(gate_of(result), log)
        return None

    def _next_log(self, subject: Subject) -> Path:
        """Number the logs of an attempt through: workspace and checkout are both set up."""
        paths, number = self._parts.paths, 1
        while (log := paths.setup_log(subject.name, subject.attempt, number)).exists():
            number += 1
        return log


async def _unless_over(running: asyncio.Future[CommandResult], subject: Subject) -> CommandResult:
    """Wait for the command, but not for one of half an hour that a person ended meanwhile."""
    try:
        while not running.done() and not subject.is_over():
            await asyncio.wait((running,), timeout=LOOKS_EVERY)
    finally:
        if not running.done():
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    if running.cancelled():
        raise SetUpFailedError("the set-up was broken off by a person")
    return running.result()
