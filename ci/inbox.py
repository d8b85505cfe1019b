"""Deliveries: webhook requests that were received, from the raw bytes to what came of them.

Owns their form and the port of the place where they are kept. Must not know any forge's wording
(`ci.hooks`) nor what a delivery leads to (`ci.dispatch`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

KEPT_FOR = 90 * 86_400.0
"""Seconds that a delivery is known, so that a late copy of it is not taken for news."""

BATCH_BYTES = 32 * 1024 * 1024
"""Of bodies that are handed out together; one that is longer comes alone."""


class DeliveryState(StrEnum):
    """What became of a delivery."""

    RECEIVED = "received"
    """Kept, and not worked on yet."""
    MATCHED = "matched"
    """It concerned something that waited, and that was looked at."""
    UNMATCHED = "unmatched"
    """Nothing waits for it yet; it is matched when something does."""
    IGNORED = "ignored"
    """Of a kind that tells us nothing, or about another repository."""
    BROKEN = "broken"
    """Rightly signed, but not to be understood."""


class Hint(BaseModel):
    """What a delivery is about: where it is worth while to ask now. Never the truth itself."""

    model_config = ConfigDict(frozen=True)

    repo: str = ""
    """owner/name as the delivery says."""
    branch: str = ""
    sha: str = ""
    numbers: tuple[int, ...] = ()
    """Of pull requests."""
    event: str = ""
    """The forge's name of the event and what was done: check_run.completed."""

    def concerns(self, *, branch: str, sha: str, number: int | None) -> bool:
        """Tell whether something that waits for these should be looked at."""
        return (
            (number is not None and number in self.numbers)
            or bool(self.sha and self.sha == sha)
            or bool(self.branch and self.branch == branch)
        )


class Delivery(BaseModel):
    """One webhook request."""

    model_config = ConfigDict(frozen=True)

    key: str
    """`github:<the forge's id of it>`, else `github:sha256-<of the body>`."""
    provider: str
    """github, gitlab, gitea, generic: the path it came to."""
    event: str
    received_at: float
    headers: dict[str, str]
    """Those of the forge that say something; no secret and no signature."""
    body: bytes
    state: DeliveryState = DeliveryState.RECEIVED
    outcome: str = ""
    """One sentence for people: whom it woke, or why nobody."""
    hint: Hint | None = None
    settled_at: float | None = None


class Deliveries(Protocol):
    """Where deliveries are kept. What a method acknowledged by returning survives a crash."""

    async def add(self, delivery: Delivery) -> bool:
        """Keep it; False, and nothing changed, if one of this key is known already."""
        ...

    async def waiting(
        self, *, limit: int = 100, without: Collection[str] = (), most_bytes: int = BATCH_BYTES
    ) -> tuple[Delivery, ...]:
        """Return what was received and not worked on yet, the oldest first.

        Nothing is read of those `without`, and no more once the bodies have so many bytes.
        """
        ...

    async def unmatched(self, *, limit: int = 1000) -> tuple[Delivery, ...]:
        """Return what nothing waited for yet, the oldest first, without bodies."""
        ...

    async def settle(
        self,
        keys: Sequence[str],
        state: DeliveryState,
        outcome: str,
        *,
        at: float,
        hint: Hint | None = None,
    ) -> None:
        """Note what became of them; the hint is kept for a later match."""
        ...

    async def get(self, key: str) -> Delivery | None:
        """Return one, whole."""
        ...

    async def list(
        self, *, state: DeliveryState | None = None, provider: str | None = None,
        before: int | None = None, limit: int = 50,
    ) -> tuple[tuple[int, Delivery], ...]:  # fmt: skip
        """Return a page, the newest first, each with its cursor and without its body."""
        ...

    async def prune(self, before: float) -> int:
        """Forget what was received before this instant and is worked on; returns how many."""
        ...
