"""What a worker tells its coordinator beside its work: that it lives, and what attempts left.

The work itself goes another way; without this link it is done all the same, and people see less of
it. Must not decide anything.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lifecycle.worker.sign_of_life import MOST_LACKS, MOST_WORDS, SignOfLife, SignsOfLife
from lifecycle.worker.upload import AttemptUploads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lifecycle.services import MachineServices
    from lifecycle.worker.upload import CoordinatorAddress
    from lifecycle.worker.worker import Worker

GRACE = 20.0
"""Seconds that are left at the end for files that are under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorLink:
    """The way to the coordinator, and what of this worker does not change."""

    to: CoordinatorAddress
    version: str
    labels: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    grace: float = GRACE

    @asynccontextmanager
    async def opened(self, machine: MachineServices, worker: Worker) -> AsyncIterator[None]:
        """Tell of the worker, and hand in what its attempts leave, for as long as this is open."""
        shared = machine.shared
        uploads = AttemptUploads(self.to, shared.report, now=shared.clock.now)

        def sign() -> SignOfLife:
            return SignOfLife(
                name=self.to.worker,
                machine=machine.machine_id,
                version=self.version,
                labels=self.labels,
                slots=shared.settings().max_live_agents,
                programs=self.programs,
                lacks=tuple(each[:MOST_WORDS] for each in (*self.lacks, *worker.refusals.values()))[
                    :MOST_LACKS
                ],
                lease=worker.lease,
                draining=worker.drains,
                now=shared.clock.now(),
            )

        async with SignsOfLife(self.to, sign, shared.report):
            machine.attempt_left = partial(uploads.begin, machine.paths)
            try:
                yield
            finally:
                await uploads.aclose(self.grace)
