"""What an owner and the one that decides for it elsewhere say to each other.

Nouns: a *beginning* is a lifecycle as the store has it; a *telling* is one fact, and its *answer*
is what it came to. Pure values, each in the one JSON form. Must not know how they travel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from lifecycle.drive import WorkingCopy
from lifecycle.errors import LifecycleError
from lifecycle.machine import effects as do
from lifecycle.machine.effects import Effect
from lifecycle.machine.events import Event
from lifecycle.machine.policy import Policy
from lifecycle.record import PendingEffect, Transaction

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

ON_A_WORKER = (
    do.PrepareWorkspace,
    do.SpawnAgent,
    do.StopAgent,
    do.FreezeAgent,
    do.ThawAgent,
    do.TakeSnapshot,
    do.RunGates,
    do.RunReview,
)
"""Orders that need a workspace or an agent; all others touch what is shared."""


def on_a_worker(effect: Effect) -> bool:
    """Tell whether an order is performed by a worker, not where the record is kept."""
    return isinstance(effect, ON_A_WORKER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What decisions and work go by; changed by settings and plans in the middle of a lifecycle."""

    policy: Policy
    work: dict[str, Any] = field(default_factory=dict)
    """What a worker has to know beside the working copy, in plain values; not read on the way.

    Empty while nobody needs it, or while it cannot be found out: no worker gets it so long.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class FactAnswer:
    """What a fact came to."""

    refused: str = ""
    seq: int = 0
    """Of the latest journal entry that it led to; 0 if nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """A lifecycle to be decided on from now on."""

    copy: WorkingCopy
    terms: Terms
    orders: tuple[PendingEffect, ...] = ()
    """Those for a worker that are not known to be carried out, and that one may have been given."""
    ordered: tuple[PendingEffect, ...] = ()
    """Those for a worker that none was given yet."""
    visits: int = 0
    """How often workers had it since this began to be decided elsewhere."""
    done: tuple[str, ...] = ()
    """Orders that are carried out, and of which no commit told yet."""
    answers: dict[str, FactAnswer] = field(default_factory=dict)
    """The last answers, by the id of what was asked: it may be asked again where one was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """One fact from where the record is kept."""

    event: Event
    effect_id: str = ""
    request_id: int = 0
    terms: Terms | None = None
    """If they are others than before."""


class DecisionLostError(LifecycleError):
    """Nobody decides on this lifecycle any more; the store has what it came to."""


class TooLargeToTravelError(LifecycleError):
    """What is to be told takes more bytes than may travel."""


class Decider(Protocol):
    """Decides on lifecycles elsewhere, and hands back what is to be written."""

    async def begin(
        self, beginning: Beginning, keep: Callable[[tuple[Transaction, ...]], Awaitable[None]]
    ) -> None:
        """Have a lifecycle decided on; one that is already goes on, with these terms.

        `keep` is called with commits in their order, each until it returned once.
        """
        ...

    async def take(self, agent_id: str, telling: Telling) -> FactAnswer:
        """Return what a fact came to; DecisionLostError where nobody decides any more.

        TooLargeToTravelError where it cannot be told as it is.
        """
        ...

    async def release(self, agent_id: str) -> tuple[str, ...]:
        """Decide no more; returns, once all is kept, the orders that no commit tells are done."""
        ...

    def part(self, agent_id: str) -> None:
        """Hand no commit to this process any more; what is decided elsewhere goes on."""
        ...
