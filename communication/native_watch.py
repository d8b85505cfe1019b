"""The runner's side of the process that watches directories.

Owns that process, which directories it watches and whether that works. It must not know what the
events mean, nor start a thread: the output of the process is read by the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
import subprocess
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from communication import watch_process

if TYPE_CHECKING:
    from collections.abc import Callable

_Identity = tuple[int, int]

_HOST = Path(watch_process.__file__)
_AT_ONCE = 1 << 16
_LOADING = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")
"""Variables that some interpreters need to find their own library."""
_SEEN_TO = 0.01
"""Seconds between two checks whether the process is gone."""
_PATIENCE = 2.0
"""Seconds in which it must end by itself."""


class NativeWatch:
    """A process that reports changes in directories, by callbacks in the loop.

    It ends when nothing is to be watched. A new watch is active before the old one ends.
    """

    def __init__(
        self,
        *,
        on_built: Callable[[NativeWatch, frozenset[str], float], None],
        on_changes: Callable[[NativeWatch, list[str]], None],
    ) -> None:
        self.ordered: frozenset[str] = frozenset()
        self.names: frozenset[str] = frozenset()
        """Names of files whose changes are reported."""
        self.absent: frozenset[str] = frozenset()
        """Directories that were requested but did not exist when the watch was built."""
        self.failed = ""
        """Why nothing is watched, if so."""
        self._identities: dict[str, _Identity] = {}
        self._loop = asyncio.get_running_loop()
        self._on_built = on_built
        self._on_changes = on_changes
        self._process: subprocess.Popen[bytes] | None = None
        self._ending: set[subprocess.Popen[bytes]] = set()
        """Processes that were told to end and are not gone yet."""
        self._number = 0
        """Of the latest order."""
        self._unsent = b""
        self._unread = b""

    def order(self, directories: frozenset[str], names: frozenset[str]) -> None:
        """Watch these from now on, and no others; with none the process ends."""
        self.ordered, self.names = directories, names
        identities = {directory: _identity(directory) for directory in directories}
        present = {name: found for name, found in identities.items() if found is not None}
        self._identities = present
        self.absent = directories - present.keys()
        if not present:
            self.close()
            if directories:
                self._loop.call_soon(self._answered, directories, "", 0.0)
            return
        try:
            self._begin()
        except (OSError, ValueError, ImportError, MemoryError) as error:
            self._loop.call_soon(self._answered, directories, str(error), 0.0)
            return
        self._number += 1
        line = json.dumps([self._number, sorted(present), sorted(names)])
        self._unsent += line.encode() + b"\n"
        self._send()

    def is_ordered(self, directory: str, name: str) -> bool:
        """Whether exactly this directory and name are watched, or about to be."""
        return directory in self.ordered and name in self.names and not self.has_lost(directory)

    def is_whole(self) -> bool:
        """Whether everything requested is watched, as far as known without an event."""
        return not self.failed and not any(map(self.has_lost, self.ordered))

    def has_lost(self, directory: str) -> bool:
        """Whether the watched directory was removed or replaced."""
        return self._identities.get(directory) != _identity(directory)

    def close(self) -> None:
        """End the process; further output is ignored."""
        process, self._process = self._process, None
        if process is None:
            return
        self._unsent = self._unread = b""
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                self._loop.remove_reader(pipe.fileno())
                self._loop.remove_writer(pipe.fileno())
                with contextlib.suppress(OSError):
                    pipe.close()
        self._ending.add(process)
        self._see_off(process, self._loop.time() + _PATIENCE)

    async def wait_ended(self) -> None:
        """Return when no process is left of those that were told to end."""
        while self._ending:  # noqa: ASYNC110  # nothing else tells of it without a thread
            await asyncio.sleep(_SEEN_TO)

    def _see_off(self, process: subprocess.Popen[bytes], until: float) -> None:
        if process.poll() is not None:
            self._ending.discard(process)
            return
        if self._loop.time() >= until:
            process.kill()
        self._loop.call_later(_SEEN_TO, self._see_off, process, until)

    def _begin(self) -> None:
        if self._process is not None:
            return
        process = self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_HOST), _library()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd=os.sep,
            env={name: os.environ[name] for name in _LOADING if name in os.environ},
            # Not affected by Ctrl-C or a hang-up: it ends with its runner.
            start_new_session=True,
        )
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
        if process.stdout is not None:
            self._loop.add_reader(process.stdout.fileno(), self._hear, process)

    def _send(self) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        pipe = process.stdin.fileno()
        try:
            self._unsent = self._unsent[os.write(pipe, self._unsent) :]
        except BlockingIOError:
            pass
        except OSError as error:
            self._lost(process, str(error))
            return
        if self._unsent:
            self._loop.add_writer(pipe, self._send)
        else:
            self._loop.remove_writer(pipe)

    def _hear(self, process: subprocess.Popen[bytes]) -> None:
        if process is not self._process or process.stdout is None:
            return
        try:
            piece = os.read(process.stdout.fileno(), _AT_ONCE)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._lost(process, "the process that watches them ended")
            return
        *lines, self._unread = (self._unread + piece).split(b"\n")
        for line in lines:
            self._heard(*json.loads(line))

    def _heard(self, what: str, number: int, told: Any) -> None:
        if what == "changed":
            self._on_changes(self, told)
        elif number != self._number:
            return  # the answer to a later request will follow
        elif what == "watching":
            self._answered(self.ordered, "", told)
        else:
            self._answered(self.ordered, told, 0.0)

    def _lost(self, process: subprocess.Popen[bytes], why: str) -> None:
        if process is self._process:
            self.close()
            self._answered(self.ordered, why, 0.0)

    def _answered(self, directories: frozenset[str], failed: str, took: float) -> None:
        self.failed = failed
        if failed:
            self._identities = {}
        self._on_built(self, directories, took)


def _library() -> str:
    """Find the native part of watchfiles without loading it, or anything of it, here."""
    package = find_spec("watchfiles")
    where = package.submodule_search_locations if package is not None else None
    found = PathFinder.find_spec(watch_process.MODULE, where) if where else None
    if found is None or found.origin is None:
        raise ImportError("the library watchfiles is not installed correctly")
    return found.origin


def _identity(directory: str) -> _Identity | None:
    try:
        found = os.stat(directory)  # noqa: PTH116  # the process is told strings
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None
