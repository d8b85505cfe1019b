"""The front of this room: a workspace that is ready to work in, a checkout that is ready to judge.

Joins the modules of this package; decides nothing itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lifecycle.setup.checkouts import CheckoutSetups
from lifecycle.setup.plans import Plans
from lifecycle.setup.subjects import subject_of
from lifecycle.setup.workspaces import WorkspaceSetups
from runtime.setup.made_by_setup import JUDGING, drop_stamp

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.machine.states import Gate
    from lifecycle.services import MachineServices
    from lifecycle.setup.subjects import SetupSubject
    from lifecycle.working_copy import LocalCopy
    from runtime.workspace import Workspace


class SettingUp:
    """Sets up for all lifecycles of one repository."""

    def __init__(self, machine: MachineServices) -> None:
        self._machine, self._plans = machine, Plans(machine)
        self._workspaces, self._checkouts = WorkspaceSetups(machine), CheckoutSetups(machine)

    async def workspace(
        self, local: LocalCopy, effect_id: str, attempt: int, workspace: Workspace, head: str
    ) -> None:
        """Set up the agent's workspace if that was not done for the inputs in this commit.

        What fails for inputs that an agent changed is told to the next attempt; SetUpFailedError
        when it fails for those of the base.
        """
        local.set_up = await self._workspaces.ready(local, effect_id, attempt, workspace, head)

    async def lay_out(
        self, local: LocalCopy, effect_id: str, commit: str, *, attempt: int
    ) -> JudgedCheckout:
        """Lay out a commit to be judged, and set it up.

        SetUpFailedError when the set-up fails on the base, SetUpUndecidedError when a person has to
        decide first.
        """
        subject = await subject_of(self._machine, local, attempt, effect_id)
        name, lay_out = local.agent_id, self._machine.checkouts.lay_out
        if subject is None:  # there is nothing to set up
            drop_stamp(self._machine.paths.setup(name), JUDGING)
            return JudgedCheckout(await lay_out(name, commit), commit)
        folder = await lay_out(name, commit, keep=await self._checkouts.keep(subject, commit))
        red = await self._checkouts.ready(subject, commit)
        return JudgedCheckout(folder, commit, red, subject, self._checkouts)

    async def approve(self, local: LocalCopy, effect_id: str, commit: str) -> None:
        """Remember that a person lets the set-up of this commit use the network."""
        subject = await subject_of(self._machine, local, local.attempt, effect_id)
        if subject is not None:
            await self._plans.approve(subject, commit)


@dataclass(frozen=True, slots=True)
class JudgedCheckout:
    """A commit that is laid out to be judged."""

    folder: Path
    commit: str
    red: Gate | None = None
    """Why the change is red before any gate ran: its set-up fails."""
    subject: SetupSubject | None = None
    setups: CheckoutSetups | None = None

    @property
    def fixed(self) -> tuple[Path, ...]:
        """What gates cannot write in a sandbox."""
        return self.setups.fixed(self.subject) if self.setups and self.subject else ()

    @property
    def made(self) -> tuple[str, ...] | None:
        """What the set-up made; None where nothing can be laid out (a folder without git)."""
        if not self.commit:
            return None
        return self.setups.made(self.subject) if self.setups and self.subject else ()

    async def check(self, *, goes_on: bool) -> None:
        """After each gate: see that what the set-up made is as it was, or make it again.

        Without a gate to come that waits until the next verdict.
        """
        if self.setups is None or self.subject is None:
            return
        if not await self.setups.intact(self.subject) and goes_on:
            await self.setups.ready(self.subject, self.commit)
