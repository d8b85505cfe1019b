"""What all repositories of one server have in common: who may enter, where it is, when it ends.

Must not answer anything, and must not hold anything of a repository.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from orchestrator.web.edge.passes import SpentPasses
from orchestrator.web.edge.problems import refused, unknown
from orchestrator.web.edge.visitors import Door

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from orchestrator.runner.repositories import ServedRepository


class CommonServices:
    """The parts behind the endpoints of all."""

    def __init__(
        self,
        repositories: Sequence[ServedRepository],
        *,
        url: str,
        token: str,
        now: Callable[[], float],
        worker_token: str = "",
    ) -> None:
        self.repositories = repositories
        self.url = url
        self.now = now
        spent = SpentPasses(self._spent)
        self.door = Door(token, now=now, spent=spent, worker_token=worker_token)
        """One sign-in for all: the token is the server's."""
        self.turned_away: Counter[str] = Counter()
        self.pages = 0
        """Boards of all that are open."""
        self._left = asyncio.Event()

    @property
    def leaving(self) -> bool:
        """Whether the server is shutting down."""
        return self._left.is_set()

    @property
    def place(self) -> str:
        """What one signs in to, for people."""
        return f"{len(self.repositories)} repositories"

    async def note_sign_in(self, name: str, role: str) -> None:
        """Record in each repository who signed in, and as what."""
        served = [each.mounted for each in self.repositories if each.mounted is not None]
        told = (each.services.note_sign_in(name, role) for each in served)
        await asyncio.gather(*told, return_exceptions=True)

    def repository(self, name: str) -> ServedRepository:
        """Return the repository of a name."""
        found = next((each for each in self.repositories if each.name == name), None)
        if found is None:
            raise unknown(
                f"there is no repository {name[:100]!r} here",
                "GET /api/v1/repositories lists their names",
            )
        return found

    def open(self, name: str) -> ServedRepository:
        """Have a repository that is broken opened now."""
        it = self.repository(name)
        if it.well:
            raise refused(f"{name} is not broken: it is {it.status}", "ask for it")
        it.anew.set()
        return it

    def leave(self) -> None:
        """End the streams."""
        self._left.set()

    async def looked_again(self, seconds: float) -> None:
        """Wait so long, or until the server ends."""
        try:
            async with asyncio.timeout(seconds):
                await self._left.wait()
        except TimeoutError:
            return

    def _spent(self, id_: str, until: float) -> None:
        """Remember a used link with each repository: any of them may be the one that is left."""
        for each in self.repositories:
            if each.mounted is not None:
                each.mounted.services.keep_spent(id_, until)
