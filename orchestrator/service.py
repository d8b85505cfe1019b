"""Runs loops in one process until each has ended: one task, or all of a plan.

Owns who is run, what a person's signal or request starts and ends, and what comes out of it. One
loop that ends, however it ends, never disturbs the others.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lifecycle.audit import Audit
from lifecycle.fleet.scope import Scope
from lifecycle.machine.states import Accepted, Reason, Suspended
from lifecycle.plan import Agent, Task
from lifecycle.result import LoopResult, LoopResultType, broken
from lifecycle.retention import RETIRED
from lifecycle.store.damage import RecordDamagedError
from orchestrator.cli import exits
from orchestrator.cli.options import user
from orchestrator.crew import Crew
from orchestrator.heed import Heed
from orchestrator.mailroom import Mailroom
from orchestrator.population import Population
from orchestrator.prdesk import Desk
from orchestrator.settingtrail import SettingTrail
from orchestrator.web.office import Office

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from lifecycle.engine import Engine
    from lifecycle.loop import AgentLifecycleLoop
    from lifecycle.record import AgentLifecycle
    from lifecycle.store.damage import Damaged
    from orchestrator.approval.approvals import Approvals
    from orchestrator.providers import Outside
    from orchestrator.view import View
    from orchestrator.web.office import Beside

WORST_FIRST = (
    exits.INTERNAL_ERROR,
    exits.FAILED,
    exits.LIMIT_REACHED,
    exits.BLOCKED,
    exits.WAITING_OUTSIDE,
    exits.COMPLETE,
)
"""Of several loops the first of these counts that any of them has; a signal comes before all."""

_CODES = {
    LoopResultType.TASK_COMPLETE: exits.COMPLETE,
    LoopResultType.BLOCKED: exits.BLOCKED,
    LoopResultType.PR_CREATED: exits.WAITING_OUTSIDE,
    LoopResultType.MAX_RETRIES: exits.LIMIT_REACHED,
    LoopResultType.ERROR: exits.FAILED,
    # Without a signal a loop is shut down only by a person who stopped or paused it.
    LoopResultType.SHUTDOWN: exits.BLOCKED,
}


_LIMITS = (f"{Reason.BUDGET} ", f"{Reason.USAGE_LIMIT}: ")
"""How errors begin that are about a limit that a person can raise, or that passes."""


@dataclass(frozen=True, slots=True)
class Job:
    """One loop to run."""

    agent: Agent
    task: Task
    resume: bool = True
    """Whether one that is held goes on at once."""


@dataclass(frozen=True, slots=True)
class Work:
    """What to run, and which lifecycles a person holds."""

    jobs: tuple[Job, ...]
    held: tuple[AgentLifecycle, ...] = ()
    beside: Beside | None = None
    """What runs beside the loops; it may keep the runner alive when none is left."""
    damaged: tuple[Damaged, ...] = ()
    """Lifecycles that cannot be run: nobody can read their records."""

    @property
    def stays(self) -> bool:
        """Whether the runner waits for more when no loop is left."""
        return self.beside is not None and self.beside.stays


@dataclass(slots=True)
class Ending:
    """How all of it ended."""

    results: dict[str, LoopResult] = field(default_factory=dict)
    """By agent. A runner that stays keeps none: there may be any number, and the store has them."""
    codes: dict[str, int] = field(default_factory=dict)
    """What each loop is worth to the shell, by agent, unless it completed."""
    records: dict[str, AgentLifecycle] = field(default_factory=dict)
    """Read from the store at the end."""
    held: tuple[AgentLifecycle, ...] = ()
    damaged: tuple[Damaged, ...] = ()
    defects: dict[str, str] = field(default_factory=dict)
    signal_code: int = 0

    @property
    def exit_code(self) -> int:
        """What the shell is told."""
        if self.signal_code:
            return self.signal_code
        codes = set(self.codes.values())
        if self.held or self.damaged:
            codes.add(exits.BLOCKED)
        if self.defects:
            codes.add(exits.INTERNAL_ERROR)
        return next((code for code in WORST_FIRST if code in codes), exits.COMPLETE)

    def settled(self, agent_id: str, result: LoopResult, *, kept: bool) -> None:
        """Take note of how a loop ended, in place of how it ended before."""
        code = code_of(result)
        if code == exits.COMPLETE:
            self.codes.pop(agent_id, None)
        else:
            self.codes[agent_id] = code
        if kept:
            self.results[agent_id] = result


def code_of(result: LoopResult) -> int:
    """Return the exit code of one loop."""
    if result.result_type is LoopResultType.ERROR and (result.error or "").startswith(_LIMITS):
        return exits.LIMIT_REACHED
    return _CODES[result.result_type]


class Service:
    """The loops of one call of `run` or `up`."""

    def __init__(
        self,
        engine: Engine,
        view: View,
        heed: Heed,
        *,
        revives: bool,
        approvals: Approvals | None = None,
    ) -> None:
        self._engine = engine
        self._view = view
        self._heed = heed
        self._keeps = True
        self.ending = Ending()
        self.crew = Crew(engine, ended=self._settle, late=self._late)
        parts, who = engine.parts, user()
        self.audit = Audit(parts.store.trail, now=parts.clock.now, masker=parts.masker)
        self.population = Population(
            engine,
            self._start,
            audit=self.audit,
            settings=SettingTrail(
                self.audit,
                parts.store,
                parts.settings,
                by=who,
                masker=parts.masker,
                approvals=approvals,
                now=parts.clock.now,
                tell=view.note,
            ),
            by=who,
        )
        engine.abandon = self._abandon
        if revives:
            engine.revive = self._revive

    async def run(self, work: Work) -> None:
        """Run all jobs to their ends, and what joins or is revived meanwhile."""
        self._keeps = not work.stays
        held = [record.agent_id for record in work.held]
        held += [job.agent.agent_id for job in work.jobs if not job.resume]
        await self.population.open(held)
        for job in work.jobs:
            if not await self._was_retired(job):
                self._start(job.agent, job.task, resume=job.resume)
        try:
            if work.stays:
                await self._told_to_end()
            await self.crew.run()
        finally:
            # What is asked for from now on is for the next runner.
            self._engine.revive = None
            await self.population.aclose()

    async def _was_retired(self, job: Job) -> bool:
        """Tell whether it was accepted long ago, and its record is being removed or gone."""
        store = self._engine.parts.store
        record = await store.get(job.agent.agent_id)
        if record is not None and not isinstance(record.work, Accepted):
            return False
        return job.task.id in await store.all(RETIRED)

    async def _told_to_end(self) -> None:
        supervisor = self.crew.supervisor
        try:
            await supervisor.main.wait()
        except asyncio.CancelledError:
            supervisor.shutdown("cancelled")
            await self.crew.run()
            raise

    def _start(self, agent: Agent, task: Task, *, resume: bool = True) -> None:
        self.population.joined(agent)
        self.crew.start(agent, task, resume=resume)

    async def _settle(
        self, agent_id: str, result: LoopResult | None, problem: Exception | None
    ) -> None:
        try:
            record = await self._engine.parts.store.get(agent_id)
        except RecordDamagedError as found:
            # Damaged while it ran: the others run on.
            self.population.left(agent_id, None)
            self.ending.damaged += (found.damaged,)
            self._view.note(str(found), agent_id)
            return
        self.population.left(agent_id, record)
        if record is None and result is not None:
            # Accepted long ago, and retired just now.
            self.ending.settled(agent_id, result, kept=self._keeps)
            return
        if record is None:
            self.ending.defects[agent_id] = f"{problem or 'its record is gone'}"
            self._view.note(f"its loop could not run: {self.ending.defects[agent_id]}", agent_id)
            return
        if result is not None:
            self.ending.defects.pop(agent_id, None)
        else:
            text = f"{type(problem).__name__}: {problem}"
            self.ending.defects[agent_id] = text
            result = broken(record, text)
            self._view.note(f"its loop was ended by an error of the runner: {text}", agent_id)
        self.ending.settled(agent_id, result, kept=self._keeps)
        self._view.over(record)

    def _late(self, agent_id: str, seconds: float) -> None:
        text = f"has not ended after {seconds:g} s; its work is still being saved"
        self._view.note(text, agent_id)

    def _abandon(self) -> None:
        self._engine.revive = None
        self.crew.supervisor.shutdown("lock or records are gone")

    def _revive(self, record: AgentLifecycle) -> None:
        if self._heed.number or isinstance(record.work, Suspended):
            return
        if self.crew.runs(record.agent_id):
            # An earlier request revived it a moment ago.
            return
        agent = Agent.model_validate(record.facts["agent"])
        self._start(agent, Task.model_validate(record.facts["task"]))


async def conduct(  # noqa: PLR0913  # all by name
    loop: AgentLifecycleLoop,
    work: Callable[[Engine], Awaitable[Work]],
    *,
    view: View,
    outside: Outside,
    revives: bool,
    approvals: Approvals | None = None,
) -> Ending:
    """Open the repository, run what there is to run, and leave nothing behind.

    `work` is asked once the repository is ours. RepositoryBusyError names another runner.
    """
    with Heed(view.note) as heed:
        try:
            async with loop.opened() as engine:
                view.attach(engine)
                service = Service(engine, view, heed, revives=revives, approvals=approvals)
                heed.attach(service.crew)
                given = await work(engine)
                mailroom = Mailroom(engine, outside)
                office = Office(
                    engine,
                    service.audit,
                    view.note,
                    receiver=mailroom.receiver,
                    budgets=outside.budgets,
                    draining=lambda: bool(heed.number),
                )
                async with (
                    mailroom,
                    Desk(engine.parts.store, outside.provider, view.note, engine.parts.masker),
                    _beside(given.beside, office, service.crew),
                ):
                    service.ending.damaged = given.damaged
                    await service.run(given)
                # What a person asked for at the last moment shows in the records.
                ending = service.ending
                held = {each.agent_id: each for each in given.held}
                for agent_id in {**ending.results, **held}:
                    known = held if agent_id not in ending.results else ending.records
                    with suppress(RecordDamagedError):  # it stays known as it was
                        record = await engine.parts.store.get(agent_id)
                        if record is not None:
                            known[agent_id] = record
                ending.held = tuple(
                    record for record in held.values() if record.agent_id not in ending.results
                )
        finally:
            await view.close()
        shut_down = any(
            result.result_type is LoopResultType.SHUTDOWN for result in ending.results.values()
        )
        if heed.number and (shut_down or given.stays or not ending.results):
            ending.signal_code = heed.exit_code
        return ending


@asynccontextmanager
async def _beside(beside: Beside | None, office: Office, crew: Crew) -> AsyncIterator[None]:
    """Let something run beside the loops; it is told to end with them, or when they are told to.

    What breaks it ends the loops, and is raised once they have ended.
    """
    if beside is None:
        yield
        return
    over = Scope(crew.supervisor.main)
    running = asyncio.get_running_loop().create_task(
        beside.run(office, over.wait), name="beside the loops"
    )

    def broken(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            crew.supervisor.shutdown("the server failed", exit_code=1)

    running.add_done_callback(broken)
    try:
        yield
    finally:
        over.cancel()
        await running
