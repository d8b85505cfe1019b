"""The workflow of one lifecycle: it takes facts, decides by `Drive`, orders, and keeps time.

Handlers decide at once, without waiting, so that one fact is taken after the other. Must not import
what could look at a clock, a disk or a network: the list of what passes its sandbox is an import
contract. What it decided is written by the coordinator; workers need not wait for that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from copy import copy
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from lifecycle.drive import Drive, broken_off
from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.events import Event
from lifecycle.machine.states import (
    ACTIVE,
    Capturing,
    Spawning,
    Stopping,
    Verifying,
    Working,
    attempt_of,
    next_instant,
)
from lifecycle.machine.values import changed
from lifecycle.owner.decider import Beginning, FactAnswer, Telling, Terms, on_a_worker
from lifecycle.record import PendingEffect, Transaction
from lifecycle.record import placed as placed_on
from orchestrator.engines.temporal import options
from orchestrator.engines.temporal.calls import Answers, call
from orchestrator.engines.temporal.payloads import (
    KeepCall,
    OrderAnswer,
    OrderCall,
    PlacedCall,
    ReclaimCall,
    ReportCall,
    VisitCall,
    WorkflowEnd,
    WorkflowStart,
    together,
)
from orchestrator.engines.temporal.visits import VisitState, label_of

SUPERSEDED = (do.SpawnAgent, do.StopAgent, do.FreezeAgent, do.ThawAgent)
"""Orders that mean nothing any more once the process that they are about is gone."""
Work = Callable[[], Coroutine[Any, Any, Any]]


@workflow.defn(name="lifecycle")
class LifecycleWorkflow:
    """Decides on one lifecycle until it is released."""

    @workflow.init
    def __init__(self, start: WorkflowStart) -> None:
        """Stand where the store does."""
        begun = start.beginning
        self._start = start
        self._queues = options.Queues(start.project)
        self._terms = begun.terms
        self._drive = Drive(begun.copy)
        self._drive.carried_out(*begun.done)
        self._answers = Answers(begun.answers)
        self._visits = begun.visits
        self._visit: VisitState | None = None
        self._unkept: deque[Transaction] = deque()
        self._released = self._taken_up = False
        self._attempted = False
        """A worker had it in this run."""
        self._in_vain = 0
        """Visits, one after the other, that no worker took."""
        self._left: tuple[PendingEffect, ...] = ()
        """Orders that a worker gave back without an answer after it was released."""
        self._wrong: Exception | None = None
        """What a task beside the run met that it cannot go on from."""
        self._next: tuple[PendingEffect, ...] = ()
        """Orders of the next attempt, which is one of the next run."""

    @workflow.run
    async def run(self, start: WorkflowStart) -> WorkflowEnd:
        """Decide until it is released; at each rest after an attempt begin afresh."""
        del start
        keeping = asyncio.create_task(self._watched(self._keep_all))
        self._take_up()
        while not (self._released and self._is_quiet()):
            await self._wait()
            if self._may_begin_afresh():
                workflow.continue_as_new(replace(self._start, beginning=self._afresh()))
        keeping.cancel()
        return WorkflowEnd(effects=self._drive.settled())

    # --- what it is told ----------------------------------------------------------------------

    @workflow.update(name="take")
    def take(self, telling: Telling) -> FactAnswer:
        """Take a fact from the coordinator."""
        self._take_up()
        self._know(telling.terms)
        return self._answers.once(
            lambda: self._decide(telling.event, telling.effect_id, telling.request_id)
        )

    @workflow.update(name="renew")
    def renew(self, beginning: Beginning) -> FactAnswer:
        """Go on for a coordinator that began anew, with what task and agent are now."""
        self._know(beginning.terms)
        was_released, self._released = self._released, False
        record = self._drive.copy.record
        known = beginning.copy.record.facts
        record.facts = {**record.facts, **{each: known[each] for each in _TOLD if each in known}}
        if was_released and self._visit is None and not self._next:
            left, self._left = self._left, ()
            self._take_over(left)
        return FactAnswer()

    def _know(self, terms: Terms | None) -> None:
        """Go by these terms; a coordinator that began anew may not know yet what a worker must."""
        if terms is not None:
            self._terms = terms if terms.work else replace(terms, work=self._terms.work)

    @workflow.signal(name="placed")
    def placed(self, placed: PlacedCall) -> None:
        """Learn which worker has the assignment."""
        visit = self._visit
        if visit is not None and visit.assignment_id == placed.assignment_id:
            visit.worker = placed.worker
            record, worker = self._drive.copy.record, placed.worker
            attempt = attempt_of(record.work) if record.work is not None else 0
            record.facts = placed_on(record.facts, worker, worker, attempt)

    @workflow.signal(name="report")
    def report(self, report: ReportCall) -> None:
        """Take a fact from the worker that has the assignment; from no other."""
        if self._visit is not None and self._visit.assignment_id == report.assignment_id:
            self._decide(self._stamped(report.event))

    @workflow.signal(name="release")
    def release(self) -> None:
        """End, once nothing is open."""
        self._released = True
        self._end_visit()

    # --- deciding -----------------------------------------------------------------------------

    def _now(self) -> float:
        return workflow.time()

    def _stamped(self, event: Event) -> Event:
        """Return a worker's fact with the time of this machine: others' clocks may be wrong."""
        return changed(event, at=self._now())

    def _decide(self, event: Event, effect_id: str = "", request_id: int = 0) -> FactAnswer:
        drive = self._drive
        turn = drive.take(event, self._terms.policy, effect_id=effect_id, request_id=request_id)
        commit = turn.commit
        if commit is None:
            return FactAnswer(refused=turn.refused)
        self._unkept.append(replace(commit, record=copy(commit.record)))
        drive.committed(turn)
        commit.record.version += 1
        seq = drive.copy.seq
        if (visit := self._visit) is not None:
            visit.journal += commit.journal
            visit.row = commit.attempt or visit.row
        self._break_off(event.at)
        if orders := tuple(each for each in turn.orders if on_a_worker(each.effect)):
            self._order(orders)
        self._end_visit()
        return FactAnswer(seq=seq)

    def _break_off(self, at: float) -> None:
        """Have gates or a baseline ended that nobody wants any more."""
        fact, visit = broken_off(self._drive.state, at), self._visit
        open_now = [each.effect_id for each in self._next] + list(visit.open if visit else ())
        if fact is None or not open_now:
            return
        self._drive.carried_out(*open_now)
        self._next = ()
        if visit is not None:
            visit.open.clear()
            for task in visit.tasks:
                task.cancel()
        self._decide(fact)

    # --- keeping ------------------------------------------------------------------------------

    async def _keep_all(self) -> None:
        """Hand commits to the coordinator, in their order, for as long as it takes."""
        while True:
            await workflow.wait_condition(lambda: bool(self._unkept))
            batch = together(self._unkept)
            await call(
                "keep",
                KeepCall(agent_id=self._drive.copy.agent_id, commits=batch),
                queue=self._queues.coordinator,
                timeouts=options.KEEP,
            )
            for _ in batch:
                self._unkept.popleft()

    # --- assignments --------------------------------------------------------------------------

    def _take_up(self) -> None:
        """Go on from where it began, once: a fact may be told before `run` gets its turn."""
        if self._taken_up:
            return
        self._taken_up = True
        if self._start.beginning.ordered:
            self._order(self._start.beginning.ordered)
        else:
            self._take_over(self._start.beginning.orders)

    def _take_over(self, orders: tuple[PendingEffect, ...]) -> None:
        """Have carried out what was ordered and is not known to be done, by a worker."""
        if isinstance(self._drive.state, (Spawning, Working, Stopping)):
            gone = [each for each in orders if isinstance(each.effect, SUPERSEDED)]
            self._drive.carried_out(*(each.effect_id for each in gone))
            visit = self._new_visit()
            rest = tuple(each for each in orders if each not in gone)
            marks = tuple(e.effect_id for e in gone if isinstance(e.effect, do.SpawnAgent))
            self._carry_out(visit, partial(self._reclaimed, visit, marks, rest))
        elif orders:
            self._attempted = False
            self._order(orders)

    def _order(self, orders: tuple[PendingEffect, ...]) -> None:
        """Give orders to the worker that has it; in a fresh run, if this one had an attempt."""
        visit = self._visit
        if not orders:
            return
        if visit is None or visit.ending or visit.gone:
            if self._attempted:
                self._next += orders
                return
            visit = self._new_visit()
        visit.open.update({each.effect_id: each for each in orders})
        self._carry_out(visit, partial(self._one_by_one, visit, orders))

    def _carry_out(self, visit: VisitState, work: Work) -> None:
        async def until_gone() -> None:
            with suppress(ActivityError):  # only one that was broken off does not come back
                await self._watched(work)

        task = asyncio.create_task(until_gone())
        visit.tasks.add(task)
        task.add_done_callback(visit.tasks.discard)

    async def _watched(self, work: Work) -> None:
        """Have the run stop, visibly, at what is wrong in what is done beside it."""
        try:
            await work()
        except ActivityError:
            raise
        except Exception as problem:  # noqa: BLE001  # raised by the run
            self._wrong = problem

    def _new_visit(self) -> VisitState:
        before, self._visits, self._attempted = self._visit, self._visits + 1, True
        record = self._drive.copy.record
        visit = self._visit = VisitState(f"{record.birth}.{self._visits}")
        asyncio.create_task(self._watched(partial(self._assign, visit, before)))  # noqa: RUF006  # the workflow's loop keeps it
        return visit

    async def _assign(self, visit: VisitState, before: VisitState | None) -> None:
        """Let a worker have it, until it rests or the worker is lost."""
        if before is not None:
            await workflow.wait_condition(lambda: before.gone)
        if not self._terms.work:
            await workflow.wait_condition(lambda: bool(self._terms.work) or self._released)
        if self._released or visit.may_end(self._drive.state):
            self._is_gone(visit)
            return
        visit.begun = True
        if pause := self._pause():
            with suppress(TimeoutError):
                await workflow.wait_condition(lambda: visit.ending, timeout=pause)
                self._is_gone(visit)
                return
        visit.journal.clear()
        told = VisitCall(
            assignment_id=visit.assignment_id,
            copy=self._drive.copy,
            work=self._terms.work,
            lease=self._start.lease,
        )
        visit.held = asyncio.create_task(
            call(
                "assignment",
                told,
                queue=self._queues.agents_with(label_of(self._drive.copy.record)),
                timeouts=options.visit(self._start.lease),
                attempts=1,
            )
        )
        ended = (await asyncio.gather(visit.held, return_exceptions=True))[0]
        refused = isinstance(ended, ActivityError) and isinstance(ended.cause, ApplicationError)
        self._in_vain = self._in_vain + 1 if refused and not visit.worker else 0
        self._is_gone(visit)

    def _pause(self) -> timedelta:
        """Return how long it waits before it is offered to those that refused it."""
        return options.place_again_after(self._in_vain) if self._in_vain else timedelta()

    def _is_gone(self, visit: VisitState) -> None:
        """Go on without the worker that had it, or with another."""
        visit.gone = True
        for task in visit.tasks:
            task.cancel()
        left = tuple(visit.open.values())
        if self._visit is visit:
            self._visit = None
            if self._released:
                self._left = left
            elif not self._next:
                self._take_over(left)

    async def _one_by_one(self, visit: VisitState, orders: tuple[PendingEffect, ...]) -> None:
        await workflow.wait_condition(lambda: bool(visit.worker))
        for each in orders:
            order = OrderCall(
                assignment_id=visit.assignment_id,
                order=each,
                record=self._drive.copy.record,
                journal=tuple(visit.journal),
                row=visit.row,
            )
            visit.journal.clear()
            answer = await self._to_worker(visit, "perform", order, OrderAnswer)
            visit.open.pop(each.effect_id, None)
            if answer.event is None:
                self._drive.carried_out(each.effect_id)
                self._end_visit()
            else:
                self._decide(self._stamped(answer.event), each.effect_id)

    async def _reclaimed(
        self, visit: VisitState, marks: tuple[str, ...], rest: tuple[PendingEffect, ...]
    ) -> None:
        """Learn what became of an attempt whose worker was lost, and go on from there."""
        await workflow.wait_condition(lambda: bool(visit.worker))
        state = self._drive.state
        if isinstance(state, (Working, Stopping)):
            marks = (*marks, state.process.spawn_id)
        order = ReclaimCall(
            assignment_id=visit.assignment_id, attempt=state.tally.attempt, marks=marks
        )
        answer = await self._to_worker(visit, "reclaim", order, OrderAnswer)
        if answer.event is not None:
            self._decide(self._stamped(answer.event))
        if rest:
            self._order(rest)

    async def _to_worker(self, visit: VisitState, name: str, value: Any, result: type) -> Any:
        return await call(
            name,
            value,
            queue=self._queues.worker(visit.worker),
            timeouts=options.ORDER,
            result=result,
        )

    def _end_visit(self) -> None:
        """Have the worker let go of it once it rests, or once nobody wants it decided on."""
        visit = self._visit
        if visit is None or visit.ending or not visit.begun:
            return
        if visit.may_end(self._drive.state) or self._released:
            self._let_go(visit)

    def _let_go(self, visit: VisitState) -> None:
        visit.ending = True
        if visit.worker:
            end = partial(self._to_worker, visit, "end", visit.assignment_id, OrderAnswer)
            self._carry_out(visit, end)
        elif visit.held is not None:
            visit.held.cancel()  # no worker has it yet

    # --- time, rest, end ----------------------------------------------------------------------

    def _deadline(self) -> float | None:
        """Return the instant of its state; that for which it needs a slot is the coordinator's."""
        state = self._drive.state
        return None if isinstance(state, (Capturing, Verifying)) else next_instant(state)

    async def _wait(self) -> None:
        instant = self._deadline()
        left = None
        if instant is not None:
            left = timedelta(seconds=max(0.0, instant - self._now())) + options.DEADLINE_SLACK
        try:
            await workflow.wait_condition(
                lambda: (
                    self._wrong is not None
                    or self._deadline() != instant
                    or (self._released and self._is_quiet())
                    or self._may_begin_afresh()
                ),
                timeout=left,
            )
        except TimeoutError:
            self._decide(on.DeadlinePassed(at=self._now()))
        if self._wrong is not None:
            raise self._wrong

    def _is_quiet(self) -> bool:
        return self._visit is None and not self._unkept

    def _may_begin_afresh(self) -> bool:
        if not self._is_quiet() or self._released:
            return False
        if self._next or isinstance(self._drive.state, ACTIVE):
            return bool(self._next)
        length = workflow.info().get_current_history_length()
        return self._attempted or length > options.LONG_HISTORY

    def _afresh(self) -> Beginning:
        mine, done = self._drive.copy, self._drive.settled()
        return Beginning(
            copy=mine,
            terms=self._terms,
            ordered=self._next,
            visits=self._visits,
            done=done,
            answers=self._answers.latest(),
        )


_TOLD = ("task", "agent", "plan")
"""Facts of a record that a caller may tell anew."""
