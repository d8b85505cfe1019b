"""What a call of `run` or `up` has to run: fresh tasks, and recorded lifecycles that go on.

Reads the records of a repository that is ours already; changes none.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lifecycle.admission import plan_of
from lifecycle.bases import is_done
from lifecycle.budgetcheck import require_counted
from lifecycle.case import load
from lifecycle.errors import LifecycleError, PlanError
from lifecycle.machine.states import Coarse, Completed, Suspended
from lifecycle.plan import Allowance, PlanMark, Task
from lifecycle.programs import programs_of
from lifecycle.record import Filter
from lifecycle.retention import RETIRED
from lifecycle.store.damage import RecordDamagedError, damage_of
from lifecycle.store.walk import pages
from orchestrator.fitness import exempted, require_tools, unlimited
from orchestrator.plans import agent_for, chosen_agent, task_of
from orchestrator.population import TURNS
from orchestrator.reuse import done_before, refuse_other_words, refuse_reused, retired_as
from orchestrator.service import Job, Work
from runtime.git import Git
from runtime.tree import some_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from pathlib import Path

    from lifecycle.engine import Engine
    from lifecycle.plan import Agent, Plan
    from lifecycle.record import AgentLifecycle
    from lifecycle.settings import Settings
    from lifecycle.store.damage import Damaged
    from lifecycle.store.port import LifecycleStore

_NOT_OVER = (Coarse.QUEUED, Coarse.RUNNING, Coarse.COMPLETED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One task as it was typed."""

    text: str = ""
    task_id: str | None = None
    adapter: str | None = None
    command: str | None = None
    verify: tuple[str, ...] = ()
    base: str | None = None
    max_retries: int | None = None

    def options(self) -> tuple[str, ...]:
        """Return the options that were typed with it."""
        typed = {
            "--agent": self.adapter is not None,
            "--command": self.command is not None,
            "--verify": bool(self.verify),
            "--base": self.base is not None,
            "--max-retries": self.max_retries is not None,
        }
        return tuple(name for name, given in typed.items() if given)


async def wished(
    engine: Engine, wish: Wish, settings: Settings, tell: Callable[[str], None]
) -> Work:
    """Return the task that was typed; the same words, or its id, mean the one that was begun."""
    require_tools(settings)
    for damaged in await engine.parts.store.damaged():
        tell(_named(damaged))
    known = await _known(engine, wish)
    if known is None and wish.task_id is not None:
        former = await retired_as(engine, wish.task_id)
        if former is not None:
            if wish.text:
                refuse_other_words(engine, task_of(wish.text, wish.task_id), former)
            tell(done_before(wish.task_id, wish.options()))
            return Work(())
    if known is None:
        fresh = await _fresh(engine, wish, settings)
        _within_budgets(engine, (fresh,), (), settings, tell)
        return Work((fresh,))
    job = await recorded(engine, known)
    agent, task = job.agent, _changed(job.task, wish)
    typed = wish.adapter is not None or wish.command is not None
    if typed or settings.command or settings.adapter or settings.agents:
        # The program may have been mended since; what is said now counts.
        chosen = chosen_agent(task.id, settings, adapter=wish.adapter, command=wish.command)
        agent = chosen.model_copy(update={"agent_id": agent.agent_id, "env": agent.env})
    refuse_other_words(engine, task, known)
    if is_done(known.work):
        again = known.agent_id if isinstance(known.work, Completed) else ""
        tell(done_before(task.id, wish.options(), again))
    if known.state in (Coarse.QUEUED, Coarse.RUNNING):
        tell(f"goes on with task {task.id}, which was begun before")
    if not is_done(known.work):
        _within_budgets(engine, (Job(agent, task),), (known,), settings, tell)
    return Work((Job(agent, task),))


