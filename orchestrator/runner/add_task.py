"""Adds a task to a repository, whether a runner is alive or not.

Any number may wait: how many work at once is `max_live_agents`. What is written is started by the
live runner, or by the next one.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lifecycle.admission.unenforceable_budgets import require_counted
from lifecycle.audit import Audit, clipped
from lifecycle.engine.operation_log import ADD
from lifecycle.errors import LifecycleError, PlanError
from lifecycle.fleet.manager import free_name
from lifecycle.machine.runner_orders import OperationNote
from lifecycle.machine.states import Queued
from lifecycle.mask_values import masked, refuse_markers
from lifecycle.paths import Paths
from lifecycle.plan import Agent, checked_name, default_agent_id
from lifecycle.record import AgentLifecycle
from lifecycle.store.lost_records import refuse_lost
from lifecycle.store.sqlite.store import SqliteStore
from lifecycle.working_copy import facts_of
from orchestrator.config.known_secrets import masker_of
from orchestrator.config.plans import chosen_agent, task_of
from orchestrator.control import requests
from orchestrator.control.open_store import runner_of
from orchestrator.errors import ConfigError
from orchestrator.runner.job_selection import free_task_id, names, startable, startable_from
from orchestrator.runner.preflight import require_issues
from orchestrator.runner.providers import ProviderInputs, make_providers
from runtime.branches import BranchManager

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

    from ci.forge.protocol import Forge
    from lifecycle.plan import Allowance
    from lifecycle.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """One more task, as it was typed."""

    text: str
    name: str | None = None
    """Of the agent; by default after the task."""
    adapter: str | None = None
    command: str | None = None
    verify: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    base: str | None = None
    issue: str = ""
    """The issue that it is about."""
    title: str = ""
    """By default the first line of the text."""
    acceptance: tuple[str, ...] = ()
    """What must be true at the end."""
    dependencies: tuple[str, ...] = ()
    """Ids of tasks, or of their agents, that must be complete before it starts."""
    budget: Allowance | None = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class Added:
    """A lifecycle that was added, and what runs it."""

    agent_id: str
    task_id: str
    runner: str
    """What runs the repository at the moment; empty if nothing does."""


async def add(repo: Path, addition: Addition, settings: Settings) -> Added:
    """Add a lifecycle to a repository; `loopwright up`, now or later, runs it."""
    paths = Paths.of(repo)
    paths.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    await refuse_lost(paths.database, BranchManager(repo).agents)
    async with await SqliteStore.open(paths.database) as store:
        masker = masker_of(os.environ, settings.pass_env)
        audit = Audit(store.trail, now=requests.now, masker=masker)

        async def noted(note: OperationNote) -> None:
            await requests.leave_note(repo, store, note, masker)

        async with _provider_of(repo, addition, settings) as provider:
            record = await add_recorded(
                store, audit, repo, addition, settings, noted=noted, provider=provider
            )
        runner = runner_of(repo)
        who = "" if runner is None else str(runner.get("who") or "another runner")
        return Added(record.agent_id, record.task_id, who)


async def add_recorded(  # noqa: PLR0913  # the last by name
    store: SqliteStore,
    audit: Audit,
    repo: Path,
    addition: Addition,
    settings: Settings,
    *,
    noted: Callable[[OperationNote], Awaitable[object]],
    provider: object,
) -> AgentLifecycle:
    """Write the record of an addition, and in the audit who asked for it and what was decided.

    `noted` logs it, and has a live runner start it; the provider says which issues it keeps.
    """
    by, name = addition.by or "somebody", clipped(addition.name or addition.text)
    note = OperationNote(at=requests.now(), by=addition.by, operation=ADD, agent_name=name)
    try:
        if addition.base is not None:
            await startable_from(repo, addition.base)
        with _add_alone(Paths.of(repo).root):
            record = await _added_as(store, addition, settings, provider)
    except LifecycleError as refusal:
        await audit.record("add", by, name, "refused", str(refusal))
        await noted(replace(note, refused=str(refusal)))
        raise
    await audit.record("add", by, record.agent_id, "done", record.task)
    await noted(
        replace(note, agent_name=addition.name or record.agent_id, resolved_name=record.agent_id)
    )
    return record


@asynccontextmanager
async def _provider_of(
    repo: Path, addition: Addition, settings: Settings
) -> AsyncIterator[object | None]:
    """Yield what keeps the pull requests, where the host of an issue is to be compared with its."""
    forge: Forge | None = None
    provider: object | None = None
    if "://" in addition.issue:
        with suppress(ConfigError):  # whoever starts a runner is told
            inputs = ProviderInputs(repo, lambda: settings, os.environ, requests.now)
            made = make_providers(inputs)
            provider, forge = made.provider, made.forge
    try:
        yield provider
    finally:
        if forge is not None:
            await forge.aclose()


async def _added_as(
    store: SqliteStore, addition: Addition, settings: Settings, provider: object
) -> AgentLifecycle:
    """Write the record of an addition."""
    masker = masker_of(os.environ, settings.pass_env)
    addition = masked(addition, masker)
    taken = {each for pair in await names(store) for each in pair}
    task_id = await free_task_id(store)
    name = addition.name or default_agent_id(task_id)
    try:
        checked_name(name)
    except ValueError as problem:
        raise PlanError(f"--name {problem}") from problem
    agent = chosen_agent(task_id, settings, adapter=addition.adapter, command=addition.command)
    # Whoever takes it up has nothing but the record: a literal secret is not in it.
    refuse_markers("the command of the agent", masked(agent.command, masker))
    refuse_markers("--verify", addition.verify)
    refuse_markers("--setup", addition.setup)
    startable(agent)
    require_counted(agent, settings, addition.budget)
    resolved = free_name(name, taken)  # those that are over are on record still
    task = task_of(
        addition.text,
        task_id,
        verify=addition.verify,
        setup=addition.setup or None,
        base=addition.base,
        issue=addition.issue,
        title=addition.title,
        acceptance=addition.acceptance,
        dependencies=await _known_tasks(store, addition.dependencies),
        budget=addition.budget,
    )
    require_issues([task], provider)
    agent = Agent.model_validate({**agent.model_dump(), "agent_id": resolved})
    return await store.create(
        AgentLifecycle(
            agent_id=resolved,
            task=task.title,
            task_id=task.id,
            created_at=requests.now(),
            facts=facts_of(task, agent, masker),
            work=Queued(),
        )
    )


async def _known_tasks(store: SqliteStore, named: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tasks that are named, by their own ids or by those of their agents."""
    if not named:
        return ()
    tasks = dict(await names(store))
    found = []
    for each in named:
        if each not in tasks and each not in tasks.values():
            raise PlanError(
                f"there is no task {each!r} to depend on; `loopwright ps --all` lists all"
            )
        found.append(tasks.get(each, each))
    return tuple(dict.fromkeys(found))


@contextmanager
def _add_alone(folder: Path) -> Iterator[None]:
    """Let one command add at a time: ids must still be free when the record is written."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
