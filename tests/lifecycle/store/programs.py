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

from lifecycle.errors import RepositoryBusyError, StoreError
from lifecycle.record import Transaction
from lifecycle.store.lock import RunnerLock
from lifecycle.store.sqlite import file
from lifecycle.store.sqlite.store import SqliteStore
from tests.lifecycle.store.samples import attempt, begun, delivery, order, spawned

ROOT = Path(__file__).parents[3]
WRITERS = 4


def command(*words: str | Path) -> list[str]:
    """Return the command line of a program below, to be started in `ROOT`."""
    return [sys.executable, "-m", "tests.lifecycle.store.programs", *map(str, words)]


def _say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


async def _write_on(store: SqliteStore, name: str) -> None:
    record = await store.get(name) or await begun(store, name)
    last = await store.journal(name, newest=True, limit=1)
    number = last[0].seq if last else 0
    await store.deliveries.add(delivery(f"github:{name}-{number}"))
    while True:
        number += 1
        await store.commit(
            Transaction(
                record=record,
                journal=(spawned(number, name),),
                effects=(order(f"{name}:{number}", name),),
                done=(f"{name}:{number - 1}",),
                attempt=attempt(number, name),
            )
        )
        for fresh in (True, False):
            assert await store.deliveries.add(delivery(f"github:{name}-{number}")) is fresh
        _say(f"{name} {number} {record.version}")


async def write(path: Path) -> None:
    """Write decisions and deliveries without end, saying each pair that is acknowledged."""
    async with await SqliteStore.open(path) as store:
        await asyncio.gather(*(_write_on(store, f"a{number}") for number in range(WRITERS)))


async def fill(path: Path) -> None:
    """Write until files must not grow any more, say so; then go on once they may."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    async with await SqliteStore.open(path) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
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


def migrate(folder: Path, *endings: str) -> None:
    """Bring databases up to date in children that die without warning before the n-th statement.

    Says of each whether it came to its end.
    """
    for ending in endings:
        child = os.fork()
        if child == 0:
            _migrate(folder / f"{ending}.db", int(ending))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        _say("killed" if os.WIFSIGNALED(status) else f"whole {status}")


def _migrate(path: Path, left: int) -> None:
    connection = sqlite3.connect(path, isolation_level=None)

    def count(_: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    connection.set_trace_callback(count)
    file.bring_up_to_date(connection)


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
        migrate(Path(words[0]), *words[1:])
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
