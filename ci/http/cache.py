"""The cache of responses, reused when the server says that they are still valid.

Owns its size limits. Must not know HTTP.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ci.http.response import Response

Key = tuple[str, str]
"""The address with its query, and the requested media type."""


def question(kept: Response) -> dict[str, str]:
    """Return the header of a conditional request; empty if the response has no validator."""
    if etag := kept.headers.get("etag"):
        return {"if-none-match": etag}
    modified = kept.headers.get("last-modified")
    return {"if-modified-since": modified} if modified else {}


class Cache:
    """The most recently used responses, as many as fit."""

    def __init__(self, *, entries: int = 2048, size: int = 16 * 1024 * 1024) -> None:
        self._entries = entries
        self._most = size
        self._answers: OrderedDict[Key, tuple[Response, int]] = OrderedDict()
        self.size = 0
        """Bytes of the bodies as received: a measure of the memory they take."""

    def __len__(self) -> int:
        """Count them."""
        return len(self._answers)

    def find(self, key: Key) -> Response | None:
        """Return the cached response, if there is one."""
        if key not in self._answers:
            return None
        self._answers.move_to_end(key)
        return self._answers[key][0]

    def keep(self, key: Key, answer: Response, size: int) -> None:
        """Cache it, evicting the least recently used; one that is too large is not cached."""
        self.forget(key)
        if size > self._most or not question(answer):
            return
        self._answers[key] = answer, size
        self.size += size
        while self.size > self._most or len(self._answers) > self._entries:
            self.forget(next(iter(self._answers)))

    def forget(self, key: Key) -> None:
        """Drop it."""
        _, size = self._answers.pop(key, (None, 0))
        self.size -= size
