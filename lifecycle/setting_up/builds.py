"""Sets up the checkouts in which local CI builds: for a commit, and no lifecycle.

Must not know a task: the general set-up commands are what it runs.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from ci.errors import RedSetUpError
from lifecycle.setting_up.checkouts import CheckoutSetups
from lifecycle.setting_up.commands import SetupCommands
from lifecycle.setting_up.plans import Plans
from lifecycle.setting_up.subjects import Subject, is_wanted
from runtime.setup.stamps import JUDGING, drop_stamp

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.parts import Parts


class BuildSetups:
    """The set-ups of all builds of one repository."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._setups = CheckoutSetups(parts, Plans(parts), SetupCommands(parts))

    async def lay_out(self, name: str, commit: str) -> Path:
        """Lay out a commit, with what was set up there before if it can stay."""
        subject = await self._subject(name, commit)
        if subject is None:
            drop_stamp(self._parts.paths.setup(name), JUDGING)
        keep = await self._setups.keep(subject, commit) if subject is not None else ()
        return await self._parts.checkouts.lay_out(name, commit, keep=keep)

    async def set_up(self, name: str, commit: str) -> None:
        """Set up what is laid out; RedSetUpError when that fails for this commit alone."""
        subject = await self._subject(name, commit)
        red = await self._setups.ready(subject, commit) if subject is not None else None
        if red is not None:
            raise RedSetUpError(f"set-up command `{red.command}` {red.end}", red.excerpt)

    async def _subject(self, name: str, commit: str) -> Subject | None:
        settings = self._parts.settings()
        if not is_wanted(self._parts, settings.setup):
            return None
        # What the user has checked out is what people let in; builds have no lifecycle to ask.
        base = await self._parts.setup_facts.shared(commit, "HEAD") or commit
        place = hashlib.sha256(os.fsencode(self._parts.repo)).hexdigest()[:16]
        return Subject(
            name=name,
            commands=settings.setup,
            base=base,
            target=base,
            attempt=0,
            mark=f"ci-{place}{name}",
            is_over=lambda: False,
        )
