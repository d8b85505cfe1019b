"""What a forge tells about its webhooks: where they go, and what became of their last deliveries.

Owns the form of the answers and the protocol. Must not know what came here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ci.errors import ForbiddenError, ForgeError, MissingError
from ci.json_model import JsonModel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

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


class KnownHooks(JsonModel):
    """The webhooks that are sent to us, as far as the token may see them."""

    hooks: tuple[ForgeHook, ...] = ()
    unasked: tuple[str, ...] = ()
    """What could not be asked for its hooks, each with the forge's answer."""


@dataclass(frozen=True, slots=True)
class HookPlace:
    """Something that has webhooks."""

    of: str
    """owner/name of the repository, or `the organisation team`."""
    path: str
    """Its path in the API."""


@runtime_checkable
class KnowsHooks(Protocol):
    """A forge that can be asked for its webhooks."""

    async def hooks(self) -> KnownHooks:
        """Return those that are sent to us, by the end of their address.

        ForbiddenError or MissingError if the token may see none at all.
        """
        ...


async def hooks_at(
    places: Sequence[HookPlace], ask: Callable[[HookPlace], Awaitable[Sequence[ForgeHook]]]
) -> KnownHooks:
    """Ask each place; the repository comes first, and its refusal is the one that is raised."""
    found: list[ForgeHook] = []
    refused: list[tuple[HookPlace, ForgeError]] = []
    for place in places:
        try:
            found += await ask(place)
        except (ForbiddenError, MissingError) as error:
            refused.append((place, error))
    if len(refused) == len(places):
        raise refused[0][1]
    unasked = tuple(f"{place.of}: {error}" for place, error in refused)
    return KnownHooks(hooks=tuple(found), unasked=unasked)


def is_for_us(url: str, sender: str) -> bool:
    """Return whether the address is that of our endpoint, behind whatever proxy."""
    return url.partition("?")[0].rstrip("/").endswith(f"/hooks/{sender}")
