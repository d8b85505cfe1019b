"""Sets up the checkouts in which local CI builds: for a commit, and no lifecycle.

Must not know a task: the general set-up commands are what it runs.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from ci.errors import RedSetUpError
from lifecycle.setup.checkouts import CheckoutSetups
from lifecycle.setup.subjects import SetupSubject, is_wanted
from runtime.setup.made_by_setup import JUDGING, drop_stamp

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.services import MachineServices


class BuildSetups:
    """The set-ups of all builds of one repository."""

    def __init__(self, machine: MachineServices) -> None:
        self._machine, self._shared = machine, machine.shared
        self._setups = CheckoutSetups(machine)

    async def lay_out(self, name: str, commit: str) -> Path:
        """Lay out a commit, with what was set up there before if it can stay."""
        subject = await self._subject(name, commit)
        if subject is None:
            drop_stamp(self._machine.paths.setup(name), JUDGING)
        keep = await self._setups.keep(subject, commit) if subject is not None else ()
        return await self._machine.checkouts.lay_out(name, commit, keep=keep)

    async def set_up(self, name: str, commit: str) -> None:
        """Set up what is laid out; RedSetUpError when that fails for this commit alone."""
        subject = await self._subject(name, commit)
        red = await self._setups.ready(subject, commit) if subject is not None else None
        if red is not None:
            raise RedSetUpError(f"set-up command `{red.command}` {red.end}", red.excerpt)

    async def _subject(self, name: str, commit: str) -> SetupSubject | None:
        settings = self._shared.settings()
        if not is_wanted(self._machine, settings.setup):
            return None
        # What the user has checked out is what people let in; builds have no lifecycle to ask.
        base = await self._machine.setup_facts.shared(commit, "HEAD") or commit
        place = hashlib.sha256(os.fsencode(self._machine.repo)).hexdigest()[:16]
        return SetupSubject(
            name=name,
            commands=settings.setup,
            base=base,
            target=base,
            attempt=0,
            mark=f"ci-{place}{name}",
            is_over=lambda: False,
        )