async def planned(  # noqa: PLR0913  # the last by name
    engine: Engine,
    plan: Plan | None,
    settings: Settings,
    *,
    everything: bool,
    tell: Callable[[str], None] | None = None,
    stays: bool = False,
) -> Work:
    """Return the tasks of a plan and, with `everything`, all that is unfinished here.

    A runner that `stays` takes up more tasks later.
    """
    require_tools(settings)
    store = engine.parts.store
    damaged: dict[str, Damaged] = {}
    jobs = {} if plan is None else await _of_plan(engine, plan, settings, damaged)
    unfinished, unreadable = await _unfinished(store)
    if everything:
        damaged |= {each.agent_id: each for each in unreadable}
        for record in unfinished:
            # Completed work waits for a person; only a merge that was cut short needs a runner.
            over = isinstance(record.work, Completed) and not record.work.merging
            if record.agent_id not in jobs and not over:
                with _setting_aside(damaged):
                    jobs[record.agent_id] = await recorded(engine, record)
    if tell is not None:
        for each in damaged.values():
            tell(_named(each))
    turns = await store.all(TURNS)
    held = []
    for record in unfinished:
        job = jobs.get(record.agent_id)
        if job is None or not isinstance(record.work, Suspended):
            continue
        if record.agent_id in turns:
            # It goes on by itself, once its turns have passed.
            jobs[record.agent_id] = replace(job, resume=False)
        else:
            held.append(record)
            del jobs[record.agent_id]
    if jobs or stays:
        _within_budgets(engine, jobs.values(), unfinished, settings, tell)
    return Work(tuple(jobs.values()), tuple(held), damaged=tuple(damaged.values()))


async def _unfinished(store: LifecycleStore) -> tuple[list[AgentLifecycle], list[Damaged]]:
    """Return all that has not ended, the oldest first, and what of it cannot be read; read once."""
    unfinished: list[AgentLifecycle] = []
    damaged: list[Damaged] = []
    async for page in pages(store, Filter(states=_NOT_OVER)):
        unfinished += [record for record in page.records if record.work is not None]
        damaged += page.damaged
    return unfinished[::-1], damaged[::-1]


async def _of_plan(
    engine: Engine, plan: Plan, settings: Settings, damaged: dict[str, Damaged]
) -> dict[str, Job]:
    store, jobs = engine.parts.store, dict[str, Job]()
    asked = [(task, agent_for(task, plan, settings)) for task in plan.tasks]
    await refuse_reused(engine, plan, asked)
    retired = await store.all(RETIRED)
    engine.parts.plans.update((task.id, plan.mark()) for task in plan.tasks)
    for task, agent in asked:
        startable(agent)
        with _setting_aside(damaged):
            known = await store.get(agent.agent_id)
            # Accepted long ago: its record is gone, its work is in the base.
            if task.id not in retired or known is not None:
                jobs[agent.agent_id] = Job(agent, task)
    return jobs


@contextmanager
def _setting_aside(damaged: dict[str, Damaged]) -> Iterator[None]:
    """Go on without a lifecycle whose record cannot be read, and remember which."""
    try:
        yield
    except RecordDamagedError as found:
        damaged[found.damaged.agent_id] = found.damaged


def _named(damaged: Damaged) -> str:
    return f"Note: {RecordDamagedError(damaged)}"


def _within_budgets(
    engine: Engine,
    jobs: Collection[Job],
    records: Iterable[AgentLifecycle],
    settings: Settings,
    tell: Callable[[str], None] | None,
) -> None:
    """Refuse programs that their budgets cannot hold; tell, once each, what goes unheld."""
    marks = dict[str, PlanMark]()
    for record in records:
        with suppress(ValueError):  # damaged facts are told where they are read
            marks[record.agent_id] = plan_of(record)
    told, others = dict[str, None](), list[Allowance | None]()
    for job in jobs:
        mark = engine.parts.plans.get(job.task.id) or marks.get(job.agent.agent_id)
        of_task, of_plan = job.task.budget, mark.budget if mark is not None else None
        require_counted(job.agent, settings, of_task, of_plan)
        told |= dict.fromkeys(exempted(job.agent, settings, of_task, of_plan))
        others += [of_task, of_plan]
    if tell is not None:
        for line in (*told, *unlimited(settings, others)):
            tell(line)


