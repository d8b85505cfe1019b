"""Deliveries: webhook requests that were received, from the raw bytes to their outcome.

Owns their form, reading their bodies, and the protocol of their store. Must not know
any forge's wording (`ci.forge_registry.Webhooks`) nor what a delivery leads to
(`ci.webhooks.dispatcher`).
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs

from ci.json_model import JsonModel

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

KEPT_FOR = 90 * 86_400.0
"""Seconds for which a delivery is remembered, so that a late copy of it is recognised."""
IGNORED_KEPT_FOR = 14 * 86_400.0
"""The same of one that is not about us: a whole organisation sends many, and a copy does no harm.
Longer than forges tell what they sent."""

BATCH_BYTES = 32 * 1024 * 1024
"""Bytes of bodies returned together; a longer one is returned alone."""
_FORM = "application/x-www-form-urlencoded"


class DeliveryState(StrEnum):
    """The processing state of a delivery."""

    RECEIVED = "received"
    """Stored, not processed yet."""
    MATCHED = "matched"
    """It concerned something that waited, which was then checked."""
    UNMATCHED = "unmatched"
    """Nothing waits for it yet; it is matched once something does."""
    IGNORED = "ignored"
    """Of a kind without information for us, or about another repository."""
    BROKEN = "broken"
    """Correctly signed, but not readable."""


class Hint(JsonModel):
    """What a delivery is about: where to check now. It is never trusted by itself."""

    repo: str = ""
    """owner/name as the delivery says."""
    branch: str = ""
    sha: str = ""
    numbers: tuple[int, ...] = ()
    """Of pull requests."""
    event: str = ""
    """The forge's name of the event and what was done: check_run.completed."""

    def concerns(self, *, branch: str, sha: str, number: int | None) -> bool:
        """Return whether something that waits for these should be checked."""
        return (
            (number is not None and number in self.numbers)
            or bool(self.sha and self.sha == sha)
            or bool(self.branch and self.branch == branch)
        )


class Delivery(JsonModel):
    """One webhook request."""

    key: str
    """`github:<the forge's id of it>`, else `github:sha256-<of the body>`."""
    provider: str
    """Who sent it (`ci.forge_registry.SENDERS`): the path it came to."""
    event: str
    received_at: float
    headers: dict[str, str]
    """The forge's own headers worth keeping; no secret and no signature."""
    body: bytes
    state: DeliveryState = DeliveryState.RECEIVED
    outcome: str = ""
    """One sentence for people: for which lifecycles the provider was asked, or why for none."""
    hint: Hint | None = None
    settled_at: float | None = None


def document(headers: Mapping[str, str], raw: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a body, sent plainly or as a form; None if there is none."""
    text: bytes | str = raw
    try:
        if headers.get("content-type", "").partition(";")[0].strip().lower() == _FORM:
            text = parse_qs(raw.decode(), strict_parsing=True, max_num_fields=16)["payload"][0]
        found = json.loads(text)
    except (ValueError, KeyError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


class Deliveries(Protocol):
    """The store of deliveries. Once a method has returned, its change survives a crash."""

    async def add(self, delivery: Delivery) -> bool:
        """Store it; return False, and change nothing, if its key is already known."""
        ...

    async def waiting(
        self, *, limit: int = 100, without: Collection[str] = (), most_bytes: int = BATCH_BYTES
    ) -> tuple[Delivery, ...]:
        """Return what was received and not processed yet, the oldest first.

        Keys in `without` are skipped; reading stops once the bodies exceed `most_bytes`.
        """
        ...

    async def unmatched(self, *, limit: int = 1000) -> tuple[Delivery, ...]:
        """Return unmatched deliveries, the oldest first, without bodies."""
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
        """Record their outcome; the hint is stored for a later match."""
        ...

    async def get(self, key: str) -> Delivery | None:
        """Return one delivery with its body."""
        ...

    async def list(
        self, *, state: DeliveryState | None = None, provider: str | None = None,
        before: int | None = None, limit: int = 50,
    ) -> tuple[tuple[int, Delivery], ...]:  # fmt: skip
        """Return a page, the newest first, each with its cursor and without its body."""
        ...

    async def prune(self, before: float, *, ignored_before: float | None = None) -> int:
        """Delete what was received before this instant and is processed; return how many.

        What is ignored is deleted if it was received before the other one, where that is given.
        """
        ...
