"""Notices changes of any number of mailboxes, by one native watch and one slow poll for all.

Owns the native watch of directories, in a separate process, and the polling. It must not evaluate
content, nor lose a breakpoint if native watching fails: it continues by polling and says so.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Self

from communication.native_watch import NativeWatch
from communication.subscription import Subscription, WatchedFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from communication.mailbox import Mailbox, MailboxReading

_BATCH_S = 0.02
"""New directories are collected this long before the native watch is rebuilt; meanwhile they are
polled as often."""
_MOST_FOLDERS = 4096
_LINGER_S = 1.0
"""A directory without subscriptions is watched this much longer: the next attempt of its agent will
probably need it."""
_REST_PER_BUILD = 10
"""Rebuilding takes time per directory; it may use at most one part in this many."""
_LONGEST_REST_S = 2.0
_POLLS_TO_RETRY = 10
"""Polls between two retries after native watching failed as a whole."""


class MailboxWatcher:
    """One watcher for all subscriptions of a loop. All methods belong to the loop's thread."""

    def __init__(
        self,
        *,
        poll_interval: float = 1.0,
        settle_s: float = 2.0,
        polls_only: bool = False,
    ) -> None:
        """With `polls_only` no watching process is started."""
        self._poll_interval = poll_interval
        self._polls_only = polls_only
        self._settle_s = settle_s
        self._files: dict[str, WatchedFile] = {}
        self._real_folders: dict[str, str] = {}
        self._native: NativeWatch | None = None
        self._uncovered: set[WatchedFile] = set()
        self._build_timer: asyncio.TimerHandle | None = None
        self._poll_timer: asyncio.TimerHandle | None = None
        self._peek_timer: asyncio.TimerHandle | None = None
        self._rested_at = 0.0
        self._polls_since_failure = 0
        self._closed = False
        self.degraded: str | None = None
        """Why some or all mailboxes are only polled now; None if all are watched."""

    async def __aenter__(self) -> Self:
        """Start nothing: the watch comes with the first subscription."""
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all subscriptions and wait until the native watch has ended. Idempotent."""
        self._closed = True
        for file in tuple(self._files.values()):
            for subscription in tuple(file.subscriptions):
                subscription.close()
        for timer in (self._build_timer, self._poll_timer, self._peek_timer):
            if timer is not None:
                timer.cancel()
        if self._native is not None:
            self._native.close()
            await self._native.wait_ended()

    def subscribe(
        self,
        mailbox: Mailbox,
        agent_id: str,
        *,
        spawn_id: str | None,
        task_id: str | None,
        on_reading: Callable[[MailboxReading], None],
    ) -> Subscription:
        """Call `on_reading` for each new signal, stale signal or settled fault of this agent."""
        if self._closed:
            raise RuntimeError("the mailbox watcher is closed; make a new one")
        loop = asyncio.get_running_loop()
        directory = self._real_folder(mailbox.path)
        name = f"{directory}/{mailbox.path.name}"
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = WatchedFile(mailbox, directory, loop, self._settle_s)
            self._cover(file, loop)
        subscription = Subscription(
            file,
            agent_id,
            spawn_id=spawn_id,
            task_id=task_id,
            on_reading=on_reading,
            on_close=lambda closed: self._release(name, closed),
            loop=loop,
        )
        file.subscriptions[subscription] = None
        file.changed()
        return subscription

    def _real_folder(self, path: Path) -> str:
        """Resolve the folder of a mailbox once; polling covers later changes of links."""
        asked = os.path.dirname(path)  # noqa: PTH120  # as text, for each attempt
        real = self._real_folders.get(asked)
        if real is None:
            if len(self._real_folders) >= _MOST_FOLDERS:
                self._real_folders.clear()
            real = self._real_folders[asked] = os.path.realpath(asked)
        return real

    def _release(self, name: str, subscription: Subscription) -> None:
        file = subscription.file
        del file.subscriptions[subscription]
        if not file.subscriptions:
            file.close()
            del self._files[name]
            self._uncovered.discard(file)
            if not self._closed:
                self._build_in(_LINGER_S)

    def _cover(self, file: WatchedFile, loop: asyncio.AbstractEventLoop) -> None:
        if self._poll_timer is None:
            self._poll_timer = loop.call_later(self._poll_interval, self._poll)
        native = self._native
        if self._polls_only:
            return
        if native is None or not native.is_ordered(file.directory, file.name):
            self._uncovered.add(file)
            self._build_in(_BATCH_S)
            if self._peek_timer is None:
                self._peek_timer = loop.call_later(_BATCH_S, self._peek)

    def _peek(self) -> None:
        self._peek_timer = None
        for file in self._uncovered:
            file.poll()
        if self._uncovered:
            self._peek_timer = asyncio.get_running_loop().call_later(_BATCH_S, self._peek)

    def _poll(self) -> None:
        self._poll_timer = None
        if not self._files:
            return
        native = self._native
        for file in self._files.values():
            if file.poll() and native is not None and native.has_lost(file.directory):
                self._build_in(_BATCH_S)
        if native is not None and any(map(native.has_lost, native.absent)):
            self._build_in(_BATCH_S)
        if native is not None and native.failed:
            self._polls_since_failure += 1
            if self._polls_since_failure >= _POLLS_TO_RETRY:
                self._build_in(_BATCH_S)
        self._poll_timer = asyncio.get_running_loop().call_later(self._poll_interval, self._poll)

    def _build_in(self, delay: float) -> None:
        if self._polls_only:
            return
        loop = asyncio.get_running_loop()
        when = max(loop.time() + delay, self._rested_at)
        if self._build_timer is not None:
            if self._build_timer.when() <= when:
                return
            self._build_timer.cancel()
        self._build_timer = loop.call_at(when, self._build)

    def _build(self) -> None:
        self._build_timer = None
        wanted = frozenset(file.directory for file in self._files.values())
        names = frozenset(file.name for file in self._files.values())
        if not wanted:
            self.degraded = None
        if self._native is None:
            self._native = NativeWatch(on_built=self._built, on_changes=self._changed)
        native = self._native
        if (native.ordered, native.names) != (wanted, names) or not native.is_whole():
            native.order(wanted, names)

    def _built(self, native: NativeWatch, directories: frozenset[str], took: float) -> None:
        rest = min(_REST_PER_BUILD * took, _LONGEST_REST_S)
        self._rested_at = asyncio.get_running_loop().time() + rest
        self._polls_since_failure = 0
        self.degraded = self._reason(native)
        self._uncovered = {file for file in self._uncovered if file.directory not in directories}
        # Finds changes made while the watch was replaced.
        for file in self._files.values():
            file.poll()

    def _reason(self, native: NativeWatch) -> str | None:
        how = f"mailboxes are polled every {self._poll_interval:g} s"
        if native.failed:
            return f"the system refuses to watch directories ({native.failed}): {how}"
        if native.absent:
            some = ", ".join(sorted(native.absent)[:3])
            return f"folders of mailboxes do not exist ({len(native.absent)}: {some}): {how}"
        return None

    def _changed(self, native: NativeWatch, paths: list[str]) -> None:
        for path in paths:
            file = self._files.get(path)
            if file is not None:
                file.changed()
            elif native.has_lost(path):
                self._build_in(_BATCH_S)