def startable(agent: Agent) -> None:
    """Refuse programs of which none is there before anything is made for them.

    A name with a folder in it may be part of the work; only the start itself can tell.
    """
    wanted = [program.executable for program in programs_of(agent)]
    if all("/" not in program and shutil.which(program) is None for program in wanted):
        missing = f"{wanted[0]} is" if len(wanted) == 1 else f"{', '.join(wanted)} are"
        raise PlanError(
            f"{missing} not on PATH, so {agent.agent_id} cannot be started; install it, or "
            "name another program: --agent NAME or --command 'PROGRAM ARG'"
        )


async def recorded(engine: Engine, record: AgentLifecycle) -> Job:
    """Return a lifecycle as it was last run; RecordDamagedError when that cannot be read."""
    try:
        case = await load(engine.parts.store, record)
    except (LifecycleError, LookupError, ValueError) as problem:
        raise damage_of(record, problem) from problem
    return Job(case.agent, case.task)


async def _known(engine: Engine, wish: Wish) -> AgentLifecycle | None:
    if wish.task_id is not None:
        return await engine.parts.bases.of_task(wish.task_id)
    same = task_of(wish.text, "T000")
    for record in await engine.parts.store.unfinished():
        with suppress(KeyError, ValueError):  # one whose facts are damaged is not the one meant
            task = Task.model_validate(record.facts["task"])
            if (task.title, task.description) == (same.title, same.description):
                return record
    return None


async def _fresh(engine: Engine, wish: Wish, settings: Settings) -> Job:
    if not wish.text:
        raise PlanError(
            f"there is no task {wish.task_id} here yet; say what is to be done: "
            f'loopwright run "TEXT" --task-id {wish.task_id}'
        )
    task_id = wish.task_id or await _free_id(engine)
    task = task_of(
        wish.text, task_id, verify=wish.verify, base=wish.base, max_retries=wish.max_retries
    )
    agent = chosen_agent(task.id, settings, adapter=wish.adapter, command=wish.command)
    startable(agent)
    if wish.base is not None:
        await startable_from(engine.parts.repo, wish.base)
    return Job(agent, task)


async def startable_from(repo: Path, base: str) -> None:
    """Refuse a base that is not there before anything is recorded."""
    asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}")
    found = await Git().run(*asked, cwd=repo, check=False)
    if found.code != 0:
        listed = await Git().run("branch", "--format=%(refname:short)", cwd=repo)
        names = [name for name in listed.text.split() if not name.startswith("agent/")]
        raise PlanError(
            f"there is no branch or commit {base!r} in {repo} to start from; branches there: "
            f"{some_of(names)}"
        )


async def _free_id(engine: Engine) -> str:
    store = engine.parts.store
    taken = set(await store.all(RETIRED))
    for agent_id, task_id in await names(store):
        taken |= {task_id, agent_id.removeprefix("agent-")}
    number = 1
    while f"T{number:03d}" in taken:
        number += 1
    return f"T{number:03d}"


async def names(store: LifecycleStore) -> list[tuple[str, str]]:
    """Return agent and task of all records, also of those that cannot be read."""
    return [(known.agent_id, known.task_id) for known in await store.outlines()]


def _changed(task: Task, wish: Wish) -> Task:
    changes: dict[str, object] = {}
    if wish.text:
        said = task_of(wish.text, task.id)
        changes |= {"title": said.title, "description": said.description}
    if wish.verify:
        changes["verify"] = wish.verify
    if wish.base is not None:
        changes["base"] = wish.base
    if wish.max_retries is not None:
        changes["max_retries"] = wish.max_retries
    return task.model_copy(update=changes)
