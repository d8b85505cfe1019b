"""Whose set-up it is: a lifecycle's, or that of a build of local CI. Plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lifecycle.bases import needs
from lifecycle.housing import opened
from lifecycle.machine.states import Preparing, Spawning, Wanted
from runtime.setup.copies import INCLUDE_FILE

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.case import Case
    from lifecycle.parts import Parts

ENDING = (Wanted.STOP, Wanted.HOLD, Wanted.REJECT)


@dataclass(frozen=True, slots=True)
class Subject:
    """What a set-up is for."""

    name: str
    """The agent, or the place of a build: logs, records, ports and checkout go by it."""
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


async def of_case(parts: Parts, case: Case, attempt: int, effect_id: str) -> Subject | None:
    """Return the subject that a lifecycle is; None where there is nothing to set up."""
    commands = parts.settings().setup_of(case.task)
    if not is_wanted(parts, commands):
        return None

    def is_over() -> bool:
        work = case.record.work
        return isinstance(work, (Preparing, Spawning)) and work.tally.wanted in ENDING

    base, target = await _trusted(parts, case)
    return Subject(
        name=case.agent_id,
        commands=commands,
        base=base,
        target=target,
        attempt=attempt,
        mark=effect_id,
        is_over=is_over,
    )


def is_wanted(parts: Parts, commands: tuple[str, ...]) -> bool:
    """Tell whether there may be anything to do; costs next to nothing where there is not."""
    if commands or parts.settings().copy:
        return True
    return (parts.repo / INCLUDE_FILE).is_file()


async def _trusted(parts: Parts, case: Case) -> tuple[str, str]:
    """Return where the agent's work begins, and where it goes to.

    Work of other tasks below it is not accepted yet.
    """
    workspace = case.workspace or await opened(parts, case)
    if workspace is None or not workspace.base_commit:
        return "", ""
    branch = workspace.base_branch or await parts.bases.target_of(case.task)
    target = (await parts.branches.head(branch) if branch else None) or workspace.base_commit
    if not needs(case.task.dependencies, case.record.work):
        return workspace.base_commit, target
    shared = await parts.setup_facts.shared(workspace.base_commit, target)
    return shared or workspace.base_commit, target
