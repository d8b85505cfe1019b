"""The front of this room: a workspace that is ready to work in, a checkout that is ready to judge.

Joins the parts; decides nothing itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lifecycle.setting_up.checkouts import CheckoutSetups
from lifecycle.setting_up.commands import SetupCommands
from lifecycle.setting_up.plans import Plans
from lifecycle.setting_up.subjects import of_case
from lifecycle.setting_up.workspaces import WorkspaceSetups
from runtime.setup.stamps import JUDGING, drop_stamp

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.case import Case
    from lifecycle.machine.states import Gate
    from lifecycle.parts import Parts
    from lifecycle.setting_up.subjects import Subject
    from runtime.workspace import Workspace


class SettingUp:
    """Sets up for all lifecycles of one repository."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._plans = Plans(parts)
        commands = SetupCommands(parts)
        self._workspaces = WorkspaceSetups(parts, self._plans, commands)
        self._checkouts = CheckoutSetups(parts, self._plans, commands)

    async def workspace(
        self, case: Case, effect_id: str, attempt: int, workspace: Workspace, head: str
    ) -> None:
        """Set up the agent's workspace if that was not done for the inputs in this commit.

        What fails for inputs that an agent changed is told to the next attempt; SetUpFailedError
        when it fails for those of the base.
        """
        case.set_up = await self._workspaces.ready(case, effect_id, attempt, workspace, head)

    async def lay_out(self, case: Case, effect_id: str, commit: str, *, attempt: int) -> LaidOut:
        """Lay out a commit to be judged, and set it up.

        SetUpFailedError when the set-up fails on the base, SetUpUndecidedError when a person has to
        decide first.
        """
        subject = await of_case(self._parts, case, attempt, effect_id)
        return await self.of(subject, case.agent_id, commit)

    async def of(self, subject: Subject | None, name: str, commit: str) -> LaidOut:
        """Do the same for any subject; None where there is nothing to set up."""
        lay_out = self._parts.checkouts.lay_out
        if subject is None:
            drop_stamp(self._parts.paths.setup(name), JUDGING)
            return LaidOut(await lay_out(name, commit), commit)
        folder = await lay_out(name, commit, keep=await self._checkouts.keep(subject, commit))
        red = await self._checkouts.ready(subject, commit)
        return LaidOut(folder, commit, red, subject, self._checkouts)

    async def approve(self, case: Case, effect_id: str, commit: str) -> None:
        """Remember that a person lets the set-up of this commit use the network."""
        subject = await of_case(self._parts, case, case.attempt, effect_id)
        if subject is not None:
            await self._plans.approve(subject, commit)


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A commit that is laid out to be judged."""

    folder: Path
    commit: str
    red: Gate | None = None
    """Why the change is red before any gate ran: its set-up fails."""
    subject: Subject | None = None
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
