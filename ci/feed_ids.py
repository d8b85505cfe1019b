"""The ids of events that are not kept any more, so that none of them is told anew.

Owns their form: digests, many to a document. Must not know what an event is.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci.interface import Documents

DOCUMENTS = 1_000
"""Kept at most; the ids of older events are forgotten wholly."""


class ForgottenIds:
    """Documents of digests, read once and written through."""

    def __init__(self, collection: str) -> None:
        self._collection = collection
        self._documents: Documents | None = None
        self._held: dict[str, list[str]] = {}
        self._digests: set[str] = set()

    async def open(self, documents: Documents) -> None:
        """Read what was forgotten."""
        self._documents = documents
        bodies = await documents.all(self._collection)
        self._held = {key: list(bodies[key]["ids"]) for key in sorted(bodies)}
        self._digests = {digest for held in self._held.values() for digest in held}

    def __contains__(self, event_id: str) -> bool:
        """Tell whether an event of this id was forgotten."""
        return _digest(event_id) in self._digests

    async def add(self, number: int, event_ids: Sequence[str]) -> None:
        """Keep the ids of forgotten events; `number` is that of the newest of them."""
        if self._documents is None:
            return
        key, digests = f"{number:012}", [_digest(each) for each in event_ids]
        await self._documents.put(self._collection, key, {"ids": digests})
        self._held[key] = digests
        self._digests.update(digests)
        while len(self._held) > DOCUMENTS:
            oldest = next(iter(self._held))
            await self._documents.delete(self._collection, oldest)
            self._digests.difference_update(self._held.pop(oldest))


def _digest(event_id: str) -> str:
    return hashlib.sha256(event_id.encode(errors="replace")).hexdigest()[:16]
