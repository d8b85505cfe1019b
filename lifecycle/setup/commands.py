"""Runs the set-up commands in a folder, in the same sandbox as gates.

Must not decide what a failure means.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from lifecycle.machine.states import Gate
from lifecycle.setup.agent_workspace import end
from runtime.errors import SetUpFailedError
from runtime.logs.files import tail

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.services import MachineServices
    from lifecycle.settings import Network
    from lifecycle.setup.subjects import SetupSubject
    from runtime.commands import CommandResult

LOOKS_EVERY = 0.5
"""Seconds between two looks whether a person ended meanwhile what is set up."""
OWN_FILES = {"UV_LINK_MODE": "copy"}
"""Installed files must not be the same as those in a cache: to change one would change both."""
LAST_LINE = 300


class SetupFailure(NamedTuple):
    """A set-up command that failed."""

    gate: Gate
    log: Path

    @property
    def text(self) -> str:
        """Say which, how, and where to read on."""
        last = tail(self.log, LAST_LINE).strip().rpartition("\n")[2]
        said = f": {last}" if last else ""
        return f"`{self.gate.command}` {self.gate.end}{said} (see {self.log})"


async def run_commands(
    machine: MachineServices, subject: SetupSubject, folder: Path, *, mark: str, network: Network
) -> SetupFailure | None:
    """Run the commands one after the other; return the one that failed, if one did."""
    settings = machine.shared.settings()
    for number, command in enumerate(subject.commands, 1):
        each = f"{subject.mark}.{mark}{number}"
        for identity in machine.terminals.find_marked(each):
            await end(machine, identity)
        log = _next_log(machine, subject)
        running = asyncio.ensure_future(
            machine.commands.run(
                command,
                cwd=folder,
                log=log,
                timeout=settings.setup_timeout,
                env=machine.ports.env_of(subject.name) | OWN_FILES,
                mark=each,
                network=network,
                made=None,
            )
        )
        result = await _unless_over(running, subject)
        if not result.ok:
            return SetupFailure(gate_of(result), log)
    return None


def _next_log(machine: MachineServices, subject: SetupSubject) -> Path:
    """Number the logs of an attempt through: workspace and checkout are both set up."""
    number = 1
    while (log := machine.paths.setup_log(subject.name, subject.attempt, number)).exists():
        number += 1
    return log


async def _unless_over(
    running: asyncio.Future[CommandResult], subject: SetupSubject
) -> CommandResult:
    """Wait for the command, but not for one of half an hour that a person ended meanwhile."""
    try:
        while not running.done() and not subject.is_over():
            await asyncio.wait((running,), timeout=LOOKS_EVERY)
    finally:
        if not running.done():
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    if running.cancelled():
        raise SetUpFailedError("the set-up was cancelled by a person")
    return running.result()


def gate_of(result: CommandResult, hint: str = "") -> Gate:
    """Say how a command went; the hint is for one that is red."""
    return Gate(
        command=result.command,
        ok=result.ok,
        code=None if result.timed_out else result.code,
        excerpt="" if result.ok else _shown(result) + hint,
        seconds=result.seconds,
        how=_how(result),
    )


def _how(result: CommandResult) -> str:
    if result.ok or result.timed_out:
        return ""
    if result.limit_reached:
        return f"met the {result.limit_reached}"
    return f"was ended by signal {result.signal}" if result.signal else ""


def _shown(result: CommandResult) -> str:
    if not result.limit_reached:
        return result.excerpt
    return f"{result.excerpt.rstrip()}\n[it met the {result.limit_reached}]"
