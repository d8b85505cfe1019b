"""Runs loops in one process until each has ended: one task, or all of a plan.

Owns who is run, what follows each end by the policy of its type, what a person's signal or request
starts and ends, and the results. One loop that ends never disturbs the others, unless its type
says so; none is cut off while it saves its work.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING

from lifecycle.audit import Audit
from lifecycle.engine.retention import RETIRED
from lifecycle.errors import LifecycleError
from lifecycle.fleet.supervisor.scope import AgentPhase
from lifecycle.fleet.supervisor.supervisor import OnEnd, Supervisor, SupervisorPolicy
from lifecycle.machine import events as on
from lifecycle.machine.states import Accepted, Completed, Reason, Rejected, Suspended
from lifecycle.plan import Agent, Task
from lifecycle.result import LoopResultType, broken, ended
from lifecycle.store.damaged_records import RecordDamagedError
from orchestrator.drafting.draft_task import is_draft
from orchestrator.runner.page_stay import PageStay
from orchestrator.runner.settings_audit import SettingsAudit
from orchestrator.runner.workload import Job, RunResult
from orchestrator.terminal.options import user
from runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any

    from lifecycle.engine.engine import LocalEngine
    from lifecycle.fleet.supervisor.scope import AgentScope
    from lifecycle.record import AgentLifecycle
    from lifecycle.result import LoopResult
    from orchestrator.approval.approvals import Approvals
    from orchestrator.runner.server_interface import Beside
    from orchestrator.runner.signals import SignalHandler
    from orchestrator.runner.workload import PlanChanges, ReadsAgain, Workload
    from orchestrator.wording.live_view import LiveView

LOOP = "loop"
"""The type of an agent whose plan names none."""
LATE_AFTER = 5.0
"""Seconds beyond the agents' own grace after which a loop that should end is named."""
LOOK_EVERY = 0.5
"""Seconds between two looks whether somebody still decides in the pages."""
FAILED = (LoopResultType.ERROR, LoopResultType.MAX_RETRIES)
_THEN = {"end": OnEnd.END, "requeue": OnEnd.REQUEUE, "shutdown": OnEnd.SHUT_DOWN}


def policy_of(agent: Agent) -> SupervisorPolicy:
    """Return what follows an end of this agent: what its type says, else nothing."""
    done = error = OnEnd.END
    if agent.policy is not None:
        done, error = _THEN[agent.policy.on_done], _THEN[agent.policy.on_error]
    return SupervisorPolicy(done=done, error=error, forced=False)


