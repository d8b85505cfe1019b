"""What a forge tells about its webhooks: where they go, and what became of their last deliveries.

Owns the form of the answers and the protocol. Must not know what came here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ci.json_model import JsonModel

if TYPE_CHECKING:
    from collections.abc import Sequence

LAST = 30
"""Deliveries of each hook that are asked for."""


class SentDelivery(JsonModel):
    """A delivery as its sender remembers it."""

    id: str
    """As it came in the headers of the delivery."""
    event: str = ""
    at: float = 0.0
    """0 where the forge does not tell."""
    answer: str = ""
    """The status or the problem that the forge was answered with."""


class ForgeHook(JsonModel):
    """One webhook of a repository, or of what the repository belongs to."""

    url: str
    of: str
    """Of what it is: owner/name, or the organisation."""
    active: bool = True
    deliveries: tuple[SentDelivery, ...] | None = None
    """The newest ones; None where the forge does not tell."""


@runtime_checkable
class KnowsHooks(Protocol):
    """A forge that can be asked for its webhooks."""

    async def hooks(self) -> Sequence[ForgeHook]:
        """Return those that are sent to us, by the end of their address."""
        ...


def is_for_us(url: str, sender: str) -> bool:
    """Return whether the address is that of our endpoint, behind whatever proxy."""
    return url.partition("?")[0].rstrip("/").endswith(f"/hooks/{sender}")
