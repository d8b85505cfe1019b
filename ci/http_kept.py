"""Answers that were kept, to be used again when the server says that they still hold.

Owns the bounds. Must not know HTTP.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ci.http_answer import Answer

Key = tuple[str, str]
"""The address with its query, and the form that was asked for."""


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer and how to ask whether it still holds."""

    answer: Answer
    etag: str
    modified: str
    size: int
    """Bytes of the body as it was sent: a measure of the memory it takes."""

    def question(self) -> tuple[str, str]:
        """Return the header that asks for news only."""
        if self.etag:
            return "if-none-match", self.etag
        return "if-modified-since", self.modified


class Kept:
    """The answers that were used last, as many as fit."""

    def __init__(self, *, entries: int = 2048, size: int = 16 * 1024 * 1024) -> None:
        self._entries = entries
        self._size = size
        self._used = 0
        self._answers: OrderedDict[Key, KeptAnswer] = OrderedDict()

    def __len__(self) -> int:
        """Count them."""
        return len(self._answers)

    @property
    def size(self) -> int:
        """How much of the room is taken."""
        return self._used

    def find(self, key: Key) -> KeptAnswer | None:
        """Return what was kept, if it is still there."""
        kept = self._answers.get(key)
        if kept is not None:
            self._answers.move_to_end(key)
        return kept

    def keep(self, key: Key, kept: KeptAnswer) -> None:
        """Keep it, letting go those that were not used for longest; too large a one is not kept."""
        self.forget(key)
        if kept.size > self._size or not (kept.etag or kept.modified):
            return
        self._answers[key] = kept
        self._used += kept.size
        while self._used > self._size or len(self._answers) > self._entries:
            _, gone = self._answers.popitem(last=False)
            self._used -= gone.size

    def forget(self, key: Key) -> None:
        """Let go this one."""
        gone = self._answers.pop(key, None)
        if gone is not None:
            self._used -= gone.size
