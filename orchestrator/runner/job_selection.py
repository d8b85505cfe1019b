"""What a call of `run` or `up` has to run: fresh tasks, and recorded lifecycles that continue.

Reads the records of a repository that is ours already; changes none.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lifecycle.admission.unenforceable_budgets import require_counted
from lifecycle.base_commits import is_done
from lifecycle.engine.retention import RETIRED
from lifecycle.errors import LifecycleError, PlanError
from lifecycle.launch.programs import programs_of
from lifecycle.machine.states import AgentState, Completed, Suspended
from lifecycle.plan import Allowance, PlanMark, Task, default_agent_id, plan_of
from lifecycle.record import Filter
from lifecycle.store.damaged_records import RecordDamagedError, damage_of
from lifecycle.working_copy import load
from orchestrator.config.plans import agent_for, chosen_agent, task_of
from orchestrator.drafting.draft_task import is_draft
from orchestrator.runner.preflight import exempted, require_issues, require_tools, unlimited
from orchestrator.runner.task_identity import (
    done_before,
    refuse_other_words,
    refuse_reused,
    retired_as,
)
from orchestrator.runner.workload import Job, Workload
from runtime.git.git import Git
from runtime.git.porcelain import some_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from pathlib import Path

    from lifecycle.engine.engine import LocalEngine
    from lifecycle.plan import Agent, Plan
    from lifecycle.record import AgentLifecycle
    from lifecycle.settings import Settings
    from lifecycle.store.damaged_records import Damaged
    from lifecycle.store.sqlite.store import SqliteStore

_UNFINISHED_DRAFT = (
    "Note: a draft of a plan was not finished; `loopwright plan` begins another, or `loopwright "
    "reject {}` removes it"
)
_NOT_OVER = (AgentState.QUEUED, AgentState.RUNNING, AgentState.COMPLETED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One task as it was typed."""

    text: str = ""
    task_id: str | None = None
    adapter: str | None = None
    command: str | None = None
    verify: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    budget: Allowance | None = None
    base: str | None = None
    issue: str | None = None
    max_retries: int | None = None

    def options(self) -> tuple[str, ...]:
        """Return the options that were typed with it."""
        typed = {
            "--agent": self.adapter is not None,
            "--command": self.command is not None,
            "--verify": bool(self.verify),
            "--setup": bool(self.setup),
            "--budget-usd": self.budget is not None and self.budget.usd is not None,
            "--max-attempts": self.budget is not None and self.budget.attempts is not None,
            "--base": self.base is not None,
            "--issue": self.issue is not None,
            "--max-retries": self.max_retries is not None,
        }
        return tuple(name for name, given in typed.items() if given)


async def requested(
    engine: LocalEngine, request: RunRequest, settings: Settings, tell: Callable[[str], None]
) -> Workload:
    """Return the task that was typed; the same words, or its id, mean the one that was begun."""
    require_tools(settings)
    for damaged in await engine.shared.store.damaged():
        tell(_named(damaged))
    known = await _known(engine, request)
    if known is None and request.task_id is not None:
        former = await retired_as(engine, request.task_id)
        if former is not None:
            if request.text:
                refuse_other_words(engine, task_of(request.text, request.task_id), former)
            tell(done_before(request.task_id, request.options()))
            return Workload(())
    if known is None:
        fresh = await _fresh(engine, request, settings)
        within_budgets(engine, (fresh,), (), settings, tell)
        return Workload((fresh,))
    job = await recorded(engine, known)
    agent, task = job.agent, _changed(job.task, request)
    require_issues([task] if request.issue else (), engine.shared.ci)
    typed = request.adapter is not None or request.command is not None
    if typed or settings.command or settings.adapter or settings.agents:
        # The program may have been repaired since; what is given now counts.
        chosen = chosen_agent(task.id, settings, adapter=request.adapter, command=request.command)
        kept = ("agent_id", "env", "type", "policy")
        agent = chosen.model_copy(update={name: getattr(agent, name) for name in kept})
    refuse_other_words(engine, task, known)
    if told := _what_follows(known, request):
        tell(told)
    if not is_done(known.work):
        within_budgets(engine, (Job(agent, task),), (known,), settings, tell)
    return Workload((Job(agent, task, after_reject=True),))


