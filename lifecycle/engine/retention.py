"""Removes what is settled and old: records, logs, summaries, snapshots, workspaces and branches.

Workers that were not heard of for as long are forgotten, too. Owns which lifecycles
may go and in which order. It never touches one that is unfinished or whose completed work nobody
reviewed, and work that was not merged stays under its saved refs.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from typing import TYPE_CHECKING

from lifecycle.mask_values import hides
from lifecycle.perform.removal import remove_all
from lifecycle.record import AgentState, Filter, agent_of
from runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from lifecycle.clock import Timer
    from lifecycle.record import AgentLifecycle
    from lifecycle.services import MachineServices

EVERY = 3600.0
"""Seconds between two looks at most; a quarter of what is kept, where that is less."""
OFTENEST = 10.0
RETIRED = "retired_tasks"
"""Documents: accepted tasks whose records are gone, so that a plan does not run them again, and
neither takes another task under such an id for done: agent, title, digest of its words, plan."""
_SETTLED = (AgentState.ACCEPTED, AgentState.REJECTED)
_HOUR = 3600.0


class Retention:
    """Looks now and then; `claim` keeps others away from a lifecycle, or says that it is in use."""

    def __init__(
        self, machine: MachineServices, claim: Callable[[str], AbstractContextManager[bool]]
    ) -> None:
        self._machine, self._shared = machine, machine.shared
        self._claim = claim
        self._timer: Timer | None = None
        self._looking: asyncio.Task[None] | None = None
        self._over = asyncio.Event()

    def begin(self) -> None:
        """Look in the background from now on."""
        if not self._over.is_set() and self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look(), name="retention")

    async def aclose(self) -> None:
        """Finish the record at hand and look no more."""
        self._over.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._looking is not None:
            await asyncio.gather(self._looking, return_exceptions=True)

    async def sweep(self) -> tuple[str, ...]:
        """Remove what is due; returns the agent ids."""
        shared = self._shared
        due = shared.clock.now() - shared.settings().retention_hours * _HOUR
        old = Filter(states=_SETTLED, updated_before=due)
        removed: list[str] = []
        cursor = None
        while not self._over.is_set():
            page = await shared.store.list(old, cursor=cursor, limit=100)
            for record in page.records:
                if self._over.is_set():
                    break
                with self._claim(record.agent_id) as free:
                    if free and await self._is_unchanged(record) and await self._remove(record):
                        removed.append(record.agent_id)
            cursor = page.next_cursor
            if cursor is None:
                break
        await self._prune_instances(due)
        await shared.store.workers.prune(due)
        return tuple(removed)

    async def _prune_instances(self, due: float) -> None:
        """Remove the instances that a spawner started and that ended by then."""
        store = self._shared.store.instances
        if await store.have_ended(due):
            from lifecycle.fleet.spawner.retention import prune_all  # noqa: PLC0415  # rarely needed

            await prune_all(store, self._machine.paths.instances, due)

    async def _is_unchanged(self, listed: AgentLifecycle) -> bool:
        """Tell whether it is still as it was listed: it may have been taken up again since."""
        record = await self._shared.store.get(listed.agent_id)
        return record is not None and record.version == listed.version

    async def _remove(self, record: AgentLifecycle) -> bool:
        """Remove one lifecycle, its record last: what a crash leaves is for the next look."""
        machine, agent_id = self._machine, record.agent_id
        attempt = record.work.tally.attempt if record.work is not None else 0
        try:
            if agent_id == agent_of(agent_id):  # else it was done when its agent got another
                await remove_all(machine, agent_id, attempt)
        except (RuntimeFault, OSError) as problem:
            machine.shared.report("retention_failed", agent_id=agent_id, reason=str(problem))
            return False
        if record.state is AgentState.ACCEPTED and record.task_id:
            await machine.shared.store.put(RETIRED, record.task_id, _remembered(record))
        # Under its later id what a crash left there when its agent was to get another lifecycle.
        for folder in (*machine.paths.all_of(agent_id), *machine.paths.all_of(record.earlier_id)):
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        await machine.shared.store.delete(agent_id)
        machine.shared.report("lifecycle_retired", agent_id=agent_id, state=str(record.state))
        return True

    async def _look(self) -> None:
        try:
            await self.sweep()
        finally:
            self._looking = None
            if not self._over.is_set():
                kept = self._shared.settings().retention_hours * _HOUR
                at = self._shared.clock.now() + min(EVERY, max(kept / 4, OFTENEST))
                self._timer = self._shared.clock.call_at(at, self.begin)


def digest_of(task: object) -> str:
    """Return a digest of a task's words as they are recorded; nothing if they cannot be compared.

    Where a secret was taken out, the same words may look another way next time.
    """
    if not isinstance(task, dict):
        return ""
    words = [str(task.get("title", "")), str(task.get("description", ""))]
    if any(map(hides, words)):
        return ""
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()


def _remembered(record: AgentLifecycle) -> dict[str, object]:
    plan = record.facts.get("plan")
    return {
        "agent_id": agent_of(record.agent_id),
        "title": record.task,
        "digest": digest_of(record.facts.get("task")),
        "plan": str(plan.get("name", "")) if isinstance(plan, dict) else "",
    }
