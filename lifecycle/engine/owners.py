"""Who owns the lifecycles of an engine: this process, which then also ends what a crash left.

An engine over many machines gives others. Must not decide what a lifecycle does.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from lifecycle.engine.elsewhere import require_no_worker
from lifecycle.engine.recovery import end_strays, recover
from lifecycle.owner.owner import Owner
from lifecycle.shortage_retry import patiently

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from lifecycle.perform.performer import Performer
    from lifecycle.services import MachineServices
    from lifecycle.working_copy import LocalCopy


class Owners(Protocol):
    """Makes the owner of each lifecycle."""

    def of(self, local: LocalCopy) -> Owner:
        """Return a new owner of this lifecycle, which nobody else owns."""
        ...

    async def start(self) -> None:
        """End what nobody watches any more, before anything begins."""
        ...

    async def recover(
        self, claim: Callable[[str], AbstractContextManager[bool]]
    ) -> tuple[str, ...]:
        """Bring to safety what a crash left in mid-attempt; returns the agent ids.

        `claim` keeps others away from a lifecycle, or says that somebody has it.
        """
        ...


class LocalOwners:
    """Every lifecycle is decided and worked on in this process."""

    def __init__(self, machine: MachineServices, performer: Performer) -> None:
        self._machine, self._performer = machine, performer

    def of(self, local: LocalCopy) -> Owner:
        """Return a new owner of this lifecycle; LifecycleError where a worker is at it."""
        require_no_worker(local.record)
        return Owner(local, self._machine.shared, self._performer)

    async def start(self) -> None:
        """End the processes that an earlier runner of this machine left alive."""
        await patiently(partial(end_strays, self._machine), self._machine.shared.report)

    async def recover(
        self, claim: Callable[[str], AbstractContextManager[bool]]
    ) -> tuple[str, ...]:
        """Bring to safety what a crash of this machine left in mid-attempt."""
        return await recover(self._machine, self._performer, claim)
