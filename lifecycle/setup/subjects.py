"""Whose set-up it is: a lifecycle's, or that of a build of local CI. Plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lifecycle.base_commits import needs
from lifecycle.machine.states import Preparing, Spawning, Wanted
from lifecycle.setup.agent_workspace import opened
from runtime.setup.globs import INCLUDE_FILE

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.services import MachineServices
    from lifecycle.working_copy import LocalCopy

ENDING = (Wanted.STOP, Wanted.HOLD, Wanted.REJECT)


@dataclass(frozen=True, slots=True)
class SetupSubject:
    """What a set-up is for."""

    name: str
    """The agent, or the folder of a build: logs, records, ports and checkout go by it."""
    commands: tuple[str, ...]
    base: str
    """The newest commit below the agent's work that a person let into its branch."""
    target: str
    """Where that branch is now."""
    attempt: int
    mark: str
    """Of the processes, unique for each order."""
    is_over: Callable[[], bool]
    """Tells whether a person ended meanwhile what is set up."""


async def subject_of(
    machine: MachineServices, local: LocalCopy, attempt: int, effect_id: str
) -> SetupSubject | None:
    """Return the subject that a lifecycle is; None where there is nothing to set up."""
    commands = machine.shared.settings().setup_of(local.task)
    if not is_wanted(machine, commands):
        return None

    def is_over() -> bool:
        work = local.record.work
        return isinstance(work, (Preparing, Spawning)) and work.tally.wanted in ENDING

    base, target = await _trusted(machine, local)
    return SetupSubject(
        name=local.agent_id,
        commands=commands,
        base=base,
        target=target,
        attempt=attempt,
        mark=effect_id,
        is_over=is_over,
    )


def is_wanted(machine: MachineServices, commands: tuple[str, ...]) -> bool:
    """Tell whether there may be anything to do; costs next to nothing where there is not."""
    if commands or machine.shared.settings().copy:
        return True
    return (machine.repo / INCLUDE_FILE).is_file()


async def _trusted(machine: MachineServices, local: LocalCopy) -> tuple[str, str]:
    """Return where the agent's work begins, and where it goes to.

    Work of other tasks below it is not accepted yet.
    """
    workspace = local.workspace or await opened(machine, local)
    if workspace is None or not workspace.base_commit:
        return "", ""
    branch = workspace.base_branch or await machine.shared.base_commits.target_of(local.task)
    target = (await machine.branches.head(branch) if branch else None) or workspace.base_commit
    if not needs(local.task.dependencies, local.record.work):
        return workspace.base_commit, target
    shared = await machine.setup_facts.shared(workspace.base_commit, target)
    return shared or workspace.base_commit, target
