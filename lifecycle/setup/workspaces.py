"""Sets up the agent's workspace: before the baseline, and again when its inputs changed.

What lies there is the agent's to use and to break. No verdict depends on it.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from lifecycle.setup.commands import run_commands
from lifecycle.setup.plans import Plans
from lifecycle.setup.subjects import subject_of
from runtime.errors import SetUpFailedError
from runtime.setup import copies
from runtime.setup import made_by_setup as made
from runtime.setup.facts import name_made
from runtime.setup.made_by_setup import WORKSPACE, SetupStamp, drop_stamp, read_stamp

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.machine.states import Gate
    from lifecycle.services import MachineServices
    from lifecycle.settings import Network
    from lifecycle.setup.commands import SetupFailure
    from lifecycle.setup.plans import SetupPlan, SetupSource
    from lifecycle.setup.subjects import SetupSubject
    from lifecycle.working_copy import LocalCopy
    from runtime.workspace import Workspace


class WorkspaceSetups:
    """The set-ups of all workspaces of one repository."""

    def __init__(self, machine: MachineServices) -> None:
        self._machine, self._shared = machine, machine.shared
        self._plans = Plans(machine)

    async def ready(
        self, local: LocalCopy, effect_id: str, attempt: int, workspace: Workspace, head: str
    ) -> Gate | None:
        """Set it up if that was not done for these inputs.

        Returns what fails with inputs that an agent changed, or without the network because of
        its uncommitted work: the next attempt is told. Else SetUpFailedError.
        """
        subject = await subject_of(self._machine, local, attempt, effect_id)
        if subject is None or not head:
            return None
        plan = await self._plans.of(subject, head)
        folder = self._machine.paths.setup(local.agent_id)
        stamp = read_stamp(folder, WORKSPACE)
        if stamp is not None and stamp.key == plan.key and _is_there(workspace.path, stamp.made):
            return None
        source = await self._plans.source(subject, plan)
        network = await self._network(plan, source, workspace)
        failure = await self._set_up(subject, plan, workspace, stamp, network)
        if failure is None:
            return None
        if source.trusted and network == source.network:
            raise SetUpFailedError(f"set-up command failed on the base: {failure.text}")
        return failure.gate

    async def _set_up(
        self,
        subject: SetupSubject,
        plan: SetupPlan,
        workspace: Workspace,
        stamp: SetupStamp | None,
        network: Network,
    ) -> SetupFailure | None:
        folder, place = self._machine.paths.setup(subject.name), workspace.path
        before = await self._machine.setup_facts.others(place)
        known = frozenset(stamp.made) if stamp is not None else frozenset[str]()
        theirs = await asyncio.to_thread(made.before, folder, place, known)
        drop_stamp(folder, WORKSPACE)
        copied = await asyncio.to_thread(copies.copy_in, self._machine.repo, plan.copied, place)
        if copied:
            told = ", ".join(copied)
            raise SetUpFailedError(f"these files could not be copied to {place}: {told}")
        failure = await run_commands(self._machine, subject, place, mark="setup", network=network)
        # Also of one that failed: what it left is not the agent's work.
        new = (await self._machine.setup_facts.others(place)) - before
        names = await asyncio.to_thread(name_made, place, new | set(plan.copied))
        still = (name for name in known if _is_there(place, (name,)))
        key = plan.key if failure is None else ""
        done = SetupStamp(key, tuple(sorted({*names, *still})))
        await asyncio.to_thread(made.note, folder, place, done, theirs)
        return failure

    async def _network(self, plan: SetupPlan, source: SetupSource, workspace: Workspace) -> Network:
        """Give it more network than the agent has only where no file is of the agent's hand.

        Ignored files and what an earlier set-up made may be, so they are taken out first.
        """
        settings = self._shared.settings()
        if settings.network == settings.setup_network:
            return settings.network
        if settings.setup_network == "none":
            return source.network
        if source.commit != plan.commit or source.limited:
            return settings.network
        bare = await self._machine.workspaces.strip(workspace, plan.commit)
        return source.network if bare else settings.network


def _is_there(folder: Path, made: tuple[str, ...]) -> bool:
    return all(os.path.lexists(folder / name) for name in made)
