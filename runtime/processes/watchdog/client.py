"""The runner's side of the watchdog: starts it, keeps it alive, and writes the register.

One watchdog serves the whole process, with all its managers and event loops. It must not end
anything itself.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from runtime import proc_table
from runtime.errors import RuntimeFault, ShortageError, WatchdogError
from runtime.processes import lineage_tag
from runtime.processes.watchdog import program
from runtime.shortage import said_by_program, shortage_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runtime.processes.cgroups.groups import Group

_STEP = 0.002
_PATIENCE = 10.0
_AGAIN = 0.25
_TRIES = 3
"""Failed starts after which a waiting caller gets the error."""
_LOADING = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")
"""Variables that some interpreters need to find their own library."""
_MOST_SAID = 4096
_FIRST_FREE = 3
"""Lower numbers are standard streams, which the caller may have closed."""
_ENGINES = ("DOCKER_", "CONTAINER", "PODMAN_", "XDG_RUNTIME_DIR", "HOME", "PATH")
"""Prefixes of the variables that a program which removes containers may need."""


class Cleanup(NamedTuple):
    """The command that removes what is not in our processes (a container), and its environment."""

    command: tuple[str, ...]
    env: dict[str, str]


class RegisterWriter:
    """The file in memory in which the runner records what is live."""

    def __init__(self) -> None:
        if sys.platform == "linux":
            made = os.memfd_create("watchdog")
        else:
            with tempfile.TemporaryFile() as unnamed:
                made = os.dup(unnamed.fileno())
        try:
            self.file = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
        finally:
            os.close(made)
        self._free: list[int] = []
        self._count = 0
        self._bases: list[bytes] = []
        self._marks: dict[int, str] = {}
        self._ends: dict[str, int] = {}
        """Deadlines, by how marks begin."""
        self._lock = threading.Lock()
        self._with_cleanup: set[int] = set()

    def enter(self, mark: str, fingerprint: int, tag: int | None, cleanup: bytes) -> int:
        """Record what is about to be started; returns its number."""
        with self._lock:
            number = self._free.pop() if self._free else self._count
            self._marks[number] = mark
            if cleanup:
                self._with_cleanup.add(number)
                size = len(cleanup).to_bytes(program.WORD, sys.byteorder)
                os.pwrite(self.file, size + cleanup, program.CLEANUPS + number * program.CLEANUP)
            self._write(number, fingerprint, tag or 0, 0, 0, self.deadline_of(mark))
            if number == self._count:
                self._count += 1
                os.pwrite(self.file, self._count.to_bytes(program.WORD, sys.byteorder), 0)
        return number

    def identify(self, number: int, pid: int, start: int) -> None:
        """Add the identity of the started process."""
        words = (word.to_bytes(program.WORD, sys.byteorder) for word in (pid, start))
        at = program.HEADER + number * program.ENTRY + 2 * program.WORD
        os.pwrite(self.file, b"".join(words), at)

    def leave(self, number: int) -> None:
        """Remove an entry of which nothing is left."""
        # This fails under a small `ulimit -f`; a stale entry kills nothing.
        with self._lock, suppress(OSError):
            self._write(number, 0, 0, 0, 0, 0)
            self._marks.pop(number, None)
            if number in self._with_cleanup:
                at = program.CLEANUPS + number * program.CLEANUP
                os.pwrite(self.file, bytes(program.WORD), at)
                self._with_cleanup.discard(number)
            self._free.append(number)

    def add_base(self, folder: Path) -> None:
        """Record a folder below which control groups are created."""
        name = os.fsencode(folder)
        with self._lock:
            if name not in self._bases:
                self._bases.append(name)
                os.pwrite(self.file, b"\n".join(self._bases) + b"\0", program.WORD)

    def deadline_of(self, mark: str) -> int:
        """Return until when a tree of this mark may live; 0: for ever."""
        ends = (end for prefix, end in self._ends.items() if mark.startswith(prefix))
        return next(ends, 0)

    def set_deadline(self, prefix: str, deadline: int | None) -> None:
        """Set until when trees of such marks may live, present and to come; None: for ever."""
        with self._lock:
            if deadline is None:
                self._ends.pop(prefix, None)
            else:
                self._ends[prefix] = deadline
            data = (deadline or 0).to_bytes(program.WORD, sys.byteorder)
            for number, mark in self._marks.items():
                if mark.startswith(prefix):
                    at = program.HEADER + (number + 1) * program.ENTRY - program.WORD
                    os.pwrite(self.file, data, at)

    def _write(self, number: int, *words: int) -> None:
        data = b"".join(word.to_bytes(program.WORD, sys.byteorder) for word in words)
        os.pwrite(self.file, data, program.HEADER + number * program.ENTRY)


class _Started:
    """One start of the program: the pipe that ends with this process, and its first output."""

    def __init__(self, register: RegisterWriter) -> None:
        row = proc_table.read_row(os.getpid())
        heard, self.pipe = os.pipe()
        try:
            self._words, words = os.pipe()
        except BaseException:
            os.close(heard)
            os.close(self.pipe)
            raise
        try:
            process = subprocess.Popen(
                (
                    *(sys.executable, "-I", "-S", program.__file__, str(os.getpid())),
                    *(str(row.start if row else 0), str(register.file), str(lineage_tag.width())),
                ),
                stdin=heard,
                stdout=words,
                stderr=words,
                pass_fds=(register.file,),
                cwd=os.sep,
                env={name: os.environ[name] for name in _LOADING if name in os.environ},
                start_new_session=True,
            )
        except BaseException:
            os.close(self.pipe)
            os.close(self._words)
            raise
        finally:
            os.close(heard)
            os.close(words)
        self.group = process.pid
        process.returncode = 0  # it is reaped here, with its forks
        os.set_blocking(self._words, False)
        os.set_blocking(self.pipe, False)
        self._said = b""
        self._answered = False
        self.watched_by: asyncio.AbstractEventLoop | None = None

    def answered(self) -> bool:
        """Tell whether it is ready."""
        if not self._answered and self._words >= 0:
            with suppress(BlockingIOError):
                data = os.read(self._words, _MOST_SAID)
                self._said += data
                self._answered = program.READY in data
                if self._answered or not data:
                    os.close(self._words)
                    self._words = -1
        return self._answered

    def failure(self) -> RuntimeFault | None:
        """Return why it ended before it was ready; None if it did not."""
        if not self.is_lost() or self.answered():
            return None
        said = os.fsdecode(self._said).strip()
        if short := said_by_program(said):
            return ShortageError(f"the watchdog cannot be started: {short}")
        return WatchdogError(
            f"the watchdog cannot be started: {sys.executable} exited immediately"
            + (f" and printed: {said.splitlines()[-1]}" if said else " without any output")
            + ". Nothing is started without it; check whether this Python interpreter works"
        )

    def is_lost(self) -> bool:
        """Tell whether both its processes are gone."""
        waiting = select.poll()
        waiting.register(self.pipe, 0)
        return bool(waiting.poll(0))

    def reap(self) -> None:
        """Reap those of its processes that have ended."""
        with suppress(ChildProcessError):
            while os.waitid(os.P_PGID, self.group, os.WEXITED | os.WNOHANG) is not None:
                pass

    def close(self) -> None:
        """Close our ends of its pipes."""
        os.close(self.pipe)
        if self._words >= 0:
            os.close(self._words)


class Watchdog:
    """The watchdog of this process."""

    def __init__(self) -> None:
        self.register = RegisterWriter()
        self._started: _Started | None = None
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Start it if it is not running, without waiting; OSError if that fails."""
        with self._lock:
            now = self._started
            if now is not None and not now.is_lost():
                return
            self._started = _Started(self.register)
            if now is not None:
                self._retire(now)

    async def ready(self) -> None:
        """Return when it is ready; OSError on a shortage of the machine, else WatchdogError."""
        loop = asyncio.get_running_loop()
        deadline = time.monotonic() + _PATIENCE
        tries = 0
        while True:
            failure = None if self._started is None else self._started.failure()
            tries += failure is not None
            if failure is not None and tries >= _TRIES:
                raise failure
            try:
                self.begin()
            except OSError as error:
                if shortage_of(error):
                    raise
                raise WatchdogError(f"the watchdog cannot be started: {error}") from error
            now = self._started
            if now is not None and now.answered():
                now.reap()
                self._listen(now, loop)
                return
            if time.monotonic() > deadline:
                raise ShortageError(
                    f"this machine is short of processor time: the watchdog ({sys.executable}) did "
                    f"not become ready within {_PATIENCE:g} seconds"
                )
            await asyncio.sleep(_STEP)

    def _listen(self, now: _Started, loop: asyncio.AbstractEventLoop) -> None:
        """Watch for its end in the event loop: the pipe has a reader as long as it lives."""
        if now.watched_by is None or now.watched_by.is_closed():
            now.watched_by = loop
            loop.add_reader(now.pipe, self._lost, now)

    def _lost(self, now: _Started) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(now.pipe)
        now.watched_by = None
        self._start_again(loop)

    def _start_again(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            self.begin()
        except OSError:  # short of something; starts wait for the watchdog, too
            loop.call_later(_AGAIN, self._start_again, loop)
            return
        if self._started is not None:
            self._listen(self._started, loop)

    def _retire(self, lost: _Started) -> None:
        lost.reap()
        loop = lost.watched_by
        if loop is None or loop.is_closed():
            lost.close()
            return

        def close() -> None:
            loop.remove_reader(lost.pipe)
            lost.close()

        with suppress(RuntimeError):  # it was closed meanwhile
            loop.call_soon_threadsafe(close)

    def look(self) -> None:
        """Have it read the deadlines again; one that starts later reads them by itself."""
        # Full, the pipe holds such a word already; broken, the next watchdog is on its way.
        if (started := self._started) is not None:
            with suppress(OSError):
                os.write(started.pipe, b"\n")

    def session(self) -> int:
        """Return its session; 0 while it is not started."""
        return 0 if self._started is None else self._started.group

    def close(self) -> None:
        """Close what a forked process inherited: the watchdog belongs to its parent alone."""
        os.close(self.register.file)
        if self._started is not None:
            self._started.close()


class RegisteredTree:
    """The entry of a started tree in the register of this process."""

    def __init__(self, watchdog: Watchdog, number: int, *, held: bool) -> None:
        """`held` to a deadline, of which the watchdog is to know at once."""
        self._watchdog = watchdog
        self._number: int | None = number
        self._held = held
        if held:
            watchdog.look()

    def identify(self, pid: int, start: int) -> None:
        """Add the identity of the started process."""
        if self._number is not None:
            self._watchdog.register.identify(self._number, pid, start)
            if self._held:
                self._watchdog.look()

    def leave(self) -> None:
        """Remove it: nothing of the tree is left. Idempotent."""
        number, self._number = self._number, None
        if number is not None:
            self._watchdog.register.leave(number)


_own: list[Watchdog] = []


def _mine() -> Watchdog:
    if not _own:
        _own.append(Watchdog())
    return _own[0]


def begin() -> None:
    """Start the watchdog of this process early, so that no start has to wait for it.

    If that fails, `ready` says why.
    """
    with suppress(OSError):
        _mine().begin()


def session() -> int:
    """Return the session of the watchdog of this process; 0 while there is none."""
    return _own[0].session() if _own else 0


async def ready() -> None:
    """Return when this process has a running watchdog; OSError if it cannot have one now."""
    await _mine().ready()


def set_deadline(prefix: str, deadline: int | None) -> None:
    """Set until when what is started under marks that begin so may live; None: for ever.

    It is ended then although this process may live, frozen or busy. The instant is one of `now`.
    """
    _mine().register.set_deadline(prefix, deadline)
    _mine().look()


def now() -> int:
    """Return the nanoseconds since boot, those that the machine slept included."""
    return program.now()


@contextmanager
def entered(
    mark: str, fingerprint: int, tag: int | None, cleanup: Cleanup | None
) -> Iterator[RegisteredTree]:
    """Record what is started inside the block; removed again if the start fails."""
    watchdog = _mine()
    number = watchdog.register.enter(mark, fingerprint, tag, _packed(cleanup))
    entry = RegisteredTree(watchdog, number, held=watchdog.register.deadline_of(mark) > 0)
    try:
        yield entry
    except BaseException:
        entry.leave()
        raise


def told_of(group: Group) -> None:
    """Record where this control group was created."""
    for folder in group.folders:
        _mine().register.add_base(folder.path.parent)


def _packed(cleanup: Cleanup | None) -> bytes:
    """Return the cleanup command in the form of the register.

    Only variables that say where the containers are, are kept.
    """
    if cleanup is None:
        return b""
    program_, *rest = cleanup.command
    where = shutil.which(program_, path=cleanup.env.get("PATH"))
    if where is None:
        return b""
    words = b"\0".join(os.fsencode(each) for each in (where, *rest)) + b"\0\0"
    kept = (f"{name}={value}" for name, value in cleanup.env.items() if name.startswith(_ENGINES))
    data = words + b"\0".join(os.fsencode(each) for each in kept)
    return data if len(data) <= program.CLEANUP - program.WORD else words


def _forked() -> None:
    """Close what a forked process inherited: it has no watchdog yet."""
    while _own:
        with suppress(OSError):
            _own.pop().close()


os.register_at_fork(after_in_child=_forked)
