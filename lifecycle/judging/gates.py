"""Runs the gates on a commit, and on the base before any work, to tell old failures from new.

Every judgement is about one commit on a clean tree; what the agent says about itself is not asked.
"""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING

from lifecycle.errors import PlanError
from lifecycle.housing import end, look_once, whole
from lifecycle.judging.flags import flagged
from lifecycle.machine import events as on
from lifecycle.machine.states import Gate
from lifecycle.masking import refuse_markers
from runtime.errors import RuntimeFault
from runtime.ownership import make_private
from runtime.tree import some_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from lifecycle.case import Case
    from lifecycle.machine.events import Event
    from lifecycle.parts import Parts
    from runtime.commands import CommandResult
    from runtime.workspace import Workspace


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


class GateRunner:
    """Runs the gates of all lifecycles of one repository."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def baseline(self, case: Case, effect_id: str, workspace: Workspace) -> tuple[Gate, ...]:
        """Run the gates on the untouched code, outside the workspace, which stays clean."""
        settings = self._parts.settings()
        commands = settings.verify_of(case.task)
        if not commands or not settings.baseline:
            return ()
        async with self._laid_out(case, workspace.base_commit) as folder:
            return await self._gates(case, effect_id, commands, folder, attempt=0)

    @contextlib.asynccontextmanager
    async def _laid_out(self, case: Case, commit: str) -> AsyncIterator[Path]:
        """Lay the files of a commit out in a folder of their own, and nothing else."""
        folder = self._parts.paths.laid_out(case.agent_id)
        shutil.rmtree(folder, ignore_errors=True)
        make_private(folder.parent)
        try:
            await self._parts.branches.export(commit, folder)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def run(self, case: Case, effect_id: str, attempt: int, head: str) -> Event:
        """Run the gates on the commit the workspace stands at: there, or on its files alone."""
        settings = self._parts.settings()
        commands = settings.verify_of(case.task)
        try:
            workspace = await whole(self._parts, case)
            await look_once(self._parts, case, workspace)
            if settings.verify_clean:
                async with self._laid_out(case, head) as folder:
                    gates = await self._gates(case, effect_id, commands, folder, attempt=attempt)
            else:
                gates = await self._gates(
                    case, effect_id, commands, workspace.path, attempt=attempt
                )
            status = await self._parts.workspaces.status(workspace)
        except (RuntimeFault, PlanError, OSError) as error:
            return on.GatesFinished(at=self._now(), attempt=attempt, gates=(), problem=str(error))
        if status.head != head:
            moved = f"the verify commands moved the branch to {status.head}"
            gates = (*gates, Gate(command="git rev-parse HEAD", ok=False, code=1, excerpt=moved))
        if status.changed:
            # Green or red, they judged something else than the commit that would be merged.
            edited = (
                f"the verify commands changed files that are committed: {some_of(status.changed)}"
            )
            gates = (*gates, Gate(command="git diff --quiet", ok=False, code=1, excerpt=edited))
        return on.GatesFinished(
            at=self._now(),
            attempt=attempt,
            gates=gates,
            flagged=flagged(tuple(file.path for file in case.head.files), commands),
        )

    async def _gates(
        self, case: Case, effect_id: str, commands: tuple[str, ...], folder: Path, *, attempt: int
    ) -> tuple[Gate, ...]:
        refuse_markers(f"a verify command of {case.task.id}", commands)
        timeout = self._parts.settings().gate_timeout
        gates = []
        for number, command in enumerate(commands, 1):
            mark = f"{effect_id}.gate{number}"
            for identity in self._parts.terminals.find_marked(mark):
                await end(self._parts, identity)
            result = await self._parts.commands.run(
                command,
                cwd=folder,
                log=self._parts.paths.gate_log(case.agent_id, attempt, number),
                timeout=timeout,
                mark=mark,
            )
            gates.append(
                Gate(
                    command=command,
                    ok=result.ok,
                    code=None if result.timed_out else result.code,
                    excerpt="" if result.ok else _shown(result),
                    seconds=result.seconds,
                    how=_how(result),
                )
            )
        return tuple(gates)

    def _now(self) -> float:
        return self._parts.clock.now()
