"""Ticks a task in the file that it was read from, once its work is accepted.

An accepted task whose tick is not noted is owed it, so that a crash loses none; to tick twice
changes nothing. Must not change anything else in a file, nor a file outside of the repository.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lifecycle.errors import PlanError
from lifecycle.machine.states import Accepted
from lifecycle.paths import Paths
from lifecycle.record import AgentState, Filter, mark_of
from orchestrator.tasks.found import edited, file_and_key
from orchestrator.tasks.sources import form_of, scheme_of, text_of
from orchestrator.terminal.text import one_line, stamp
from runtime.private_files import make_private, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lifecycle.record import AgentLifecycle
    from lifecycle.store.sqlite.store import SqliteStore

TICKS = "ticks"
"""Documents: the ticks that are settled, by lifecycle: where, and what is said of it."""
_LOCK = "ticks.lock"


def owes(record: AgentLifecycle) -> str:
    """Return where the task of an accepted lifecycle is to be ticked; nothing if nowhere."""
    if not isinstance(record.work, Accepted):
        return ""
    source = str((record.facts.get("task") or {}).get("source") or "")
    name, key = file_and_key(source)
    return source if key and not scheme_of(name)[0] else ""


async def settle(store: SqliteStore, repo: Path, record: AgentLifecycle, now: float) -> str:
    """Tick what an accepted lifecycle is owed, note it, and say it; nothing if it is owed none.

    OSError if the file cannot be written: it is owed on.
    """
    source = owes(record)
    if not source:
        return ""
    mark = mark_of(record.agent_id, record.birth).rstrip(".")
    noted = (await store.all(TICKS)).get(mark)
    if noted is not None:
        return str(noted.get("text", ""))
    text = await asyncio.to_thread(tick, repo, source, stamp(now))
    await store.put(TICKS, mark, {"source": source, "at": now, "text": text})
    return text


def not_yet(record: AgentLifecycle, problem: OSError) -> str:
    """Say that a file could not be written."""
    name, key = file_and_key(owes(record))
    why = problem.strerror or problem
    return one_line(f"{key} cannot be ticked in {name} yet: {why}; the next run tries again")


async def owed(store: SqliteStore, since: float) -> list[AgentLifecycle]:
    """Return those that were accepted since an instant and whose ticks are not noted."""
    noted = await store.all(TICKS)
    which = Filter(states=(AgentState.ACCEPTED,), updated_after=since)
    return [
        record
        async for record in store.every(which)
        if owes(record) and mark_of(record.agent_id, record.birth).rstrip(".") not in noted
    ]


async def forget(store: SqliteStore, before: float) -> None:
    """Forget the ticks that were made before an instant."""
    for mark, noted in (await store.all(TICKS)).items():
        if float(noted.get("at", 0.0)) < before:
            await store.remove(TICKS, mark)


def tick(repo: Path, source: str, when: str) -> str:
    """Tick the task that a reference names, and say what was done; OSError if it cannot be."""
    name, key = file_and_key(source)
    path = (repo / name).resolve()
    shown = one_line(key, 60)
    if not path.is_relative_to(repo.resolve()):
        return f"{shown} is not ticked: {name} is outside of the repository"
    if not path.is_file():
        return f"{shown} is not ticked: there is no file {name} any more"
    with alone(repo):
        try:
            line = tick_in(path, key, when)
        except PlanError as problem:
            return one_line(f"{shown} is not ticked: {problem}")
    if not line:
        return f"{shown} is not ticked: it is not in {name} any more"
    return f"ticked {shown} in {name}, line {line} (not committed)"


def tick_in(path: Path, key: str, when: str) -> int:
    """Tick in a file; returns the line, or 0 if it does not hold the task."""
    form, text = form_of(path), text_of(path)
    if form is None:
        return 0
    found = form.tick(text, key, when)
    if found.edits:
        write_whole(path, edited(text, found.edits).encode())
    return found.line


@contextmanager
def alone(repo: Path) -> Iterator[None]:
    """Keep other processes that tick away from the files, until the block ends."""
    folder = Paths.of(repo).root
    make_private(folder)
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