def _what_follows(known: AgentLifecycle, request: RunRequest) -> str:
    """Say what becomes of a task that was begun before; nothing if it was given up."""
    if is_done(known.work):
        again = known.agent_id if isinstance(known.work, Completed) else ""
        return done_before(known.task_id, request.options(), again)
    if known.is_over:
        kept = f"what was rejected is kept as {known.earlier_id}"
        return f"task {known.task_id} was rejected by a person and begins again; {kept}"
    if known.state in (AgentState.QUEUED, AgentState.RUNNING):
        return f"continuing task {known.task_id}, which was started before"
    return ""


async def planned(  # noqa: PLR0913  # the last by name
    engine: LocalEngine,
    plan: Plan | None,
    settings: Settings,
    *,
    everything: bool,
    tell: Callable[[str], None] | None = None,
    stays: bool = False,
) -> Workload:
    """Return the tasks of a plan and, with `everything`, all that is unfinished here.

    A runner that `stays` may start more tasks later.
    """
    require_tools(settings)
    store = engine.shared.store
    damaged: dict[str, Damaged] = {}
    jobs = {} if plan is None else await of_plan(engine, plan, settings, damaged)
    unfinished, unreadable = await _unfinished(store)
    if everything:
        damaged |= {each.agent_id: each for each in unreadable}
        for record in unfinished:
            if record.agent_id not in jobs and _needs_a_runner(record):
                with _setting_aside(damaged):
                    jobs[record.agent_id] = await recorded(engine, record)
    if tell is not None:
        for line in (*map(_named, damaged.values()), *_of_drafts(unfinished)):
            tell(line)
    held = []
    for record in unfinished:
        job = jobs.get(record.agent_id)
        if job is None or not isinstance(record.work, Suspended):
            continue
        if record.work.tally.pause_turns:
            # It continues by itself, once its turns have passed.
            jobs[record.agent_id] = replace(job, resume=False)
        else:
            held.append(record)
            del jobs[record.agent_id]
    if jobs or stays:
        within_budgets(engine, jobs.values(), unfinished, settings, tell)
    return Workload(tuple(jobs.values()), tuple(held), damaged=tuple(damaged.values()))


def _needs_a_runner(record: AgentLifecycle) -> bool:
    """Tell whether it goes on by itself: not completed work, unless its merge was cut short."""
    over = isinstance(record.work, Completed) and not record.work.merging
    return not over and not is_draft(record)


def _of_drafts(records: Iterable[AgentLifecycle]) -> Iterator[str]:
    """Name a draft that was left: nobody waits for it any more."""
    for record in records:
        if is_draft(record):
            yield _UNFINISHED_DRAFT.format(record.agent_id)


async def _unfinished(store: SqliteStore) -> tuple[list[AgentLifecycle], list[Damaged]]:
    """Return all that has not ended, the oldest first, and what of it cannot be read; read once."""
    unfinished: list[AgentLifecycle] = []
    damaged: list[Damaged] = []
    async for page in store.pages(Filter(states=_NOT_OVER)):
        unfinished += [record for record in page.records if record.work is not None]
        damaged += page.damaged
    return unfinished[::-1], damaged[::-1]


async def of_plan(
    engine: LocalEngine, plan: Plan, settings: Settings, damaged: dict[str, Damaged]
) -> dict[str, Job]:
    """Return what of a plan can be run, by agent; PlanError for a plan that cannot be.

    Records that cannot be read go to `damaged`.
    """
    store, jobs = engine.shared.store, dict[str, Job]()
    asked = [(task, agent_for(task, plan, settings)) for task in plan.tasks]
    require_issues(plan.tasks, engine.shared.ci)
    await refuse_reused(engine, plan, asked)
    retired = await store.all(RETIRED)
    engine.shared.plans.update((task.id, plan.mark()) for task in plan.tasks)
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


