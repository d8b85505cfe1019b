"""What commands write for the population of a repository, whether a runner is alive or not.

The limits are those of `LifecycleManager`; what is written is taken up by the live runner, or by
the next one.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lifecycle.audit import Audit
from lifecycle.budgetcheck import require_counted
from lifecycle.case import facts_of
from lifecycle.errors import LifecycleError, PlanError
from lifecycle.fleet.manager import LifecycleManager
from lifecycle.machine import events as on
from lifecycle.machine.states import Completed, Queued
from lifecycle.masking import masked, refuse_markers
from lifecycle.paths import Paths
from lifecycle.plan import Agent, checked_name, default_agent_id
from lifecycle.record import AgentLifecycle
from lifecycle.retention import RETIRED
from lifecycle.store.lost import refuse_lost
from lifecycle.store.sqlite import SqliteStore
from orchestrator import requests, steering
from orchestrator.jobs import names, startable, startable_from
from orchestrator.plans import chosen_agent, task_of
from orchestrator.population import TURNS, LiveState, is_held
from orchestrator.reading import known, runner_of, store_of
from orchestrator.secrecy import masker_of
from runtime.branches import BranchManager

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lifecycle.settings import Settings
    from lifecycle.store.port import LifecycleStore
    from orchestrator.outcomes import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """One more task, as it was typed."""

    text: str
    name: str | None = None
    """Of the agent; by default after the task."""
    adapter: str | None = None
    command: str | None = None
    verify: tuple[str, ...] = ()
    base: str | None = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class Added:
    """A lifecycle that was added, and who goes on with it."""

    agent_id: str
    task_id: str
    runner: str
    """What runs the repository at the moment; empty if nothing does."""


async def pause_for(repo: Path, wish: steering.Wish, turns: int | None) -> Outcome:
    """Pause a lifecycle, for so many turns of its runner or until it is resumed."""
    async with store_of(repo) as store:
        record = await known(store, wish.agent_id, repo)
        agent_id = record.agent_id
        if not is_held(record.work):
            if turns is None:
                await store.remove(TURNS, agent_id)
            else:
                # First, so that the runner finds it when it hears of the pause.
                await store.put(TURNS, agent_id, {"turns": turns})
        try:
            return await steering.steer(repo, wish)
        except LifecycleError:
            if turns is not None and not is_held(record.work):
                await store.remove(TURNS, agent_id)
            raise


async def add(repo: Path, addition: Addition, settings: Settings) -> Added:
    """Add a lifecycle to a repository; `loopwright up`, now or later, runs it."""
    paths = Paths.of(repo)
    paths.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    await refuse_lost(paths.database, BranchManager(repo))
    async with await SqliteStore.open(paths.database) as store:
        masker = masker_of(os.environ, settings.pass_env)
        audit = Audit(store.trail, now=requests.now, masker=masker)
        by, name = addition.by or "somebody", addition.name or addition.text
        if addition.base is not None:
            await startable_from(repo, addition.base)
        try:
            with add_alone(paths.root):
                record = await added_as(store, addition, settings)
        except LifecycleError as refusal:
            await audit.record("add", by, name, "refused", str(refusal))
            raise
        await audit.record("add", by, record.agent_id, "done", record.task)
        runner = runner_of(repo)
        if runner is not None:
            # It moves nothing, but shows a live runner what to take up.
            event = on.ResumeRequested(at=requests.now(), by=addition.by)
            await store.ask(record.agent_id, event)
        who = "" if runner is None else str(runner.get("who") or "another runner")
        return Added(record.agent_id, record.task_id, who)


async def added_as(store: LifecycleStore, addition: Addition, settings: Settings) -> AgentLifecycle:
    """Write the record of an addition."""
    masker = masker_of(os.environ, settings.pass_env)
    addition = masked(addition, masker)
    taken, state = await _population(store)
    task_id = await _free_task(store, taken)
    name = addition.name or default_agent_id(task_id)
    try:
        checked_name(name)
    except ValueError as problem:
        raise PlanError(f"--name {problem}") from problem
    agent = chosen_agent(task_id, settings, adapter=addition.adapter, command=addition.command)
    # Whoever takes it up has nothing but the record: a literal secret is not in it.
    refuse_markers("the command of the agent", masked(agent.command, masker))
    refuse_markers("--verify", addition.verify)
    startable(agent)
    require_counted(agent, settings)
    log = _Heard()
    resolved = LifecycleManager(logger=log).add_agent(name, agent, {}, state)
    if log.reason:
        raise LifecycleError(
            f"{name} was not added: {log.reason}; `loopwright reject AGENT` removes one"
        )
    number = 0
    while resolved in taken:  # also by those that are over and still on record
        number += 1
        resolved = f"{name}_{number}"
    task = task_of(addition.text, task_id, verify=addition.verify, base=addition.base)
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


async def _population(store: LifecycleStore) -> tuple[set[str], LiveState]:
    """Return all names on record, and those that are members still."""
    taken, state = set[str](), LiveState()
    for pair in await names(store):
        taken.update(pair)
    for record in await store.unfinished():
        if not isinstance(record.work, Completed):
            with suppress(KeyError, ValueError):  # one whose facts are damaged stops no addition
                state.agents[record.agent_id] = Agent.model_validate(record.facts["agent"])
    return taken, state


async def _free_task(store: LifecycleStore, taken: set[str]) -> str:
    used = taken | set(await store.all(RETIRED))
    number = 1
    while {f"T{number:03d}", default_agent_id(f"T{number:03d}")} & used:
        number += 1
    return f"T{number:03d}"


@contextmanager
def add_alone(folder: Path) -> Iterator[None]:
    """Let one command add at a time: who counts must not be overtaken before it writes."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class _Heard:
    """A logger that keeps why something was refused."""

    def __init__(self) -> None:
        self.reason = ""

    def info(self, event: str, /, **fields: Any) -> None:
        """Pass by."""

    def warning(self, event: str, /, **fields: Any) -> None:
        del event
        self.reason = str(fields["reason"])
