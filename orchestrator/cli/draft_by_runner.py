"""A draft that the live runner of a repository makes: added to its lifecycles, and followed."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from lifecycle.admission.unenforceable_budgets import require_counted
from lifecycle.engine.operation_log import ADD
from lifecycle.engine.retention import RETIRED
from lifecycle.errors import LifecycleError
from lifecycle.machine.runner_orders import OperationNote
from lifecycle.machine.states import ACTIVE, AwaitingHuman, Completed, Queued, Rejected, Suspended
from lifecycle.plan import default_agent_id
from lifecycle.record import AgentLifecycle
from lifecycle.working_copy import facts_of
from orchestrator.cli.draft_lifecycle import (
    DraftFailedError,
    closing,
    failure,
    is_closed,
    read_draft,
    waits_for,
)
from orchestrator.config.known_secrets import masker_of
from orchestrator.config.plans import chosen_agent
from orchestrator.control import requests
from orchestrator.control.open_store import runner_of, store_of
from orchestrator.drafting.check import Surroundings
from orchestrator.drafting.draft_task import TASK, task_for
from orchestrator.runner.job_selection import names, startable
from orchestrator.runner.preflight import require_tools
from orchestrator.runner.signals import SignalHandler
from orchestrator.terminal import exits
from orchestrator.terminal.options import user
from orchestrator.terminal.text import span, tell

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.plan import Agent, Task
    from lifecycle.settings import Settings
    from lifecycle.store.sqlite.store import SqliteStore
    from orchestrator.cli.draft_lifecycle import DraftOrder
    from orchestrator.drafting.draft_task import DraftRequest

LOOK_EVERY = 0.2
"""Seconds between two looks at the record."""


class _Draft:
    """What a signal ends: the wait for a draft, which ends the draft, too."""

    def __init__(self, task: asyncio.Task[str]) -> None:
        self._task = task

    async def shutdown(self) -> None:
        self._task.cancel()

    async def kill(self) -> None:
        self._task.cancel()


async def draft_by_runner(order: DraftOrder, request: DraftRequest) -> str:
    """Return the text of a draft that the live runner made; its lifecycle is over then.

    A signal ends the draft, too: nobody waits for it any more.
    """
    task = asyncio.create_task(_drafted(order, request))
    with SignalHandler(tell) as signals:
        signals.attach(_Draft(task))
        try:
            return await task
        except asyncio.CancelledError:
            if not signals.number:
                raise
            text = "ended by a signal: no plan is written"
            raise DraftFailedError(text, signals.exit_code, by_signal=True) from None


async def _drafted(order: DraftOrder, request: DraftRequest) -> str:
    repo, settings = order.context.repo, order.context.settings()
    require_tools(settings)
    async with store_of(repo) as store:
        used = {each for pair in await names(store) for each in pair}
        taken = used | set(await store.all(RETIRED))
        task = task_for(request, settings.verify, taken)
        task = task.model_copy(update={"id": _free(taken)})
        agent = chosen_agent(task.id, settings, adapter=order.adapter, command=order.command)
        startable(agent)
        require_counted(agent, settings)
        order.around = Surroundings((), taken, bool(settings.setup))
        await _add(repo, store, task, agent, settings)
        tell(f"The live runner drafts, as {agent.agent_id}")
        try:
            record, why, code = await _ended(repo, store, agent.agent_id, order.timeout)
            if not isinstance(record.work, Completed):
                raise failure(record.work, why, code)
            text, files = await read_draft(repo, record.work.head)
        finally:
            await _close(repo, store, agent.agent_id, settings)
            order.used.add(await store.attempts(agent.agent_id))
        order.around = Surroundings(files, taken, bool(settings.setup))
        return text


def _free(taken: set[str]) -> str:
    """Return the lowest id that no draft of this repository has."""
    number = 1
    while {f"{TASK}-{number}", default_agent_id(f"{TASK}-{number}")} & taken:
        number += 1
    return f"{TASK}-{number}"


async def _add(
    repo: Path, store: SqliteStore, task: Task, agent: Agent, settings: Settings
) -> None:
    """Write its record, and have the runner start it."""
    masker = masker_of(os.environ, settings.pass_env)
    record = AgentLifecycle(
        agent_id=agent.agent_id,
        task=masker.mask(task.title),
        task_id=task.id,
        tags=task.tags,
        created_at=requests.now(),
        facts=facts_of(task, agent, masker),
        work=Queued(),
    )
    await store.create(record)
    note = OperationNote(
        at=requests.now(),
        by=user(),
        operation=ADD,
        agent_name=agent.agent_id,
        resolved_name=agent.agent_id,
    )
    await requests.leave_note(repo, store, note, masker)


async def _ended(
    repo: Path, store: SqliteStore, agent_id: str, seconds: float
) -> tuple[AgentLifecycle, str, int]:
    """Wait until there is a draft, or no reason to wait any more: which one, and its code."""
    clock = asyncio.get_running_loop().time
    end = clock() + seconds if seconds else float("inf")
    while True:
        record = await store.get(agent_id)
        if record is None:
            raise DraftFailedError(f"{agent_id} was removed meanwhile", exits.FAILED)
        work = record.work
        if isinstance(work, (Completed, Rejected, AwaitingHuman, Suspended)):
            why = getattr(work, "text", "") or record.error or "a person paused it"
            return record, why, exits.BLOCKED if isinstance(work, AwaitingHuman) else exits.FAILED
        if work is not None and (found := waits_for(work, requests.now())):
            return record, *found
        if clock() > end:
            told = f"the agent took longer than {span(seconds)} (--timeout)"
            return record, told, exits.LIMIT_REACHED
        if runner_of(repo) is None:
            return record, "the runner that drafted ended", exits.INTERRUPTED
        await asyncio.sleep(LOOK_EVERY)


async def _close(repo: Path, store: SqliteStore, agent_id: str, settings: Settings) -> None:
    """End it for good, and wait until its process has ended and its workspace is gone."""
    record = await store.get(agent_id)
    if record is None or is_closed(record.work):
        return
    try:
        await requests.send(repo, agent_id, closing(requests.now()), settings=settings)
        while (record := await store.get(agent_id)) and isinstance(record.work, ACTIVE):
            if runner_of(repo) is None:
                return
            await asyncio.sleep(LOOK_EVERY)
    except LifecycleError as problem:
        tell(f"{agent_id} is left: {problem}; remove it with `loopwright reject {agent_id}`")
