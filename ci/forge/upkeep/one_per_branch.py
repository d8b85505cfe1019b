"""One pull request per branch, also where the answer to opening it is lost.

Owns what is remembered of an order without an answer: it is looked for before it is given again,
and what the forge makes of it, however late, is known as ours. Must not open anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci.errors import ForbiddenError, MissingError, RefusedError, UnreachableError
from ci.forge.upkeep.words_and_people import fingerprint
from ci.interface import PullRequestState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ci.forge.memory import Memory
    from ci.forge.protocol import Forge, ForgePull, NewPull

UNHEARD_FOR = 60.0
"""Seconds for which a pull request is only looked for after the answer to opening it was lost."""
LATE_FOR = 86_400.0
"""Seconds within which a forge may still carry out an order whose answer was lost."""


@dataclass(frozen=True, slots=True)
class OnePerBranch:
    """The orders to open pull requests in one forge's repository, and what came of them."""

    forge: Forge
    memory: Memory
    now: Callable[[], float]

    async def ask(self, new: NewPull) -> None:
        """Record an order before it is given; refuse while an earlier one may be carried out."""
        branch, asked = new.branch, self.memory.asked_for(new.branch)
        if asked is not None and self.now() < asked + UNHEARD_FOR:
            raise UnreachableError(
                f"{self.forge.place} was asked to open a pull request for {branch} and gave no "
                "answer: it is looked for before it is asked for again",
                retry_at=asked + UNHEARD_FOR,
            )
        await self.memory.ask_for(branch, fingerprint(new.title, new.body))

    async def opened(self, made: ForgePull, title: str, body: str) -> None:
        """Record what an order in these words made."""
        await self.memory.made_one(made.branch, made.number)
        await self.memory.heard_of(made.branch, fingerprint(title, body))

    async def refused(self, new: NewPull) -> None:
        """Record that the newest order makes nothing."""
        await self.memory.heard_of(new.branch, fingerprint(new.title, new.body))
        await self.memory.answered(new.branch)

    def is_late(self, pull: ForgePull) -> bool:
        """Return whether an order without an answer made it."""
        unheard = self._unheard(pull.branch)
        if not unheard or not pull.ours or pull.number in self.memory.made(pull.branch):
            return False
        return fingerprint(pull.title, pull.body) in unheard

    async def oldest(self, found: ForgePull) -> int:
        """Return the oldest that is open for its branch, and close a newer one of ours."""
        branch = found.branch
        asked = self.memory.asked_for(branch) is not None or self._unheard(branch)
        if not asked or found.state is not PullRequestState.OPEN:
            return found.number
        same = [pull for pull in await self.forge.open_pulls() if _are_doubles(pull, found)]
        oldest = min((pull.number for pull in same), default=found.number)
        for pull in same:
            if pull.number != oldest and self._is_ours(pull):
                await self._close(pull, oldest)
        await self.memory.answered(branch)
        return oldest

    async def close_late(
        self, listed: Collection[ForgePull], waited_for: Collection[int | None]
    ) -> None:
        """Close what an order made that was thought lost, beside the older one waited for."""
        late = [pull for pull in listed if pull.number not in waited_for and self.is_late(pull)]
        for pull in late:
            older = [
                each.number
                for each in listed
                if each.number in waited_for
                and each.number < pull.number
                and _are_doubles(each, pull)
            ]
            if older:
                try:
                    await self._close(pull, min(older))
                except (ForbiddenError, MissingError, RefusedError):
                    continue  # the older one is waited for all the same

    async def _close(self, pull: ForgePull, oldest: int) -> None:
        await self.forge.close_pull(pull.number)
        if self.is_late(pull):
            await self.opened(pull, pull.title, pull.body)
        text = f"Closed: pull request {oldest} is open for the same branch."
        await self.forge.comment(pull.number, text)

    def _is_ours(self, pull: ForgePull) -> bool:
        return pull.number in self.memory.made(pull.branch) or self.is_late(pull)

    def _unheard(self, branch: str) -> tuple[str, ...]:
        return self.memory.unheard(branch, since=self.now() - LATE_FOR)


def _are_doubles(one: ForgePull, other: ForgePull) -> bool:
    return one.ours and (one.branch, one.base) == (other.branch, other.base)
