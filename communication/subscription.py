"""Subscriptions to mailbox files, and what each has received already.

Owns when a reading is delivered: a signal at once and only once, a fault only after it has settled.
It must not know how changes are noticed.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from communication.mailbox import ReadingKind

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from communication.mailbox import Document, Mailbox, MailboxReading

_REMEMBERED = 64
"""Remembered readings per subscription, bounded so that a flood cannot fill the memory."""

_REST_PER_LOOK = 10
"""Minimum pause between reads, as a multiple of the time of the last read: one agent with a huge
file must not delay the others."""

_LONGEST_REST_S = 0.5


class WatchedFile:
    """One mailbox file with all its subscriptions; read once per change for all."""

    def __init__(
        self, mailbox: Mailbox, directory: str, loop: asyncio.AbstractEventLoop, settle_s: float
    ) -> None:
        self.directory = directory
        self.name = mailbox.path.name
        self.subscriptions: dict[Subscription, None] = {}
        self._mailbox = mailbox
        self._loop = loop
        self._settle_s = settle_s
        self._stamp: tuple[int, int, int] | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._rested_at = 0.0

    def changed(self) -> None:
        """Read the content soon, whatever the stamp says."""
        self._look_at(self._loop.time())

    def poll(self) -> bool:
        """Read soon if the stamp changed since the last read; tell whether it did."""
        if self._mailbox.stamp() == self._stamp:
            return False
        self.changed()
        return True

    def close(self) -> None:
        """Stop reading."""
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None

    def load(self) -> Document:
        """Read the file right now."""
        return self._mailbox.load()

    def _look_at(self, when: float) -> None:
        when = max(when, self._rested_at)
        if self._next_look is not None:
            if self._next_look.when() <= when:
                return
            self._next_look.cancel()
        self._next_look = self._loop.call_at(when, self._look)

    def _look(self) -> None:
        self._next_look = None
        started = self._loop.time()
        # Taken before reading: a change in between is then seen by the next poll.
        self._stamp = self._mailbox.stamp()
        document = self._mailbox.load()
        unsettled = [
            due
            for subscription in self.subscriptions
            if (due := subscription.consider(document, started, self._settle_s)) is not None
        ]
        ended = self._loop.time()
        self._rested_at = ended + min(_REST_PER_LOOK * (ended - started), _LONGEST_REST_S)
        if unsettled:
            self._look_at(min(unsettled))


class Subscription:
    """One agent's attempt waiting for its signal."""

    def __init__(  # noqa: PLR0913  # built in one place only
        self,
        file: WatchedFile,
        agent_id: str,
        *,
        spawn_id: str | None,
        task_id: str | None,
        on_reading: Callable[[MailboxReading], None],
        on_close: Callable[[Subscription], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.file = file
        self._agent_id = agent_id
        self._spawn_id = spawn_id
        self._task_id = task_id
        self._on_reading = on_reading
        self._on_close = on_close
        self._loop = loop
        self._closed = False
        self._told: deque[tuple[ReadingKind, str]] = deque(maxlen=_REMEMBERED)
        self._suspect = ("", 0.0)

    def check(self) -> MailboxReading:
        """Read right now; a half-written file is invalid at once here.

        What is found is still delivered as usual.
        """
        return self._judged(self.file.load())

    def close(self) -> None:
        """Receive nothing more, not even what was already found. Idempotent."""
        if not self._closed:
            self._closed = True
            self._on_close(self)

    def consider(self, document: Document, now: float, settle_s: float) -> float | None:
        """Deliver the reading if it is new; return when to read again if it has yet to settle."""
        reading = self._judged(document)
        news = (reading.kind, reading.digest)
        if reading.kind is not ReadingKind.INVALID:
            self._suspect = ("", 0.0)
        if not reading.digest or news in self._told:
            return None
        if reading.kind is ReadingKind.INVALID:
            if self._suspect[0] != reading.digest:
                self._suspect = (reading.digest, now)
            due = self._suspect[1] + settle_s
            if now < due:
                return due
        self._told.append(news)
        # A separate callback in the loop: an error in it is reported by the loop and harms no
        # other subscriber.
        self._loop.call_soon(self._hand_on, reading)
        return None

    def _judged(self, document: Document) -> MailboxReading:
        return document.reading(self._agent_id, spawn_id=self._spawn_id, task_id=self._task_id)

    def _hand_on(self, reading: MailboxReading) -> None:
        if not self._closed:
            self._on_reading(reading)