def within_budgets(
    engine: LocalEngine,
    jobs: Collection[Job],
    records: Iterable[AgentLifecycle],
    settings: Settings,
    tell: Callable[[str], None] | None,
) -> None:
    """Refuse programs that their budgets cannot limit; warn once of each that is not limited."""
    marks = dict[str, PlanMark]()
    for record in records:
        with suppress(ValueError):  # damaged facts are told where they are read
            marks[record.agent_id] = plan_of(record)
    budgets: list[tuple[Agent, Allowance | None, Allowance | None]] = []
    for job in jobs:
        mark = engine.shared.plans.get(job.task.id) or marks.get(job.agent.agent_id)
        budgets.append((job.agent, job.task.budget, mark.budget if mark is not None else None))
    warnings = list(unlimited(settings, (each for budget in budgets for each in budget[1:])))
    if not warnings:
        for agent, of_task, of_plan in budgets:
            require_counted(agent, settings, of_task, of_plan)
            warnings += exempted(agent, settings, of_task, of_plan)
    if tell is not None:
        for line in dict.fromkeys(warnings):
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


async def recorded(engine: LocalEngine, record: AgentLifecycle) -> Job:
    """Return a lifecycle as it was last run; RecordDamagedError when that cannot be read."""
    try:
        case = await load(engine.shared.store, record)
    except (LifecycleError, LookupError, ValueError) as problem:
        raise damage_of(record, problem) from problem
    return Job(case.agent, case.task)


async def _known(engine: LocalEngine, request: RunRequest) -> AgentLifecycle | None:
    if request.task_id is not None:
        return await engine.shared.base_commits.of_task(request.task_id)
    same = task_of(request.text, "T000")
    for record in await engine.shared.store.unfinished():
        with suppress(KeyError, ValueError):  # one whose facts are damaged is not the one meant
            task = Task.model_validate(record.facts["task"])
            if (task.title, task.description) == (same.title, same.description):
                return record
    return None


async def _fresh(engine: LocalEngine, request: RunRequest, settings: Settings) -> Job:
    if not request.text:
        raise PlanError(
            f"there is no task {request.task_id} here yet; say what is to be done: "
            f'loopwright run "TEXT" --task-id {request.task_id}'
        )
    task_id = request.task_id or await free_task_id(engine.shared.store)
    task = task_of(
        request.text,
        task_id,
        verify=request.verify,
        setup=request.setup or None,
        budget=request.budget,
        base=request.base,
        issue=request.issue or "",
        max_retries=request.max_retries,
    )
    require_issues([task], engine.shared.ci)
    agent = chosen_agent(task.id, settings, adapter=request.adapter, command=request.command)
    startable(agent)
    if request.base is not None:
        await startable_from(engine.machine.repo, request.base)
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


async def free_task_id(store: SqliteStore) -> str:
    """Return the lowest task id that no record has or had, nor the agent named after it."""
    used = set(await store.all(RETIRED)).union(*await names(store))
    number = 1
    while {f"T{number:03d}", default_agent_id(f"T{number:03d}")} & used:
        number += 1
    return f"T{number:03d}"


async def names(store: SqliteStore) -> list[tuple[str, str]]:
    """Return agent and task of all records, also of those that cannot be read."""
    return [(known.agent_id, known.task_id) for known in await store.outlines()]


def _changed(task: Task, request: RunRequest) -> Task:
    changes: dict[str, object] = {}
    if request.text:
        said = task_of(request.text, task.id)
        changes |= {"title": said.title, "description": said.description}
    if request.verify:
        changes["verify"] = request.verify
    if request.setup:
        changes["setup"] = request.setup
    if request.budget is not None:
        before = task.budget.model_dump() if task.budget is not None else {}
        changes["budget"] = Allowance(**before | request.budget.model_dump(exclude_none=True))
    if request.base is not None:
        changes["base"] = request.base
    if request.issue is not None:
        changes["issue"] = task_of(task.title, task.id, issue=request.issue).issue
    if request.max_retries is not None:
        changes["max_retries"] = request.max_retries
    return task.model_copy(update=changes)
