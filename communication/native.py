"""One thread that waits for directory events and passes them to the loop.

Owns the thread, which directories it watches and what became of them. Does not know how watching is
done (it is given an opener) nor what the events mean.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import threading
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Container

_Identity = tuple[int, int]


class Notifier(Protocol):
    """A native watch on a fixed set of directories."""

    def watch(
        self, debounce_ms: int, step_ms: int, timeout_ms: int, stop_event: threading.Event
    ) -> set[tuple[int, str]] | Literal["signal", "stop", "timeout"]:
        """Wait for changes or for the event."""

    def close(self) -> None:
        """Stop watching."""


class NativeWatch:
    """One thread that turns directory events into calls in the loop.

    It ends when it is ordered to watch nothing. A new watch is up before the old one goes.
    """

    def __init__(  # noqa: PLR0913  # built in one place only
        self,
        directories: frozenset[str],
        loop: asyncio.AbstractEventLoop,
        *,
        opener: Callable[[list[str]], Notifier],
        step_ms: int,
        names: Container[str],
        on_built: Callable[[NativeWatch, frozenset[str], float], None],
        on_changes: Callable[[NativeWatch, list[str]], None],
    ) -> None:
        self.ordered = directories
        self.absent: frozenset[str] = frozenset()
        """Directories that were ordered but did not exist when the watch was built."""
        self.failed = ""
        """Why nothing at all is watched."""
        self._identities: dict[str, _Identity] = {}
        self._loop = loop
        self._opener = opener
        self._step_ms = step_ms
        self._names = names
        self._on_built = on_built
        self._on_changes = on_changes
        self._reordered = threading.Event()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="mailbox-watch", daemon=True)
        self._thread.start()

    def order(self, directories: frozenset[str]) -> None:
        """Watch these from now on, and no others; nothing at all ends the thread."""
        self.ordered = directories
        self._reordered.set()

    def is_alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread.is_alive()

    def is_ordered(self, directory: str) -> bool:
        """Whether this very directory is watched, or about to be."""
        return directory in self.ordered and not self.has_lost(directory)

    def is_whole(self) -> bool:
        """Whether everything ordered is watched, as far as that shows without an event."""
        return not self.failed and not any(map(self.has_lost, self.ordered))

    def has_lost(self, directory: str) -> bool:
        """Whether another directory, or none, now stands where the watched one stood."""
        return self._identities.get(directory) != _identity(directory)

    async def wait_ended(self) -> None:
        """Return when the thread is gone."""
        await self._ended.wait()
        self._thread.join()

    def _run(self) -> None:
        notifier: Notifier | None = None
        try:
            while True:
                self._reordered.clear()
                wanted = self.ordered
                if not wanted:
                    return
                started = self._loop.time()
                fresh = self._open(wanted)
                if notifier is not None:
                    notifier.close()
                notifier = fresh
                took = self._loop.time() - started
                self._loop.call_soon_threadsafe(self._on_built, self, wanted, took)
                if notifier is None or not self._pass_on(notifier):
                    self._reordered.wait()
        except RuntimeError:
            # The loop was closed under us; nobody is left to tell.
            if not self._loop.is_closed():
                raise
        finally:
            if notifier is not None:
                notifier.close()
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._ended.set)

    def _open(self, wanted: frozenset[str]) -> Notifier | None:
        identities = {directory: _identity(directory) for directory in wanted}
        present = {name: found for name, found in identities.items() if found is not None}
        self._identities = present
        self.absent = wanted - present.keys()
        self.failed = ""
        if not present:
            return None
        try:
            return self._opener(sorted(present))
        except (OSError, RuntimeError) as error:
            self.failed = str(error)
            return None

    def _pass_on(self, notifier: Notifier) -> bool:
        """Tell of changes until there is a new order; False if watching broke down."""
        while True:
            try:
                found = notifier.watch(self._step_ms * 5, self._step_ms, 0, self._reordered)
            except (OSError, RuntimeError) as error:
                self.failed = str(error)
                self._loop.call_soon_threadsafe(self._on_built, self, self.ordered, 0.0)
                return False
            if not isinstance(found, set):
                return True
            # An agent's folder is busy; only what concerns us may wake the loop.
            ours = [path for _, path in found if path in self._names or path in self.ordered]
            if ours:
                self._loop.call_soon_threadsafe(self._on_changes, self, ours)


def _identity(directory: str) -> _Identity | None:
    try:
        found = os.stat(directory)  # noqa: PTH116  # the thread speaks in strings
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None