class Service:
    """The loops of one call of `run` or `up`, under one supervisor."""

    def __init__(  # noqa: PLR0913  # the last by name
        self,
        engine: LocalEngine,
        view: LiveView,
        signals: SignalHandler,
        *,
        revives: bool,
        approvals: Approvals | None = None,
        late_after: float = LATE_AFTER,
    ) -> None:
        self._engine = engine
        self._view = view
        self._signals = signals
        self._keeps = True
        self._jobs: dict[str, Job] = {}
        self._running: set[str] = set()
        self._again: set[str] = set()
        """To be started again as soon as the keeper of their last loop has ended."""
        self._leaving: dict[str, asyncio.Event] = {}
        """Loops that a changed plan ends, until each is gone."""
        self._failure: Exception | None = None
        self._looking: asyncio.Task[None] | None = None
        self.ending = RunResult()
        self._approvals = approvals
        shared = engine.shared
        self.audit = Audit(shared.store.trail, now=shared.clock.now, masker=shared.masker)
        self.supervisor = Supervisor(
            _Loops(self, engine, self._jobs),
            grace=shared.settings().stop_grace + late_after,
            report=self._report,
            on_gone=self._gone,
        )
        self._settings = SettingsAudit(
            self.audit,
            shared.store,
            shared.settings,
            by=user(),
            masker=shared.masker,
            approvals=approvals,
            now=shared.clock.now,
            tell=view.note,
        )
        engine.abandon = self._abandon
        self._revives = revives
        if revives:
            engine.revive = self._revive

    # --- what others may do -------------------------------------------------------------------

    async def run(self, work: Workload) -> None:
        """Run all jobs to their ends, and what joins or is revived meanwhile."""
        self._keeps = not work.stays
        await self._settings.begin()
        unfollow = self._engine.turns.follow(self._look_at_settings)
        for job in work.jobs:
            if not await self._was_retired(job):
                self.start(job)
        reading = None if work.reload is None else asyncio.create_task(work.reload.watch(self))
        if reading is not None:
            reading.add_done_callback(self._reads_no_more)
        try:
            if work.stays:
                await self._told_to_end()
            if work.reload is not None:
                await self._run_out(work.reload)
            stayed = work.beside is not None and await self._stay_for(work.beside)
            await self._all_ended()
            if stayed:
                await self._count_rejected()
        finally:
            # What is asked for from now on is for the next runner.
            self._engine.revive = None
            if reading is not None:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
            unfollow()
            if self._looking is not None:
                await self._looking

    def start(self, job: Job) -> None:
        """Start a loop, or start it again once its last one has ended; not during a shutdown."""
        if self.supervisor.main.cancelled:
            return
        agent_id = job.agent.agent_id
        self._jobs[agent_id] = job
        self._running.add(agent_id)
        if agent_id in self.supervisor.agent_types:
            self._again.add(agent_id)
        else:
            self.supervisor.add(agent_id, job.agent.type or LOOP, policy_of(job.agent))

    async def stop(self, agent_id: str) -> Job | None:
        """End a loop with its record resumable, and wait until it has; return what it ran."""
        job = self._jobs.get(agent_id)
        if agent_id in self.supervisor.agent_types:
            gone = self._leaving[agent_id] = asyncio.Event()
            self.supervisor.stop(agent_id)
            await gone.wait()
        return job

    def forget(self, agent_id: str) -> None:
        """Count a task as never run here: its plan has it no more, or anew."""
        self.ending.forget(agent_id)
        self._view.forget(agent_id)

    def note(self, text: str) -> None:
        """Tell a line."""
        self._view.note(text)

    async def plan_read(self, plan: str, changes: PlanChanges) -> None:
        """Record that a plan was read again, and tell what of it waits for a person."""
        await self._settings.keep()
        if changes:
            await self.audit.record("plan", user(), plan, "read again", details=asdict(changes))

    def runs(self, agent_id: str) -> bool:
        """Tell whether a loop of this agent has not come to its end."""
        return agent_id in self._running

    async def shutdown(self) -> None:
        """End every loop with its work saved."""
        self.supervisor.shutdown("a signal")
        await self._engine.shutdown()

    async def kill(self) -> None:
        """End every agent's tree at once."""
        await self._engine.kill()

    async def requeue(self, agent_id: str, reason: str) -> bool:
        """Put a task that was given up back into the queue, as often as its type allows."""
        del reason  # its record has it
        agent = self._jobs[agent_id].agent
        record = await self._engine.shared.store.get(agent_id)
        most = agent.policy.requeues if agent.policy is not None else 0
        state = record.work if record is not None else None
        if not isinstance(state, Rejected) or state.tally.requeues >= most:
            return False
        again = on.ResumeRequested(
            at=self._engine.shared.clock.now(), by=f"the policy of {agent.type}", anew=True
        )
        self._running.add(agent_id)
        try:
            await self._engine.ask(agent_id, again)
        except (LifecycleError, RuntimeFault) as refusal:
            self._running.discard(agent_id)
            self._view.note(f"is not requeued: {refusal}", agent_id)
            return False
        return True

    # --- one loop -----------------------------------------------------------------------------

    async def ended(
        self, agent_id: str, result: LoopResult | None, problem: Exception | None
    ) -> tuple[AgentPhase, str]:
        """Record the end of a loop; returns its phase for the policy of its type, and why."""
        self._running.discard(agent_id)
        try:
            record = await self._settled(agent_id, result, problem)
        except Exception as defect:  # noqa: BLE001  # raised by `run`, once all loops have ended
            self._failure = self._failure or defect
            self.supervisor.shutdown(f"{type(defect).__name__}: {defect}", exit_code=1)
            return AgentPhase.ERROR, str(defect)
        if result is None:
            return AgentPhase.ERROR, f"{type(problem).__name__}: {problem}"
        work = record.work if record is not None else None
        if isinstance(work, Completed | Accepted):
            return AgentPhase.DONE, ""
        by_person = isinstance(work, Rejected) and work.reason is Reason.PERSON
        if result.result_type in FAILED and not by_person:
            return AgentPhase.ERROR, result.error or str(result.result_type)
        return AgentPhase.RESTING, ""

    async def _settled(
        self, agent_id: str, result: LoopResult | None, problem: Exception | None
    ) -> AgentLifecycle | None:
        try:
            record = await self._engine.shared.store.get(agent_id)
        except RecordDamagedError as found:
            # Damaged while it ran: the others run on.
            self.ending.damaged += (found.damaged,)
            self._view.note(str(found), agent_id)
            return None
        if record is None and result is not None:
            # Accepted long ago, and retired just now.
            self.ending.settled(agent_id, result, record, kept=self._keeps)
            return None
        if record is None:
            self.ending.defects[agent_id] = f"{problem or 'its record is gone'}"
            self._view.note(f"its loop could not run: {self.ending.defects[agent_id]}", agent_id)
            return None
        if result is not None:
            self.ending.defects.pop(agent_id, None)
        else:
            text = f"{type(problem).__name__}: {problem}"
            self.ending.defects[agent_id] = text
            result = broken(record, text)
            self._view.note(f"its loop ended with an internal error: {text}", agent_id)
        self.ending.settled(agent_id, result, record, kept=self._keeps)
        self._view.over(record)
        if self._revives and is_draft(record):
            self.forget(agent_id)  # what became of it is for those who wait for the draft
        return record

    def _gone(self, agent_id: str) -> None:
        if (leaving := self._leaving.pop(agent_id, None)) is not None:
            leaving.set()
        if agent_id not in self._again:
            self._jobs.pop(agent_id, None)
        else:
            self._again.discard(agent_id)
            self.start(self._jobs[agent_id])

    def _revive(self, record: AgentLifecycle) -> None:
        if self._signals.number or isinstance(record.work, Suspended):
            return
        if self.runs(record.agent_id):
            # An earlier request revived it a moment ago.
            return
        facts = record.facts
        self.start(Job(Agent.model_validate(facts["agent"]), Task.model_validate(facts["task"])))

    # --- all of them --------------------------------------------------------------------------

    async def _was_retired(self, job: Job) -> bool:
        """Tell whether it was accepted long ago, and its record is being removed or gone."""
        store = self._engine.shared.store
        record = await store.get(job.agent.agent_id)
        if record is not None and not isinstance(record.work, Accepted):
            return False
        return job.task.id in await store.all(RETIRED)

    async def _told_to_end(self) -> None:
        try:
            await self.supervisor.main.wait()
        except asyncio.CancelledError:
            self.supervisor.shutdown("cancelled")
            await self._all_ended()
            raise

    def _reads_no_more(self, reading: asyncio.Task[None]) -> None:
        problem = None if reading.cancelled() else reading.exception()
        if problem is not None:
            told = f"{type(problem).__name__}: {problem}"
            self.note(f"the plan is not read again any more, by a defect of loopwright: {told}")

    async def _run_out(self, reload: ReadsAgain) -> None:
        """Return once no loop is left, and the plan as it is then has nothing more to run."""
        while True:
            await self.supervisor.rest()
            if not self.supervisor.main.cancelled:
                await reload.look(self)
            if not self.supervisor.agent_types:
                return

    async def _all_ended(self) -> None:
        await self.supervisor.run()
        if self._failure is not None:
            raise self._failure

    async def _stay_for(self, beside: Beside) -> bool:
        """Go on while somebody decides in the pages; tell whether anybody did."""
        stay = PageStay(self._engine, beside, self._approvals, self._view.note)
        await self.supervisor.rest()
        while not self.supervisor.main.cancelled and await stay.wanted():
            await self.supervisor.main.sleep(LOOK_EVERY)
            await self.supervisor.rest()  # from loops that follow from what was decided
        return stay.told

    async def _count_rejected(self) -> None:
        """Let what was rejected while no loop ran count as if one had."""
        for agent_id in tuple(self.ending.codes):
            record = await self._engine.shared.store.get(agent_id)
            if record is not None and isinstance(record.work, Rejected) and (told := ended(record)):
                self.ending.settled(agent_id, told, record, kept=self._keeps)

    def _abandon(self) -> None:
        self._engine.revive = None
        self.supervisor.shutdown("lock or records are gone")

    def _report(self, event: str, /, **fields: Any) -> None:
        self._engine.shared.report(event, **fields)
        if event == "agent_stop_late":
            text = f"has not ended after {fields['seconds']:g} s; its work is still being saved"
            self._view.note(text, fields["agent_id"])
        elif event == "agent_ended" and fields["then"] == OnEnd.SHUT_DOWN:
            how = "failed" if fields["state"] == AgentPhase.ERROR else "is done"
            self._view.note(f"{how}: everything is shut down, as its type says", fields["agent_id"])

    def _look_at_settings(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        try:
            await self._settings.look()
        except (LifecycleError, RuntimeFault) as problem:
            self._engine.shared.report("settings_record_failed", reason=str(problem))


class _Loops:
    """Where the supervisor gets its agents from: a loop for each job."""

    def __init__(self, service: Service, engine: LocalEngine, jobs: Mapping[str, Job]) -> None:
        self.dispatcher = service
        self._engine, self._jobs = engine, jobs

    def knows(self, agent_type: str) -> bool:
        """Know all: a plan that names a type without a table is refused where it is read."""
        return bool(agent_type)

    def new_agent(self, agent_id: str, agent_type: str) -> _Loop:
        """Return the loop of the job that is to be run now."""
        del agent_type
        return _Loop(self._engine, self._jobs[agent_id], self.dispatcher.ended)

    async def set_up(self, agent_id: str) -> None:
        """Do nothing: the work of a loop is in its workspace, and continues from there."""


class _Loop:
    """One loop, as its supervisor sees it."""

    def __init__(
        self,
        engine: LocalEngine,
        job: Job,
        ended: Callable[
            [str, LoopResult | None, Exception | None], Awaitable[tuple[AgentPhase, str]]
        ],
    ) -> None:
        self._engine, self._job, self._ended = engine, job, ended

    async def run(self, scope: AgentScope) -> None:
        """Run until the lifecycle ends or waits for people; a cancelled scope drains it."""
        job, agent_id = self._job, self._job.agent.agent_id
        result, problem = None, None
        try:
            result = await self._engine.run(
                job.agent,
                job.task,
                resume=job.resume,
                after_reject=job.after_reject,
                ending=scope.on_cancel,
            )
        except Exception as broken_by:  # noqa: BLE001  # an error of one loop is reported, and must not end the others
            problem = broken_by
        scope.notify(*await self._ended(agent_id, result, problem))
