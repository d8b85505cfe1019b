"""Runs the gates on a commit, and on the base before any work, to tell old failures from new.

Every judgement is about one commit, laid out by the runner; what the agent says about itself, and
what lies in its workspace, is not asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.errors import PlanError
from lifecycle.housing import end, look_once, whole
from lifecycle.judging.flags import flagged
from lifecycle.machine import events as on
from lifecycle.machine.states import Gate
from lifecycle.masking import refuse_markers
from runtime.errors import RuntimeFault
from runtime.tree import some_of

if TYPE_CHECKING:
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
        """Run the gates on the untouched code."""
        settings = self._parts.settings()
        commands = settings.verify_of(case.task)
        if not commands or not settings.baseline or not workspace.base_commit:
            return ()
        return await self.on_commit(case, effect_id, workspace.base_commit, commands, attempt=0)

    async def run(self, case: Case, effect_id: str, attempt: int, head: str) -> Event:
        """Run the gates on the commit that the agent says is done."""
        commands = self._parts.settings().verify_of(case.task)
        try:
            workspace = await whole(self._parts, case)
            await look_once(self._parts, case, workspace)
            if head:
                gates = await self.on_commit(case, effect_id, head, commands, attempt=attempt)
            else:  # a folder without git, where nothing can be laid out
                gates = await self._gates(
                    case, effect_id, commands, workspace.path, attempt=attempt
                )
        except (RuntimeFault, PlanError, OSError) as error:
            return on.GatesFinished(at=self._now(), attempt=attempt, gates=(), problem=str(error))
        return on.GatesFinished(
            at=self._now(),
            attempt=attempt,
            gates=gates,
            flagged=flagged(tuple(file.path for file in case.head.files), commands),
        )

    async def on_commit(  # noqa: PLR0913  # each names one fact of the judgement
        self,
        case: Case,
        effect_id: str,
        commit: str,
        commands: tuple[str, ...],
        *,
        attempt: int,
        label: str = "gate",
    ) -> tuple[Gate, ...]:
        """Run commands on the files of a commit, in the lifecycle's judging checkout.

        The label tells the logs of several judgements of one attempt apart.
        """
        checkouts = self._parts.checkouts
        folder = await checkouts.lay_out(case.agent_id, commit)
        gates = await self._gates(case, effect_id, commands, folder, attempt=attempt, label=label)
        edited = await checkouts.changed(case.agent_id)
        if not edited:
            return gates
        # Green or red, they judged something else than the commit that would be merged.
        text = f"the verify commands changed files that are committed: {some_of(edited)}"
        return (*gates, Gate(command="git diff --quiet", ok=False, code=1, excerpt=text))

    async def _gates(  # noqa: PLR0913  # as above
        self,
        case: Case,
        effect_id: str,
        commands: tuple[str, ...],
        folder: Path,
        *,
        attempt: int,
        label: str = "gate",
    ) -> tuple[Gate, ...]:
        refuse_markers(f"a verify command of {case.task.id}", commands)
        timeout = self._parts.settings().gate_timeout
        gates = []
        for number, command in enumerate(commands, 1):
            mark = f"{effect_id}.{label}{number}"
            for identity in self._parts.terminals.find_marked(mark):
                await end(self._parts, identity)
            result = await self._parts.commands.run(
                command,
                cwd=folder,
                log=self._parts.paths.gate_log(case.agent_id, attempt, number, label),
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
