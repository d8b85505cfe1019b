"""Reads the records of a repository for commands that only look; no loop is built for that.

Must not change a record.
"""

from __future__ import annotations

import difflib
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from lifecycle.errors import UnknownLifecycleError
from lifecycle.paths import Paths
from lifecycle.record import Filter
from lifecycle.store.lock import holder
from lifecycle.store.sqlite.store import SqliteStore
from runtime.proc_table import MARK_VARIABLE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from lifecycle.record import AgentLifecycle


@asynccontextmanager
async def store_of(repo: Path) -> AsyncIterator[SqliteStore]:
    """Open the records of a repository; refuses when there are none."""
    database = Paths.of(repo).database
    if not database.exists() and os.environ.get(MARK_VARIABLE):
        raise UnknownLifecycleError(
            f"the records of {repo} cannot be seen from inside the sandbox, "
            "or no loop ran there yet"
        )
    if not database.exists():
        from orchestrator.control.lost_records import refuse_lost_of  # noqa: PLC0415  # hardly ever

        await refuse_lost_of(repo)
        raise UnknownLifecycleError(
            f"there are no records in {repo}: no loop ran there yet; start one with "
            "`loopwright run` or `loopwright up`"
        )
    async with await SqliteStore.open(database) as store:
        yield store


async def known(store: SqliteStore, agent_id: str, repo: Path) -> AgentLifecycle:
    """Return the record of an agent, or refuse and name those that are near."""
    record = await store.get(agent_id) or await of_task(store, agent_id)
    if record is not None:
        return record
    page = await store.list(limit=1000)
    theirs = [each.agent_id for each in page.named if each.task_id == agent_id]
    names = [each.agent_id for each in page.named]
    near = theirs or difflib.get_close_matches(agent_id, names, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "`loopwright ps --all` lists all"
    raise UnknownLifecycleError(f"there is no lifecycle {agent_id!r} in {repo}; {hint}")


async def of_task(store: SqliteStore, task_id: str) -> AgentLifecycle | None:
    """Return the lifecycle that a task's id means, which people type as often as the agent's.

    None where it is an agent's id, or does not mean just one.
    """
    if await store.get(task_id) is not None:
        return None
    for current in (True, False):
        page = await store.list(Filter(task_id=task_id, current=current), limit=2)
        if len(page.records) == 1 and not page.damaged:
            return page.records[0]
    return None


def runner_of(repo: Path) -> dict[str, Any] | None:
    """Say who runs the loops of a repository at the moment: pid, host, since, who.

    With `url` where it serves.
    """
    return holder(Paths.of(repo).root)
