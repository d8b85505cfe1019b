"""Programs that store tests start as processes of their own, to end them without warning."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.errors import RepositoryBusyError, StoreError
from lifecycle.record import Commit
from lifecycle.store import sqlite_file
from lifecycle.store.lock import RunnerLock
from lifecycle.store.sqlite import SqliteStore
from tests.store.samples import attempt, begun, entry, order

if TYPE_CHECKING:
    from lifecycle.store.port import LifecycleStore

ROOT = Path(__file__).parents[2]
WRITERS = 4


def command(*words: str | Path) -> list[str]:
    """Return the command line of a program below, to be started in `ROOT`."""
    return [sys.executable, "-m", "tests.store.programs", *map(str, words)]


def _say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


async def _write_on(store: LifecycleStore, name: str) -> None:
    record = await store.get(name) or await begun(store, name)
    last = await store.journal(name, newest=True, limit=1)
    number = last[0].seq if last else 0
    while True:
        number += 1
        await store.commit(
            Commit(
                record=record,
                journal=(entry(number, name),),
                effects=(order(f"{name}:{number}", name),),
                done=(f"{name}:{number - 1}",),
                attempt=attempt(number, name),
            )
        )
        _say(f"{name} {number} {record.version}")


async def write(path: Path) -> None:
    """Write decisions for several agents without end, saying each one that is acknowledged."""
    async with await SqliteStore.open(path) as store:
        await asyncio.gather(*(_write_on(store, f"a{number}") for number in range(WRITERS)))


async def fill(path: Path) -> None:
    """Write until files must not grow any more, say so; then go on once they may."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    async with await SqliteStore.open(path) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
        number = 0
        try:
            while True:
                await store.put("c", str(number), {"text": "x" * 2000})
                number += 1
        except StoreError as problem:
            _say(f"refused after {number}: {problem}")
        kept = await store.all("c")
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        await store.put("c", "afterwards", {})
        _say(f"kept {len(kept)}, then {len(await store.all('c'))}")


def migrate(path: Path, ending: int) -> None:
    """Bring a database up to date, but die without warning before the n-th statement."""
    connection = sqlite3.connect(path, isolation_level=None)
    left = ending

    def count(_: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    connection.set_trace_callback(count)
    sqlite_file.bring_up_to_date(connection)
    _say("whole")


def hold(folder: Path, *then: str) -> None:
    """Take the runner's lock and wait; with `child` leave it to a child process to wait too."""
    try:
        lock = RunnerLock(folder, who="loopwright up")
        lock.acquire()
    except RepositoryBusyError as problem:
        _say(f"busy: {problem}")
        sys.exit(75)
    if "fork" in then and os.fork() == 0:
        _wait()
    if "exec" in then:
        subprocess.Popen(command("wait"), close_fds=False)
    _say(f"held {os.getpid()}")
    _wait()


def _wait() -> None:
    """Wait for the end of the standard input, which comes when the test ends."""
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass


def main(what: str, *words: str) -> None:
    """Run one of the programs."""
    if what == "write":
        asyncio.run(write(Path(words[0])))
    elif what == "fill":
        asyncio.run(fill(Path(words[0])))
    elif what == "migrate":
        migrate(Path(words[0]), int(words[1]))
    elif what == "hold":
        hold(Path(words[0]), *words[1:])
    elif what == "lock-database":
        with contextlib.closing(sqlite3.connect(words[0], isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            _say("locked")
            _wait()
    elif what == "wait":
        _wait()
    else:
        raise OSError(errno.EINVAL, what)


if __name__ == "__main__":
    os.chdir(ROOT)
    main(*sys.argv[1:])
