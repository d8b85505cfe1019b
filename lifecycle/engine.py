"""Runs the lifecycles of one repository on this machine: one owner each, any number at once.

Owns who is running, what they tell each other (a completed task, a CI event) and the requests that
people leave in the store. What any fact means is the machine's business.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lifecycle.asking import only_a_person
from lifecycle.bases import is_done
from lifecycle.case import load
from lifecycle.cases import case_of
from lifecycle.errors import (
    LifecycleError,
    StateGoneError,
    StoreDamagedError,
    StoreError,
    UnknownLifecycleError,
)
from lifecycle.housing import leave
from lifecycle.judging.merging import in_base
from lifecycle.machine import events as on
from lifecycle.machine.blocks import waits_for
from lifecycle.machine.states import (
    About,
    Accepted,
    AwaitingHuman,
    Blocked,
    Coarse,
    Completed,
    Queued,
    Reason,
    Rejected,
    Suspended,
)
from lifecycle.masking import masked
from lifecycle.owner import UNTIL_CAPTURED, Owner
from lifecycle.performer import Performer
from lifecycle.record import AgentLifecycle, Filter
from lifecycle.recovery import end_strays, learn_completed
from lifecycle.result import LoopResult, LoopResultType, ended, interrupted
from lifecycle.retention import Retention
from lifecycle.shortfall import patiently
from lifecycle.store.walk import every, pages
from lifecycle.wishes import LOOK_EVERY, Wishes
from runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ci.events import CIEvent
    from lifecycle.machine.events import Event
    from lifecycle.machine.states import State
    from lifecycle.parts import Parts
    from lifecycle.plan import Agent, Task
    from lifecycle.record import Request

RECOVERED_AT_ONCE = 8


class Engine:
    """All lifecycles of one repository in this process."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.performer = Performer(parts)
        parts.running = self._tasks_running
        self._owners: dict[str, Owner] = {}
        self._draining = False
        self._started = False
        self._unsubscribe: Callable[[], None] = _nothing
        self._wishes = Wishes(parts, self._take_up, self._lose_ground)
        self._gone = ""
        """Why it ended by itself: lock or records are not its own any more."""
        self._ending: asyncio.Task[None] | None = None
        self._applying: set[str] = set()
        self._requested: set[asyncio.Task[None]] = set()
        """Requests for lifecycles that nobody runs, while they are carried out."""
        self._retention = Retention(parts, self._claim)
        self.revive: Callable[[AgentLifecycle], None] | None = None
        """Called with a record that a person's request made runnable and that nobody runs."""
        self.abandon: Callable[[], None] = _nothing
        """Called when nothing may begin any more; what runs is being shut down."""

    # --- beginning and end --------------------------------------------------------------------

    async def start(self) -> None:
        """End what an earlier runner left alive, bring its work to safety, listen."""
        if self._started:
            return
        self._started = True
        parts = self.parts
        await patiently(partial(end_strays, parts), parts.report)
        await learn_completed(parts)
        await parts.accounts.load()
        if parts.ci is not None:
            await parts.ci.start()
            self._unsubscribe = parts.ci.subscribe(self._hear)
        await self.recover_agents()
        self._wishes.listen()
        self._retention.begin()

    async def aclose(self) -> None:
        """Shut down what runs, then stop listening; nothing is left running."""
        await self.shutdown()
        self._unsubscribe()
        await self._wishes.aclose()
        await asyncio.gather(*self._requested, return_exceptions=True)
        await self._retention.aclose()
        await self.parts.terminals.aclose(self.parts.settings().stop_grace)
        if self.parts.ci is not None:
            await self.parts.ci.aclose()
        await self.parts.watcher.aclose()
        await self.parts.scribe.aclose()

    async def shutdown(self) -> None:
        """End every loop with its work saved and its record resumable."""
        self._draining = True
        self._wishes.end()
        self.performer.break_off()
        for owner in tuple(self._owners.values()):
            owner.drain()
        while self._owners:
            await asyncio.gather(*(owner.gone.wait() for owner in tuple(self._owners.values())))

    def _lose_ground(self, gone: str) -> None:
        """Stop and save what runs: nothing can be recorded, and nobody is kept out any more."""
        self._gone = gone
        self.parts.report("lifecycle_state_gone", reason=gone)
        self._ending = asyncio.get_running_loop().create_task(self.shutdown())
        self.abandon()

    def require_ground(self) -> None:
        """Raise StateGoneError when this runner's lock or records were taken away from it."""
        if self._gone:
            raise StateGoneError(self._gone)

    async def kill(self) -> None:
        """End every agent's tree at once; what was being saved is finished all the same."""
        live = self.parts.terminals.live()
        await asyncio.gather(*(process.stop(0.0) for process in live))

    async def recover_agents(self) -> tuple[str, ...]:
        """Bring to safety what a crash left in the middle of an attempt; returns whom."""
        lost: list[AgentLifecycle] = []
        async for page in pages(self.parts.store, Filter(states=(Coarse.QUEUED, Coarse.RUNNING))):
            for damaged in page.damaged:
                self.parts.report(
                    "lifecycle_record_damaged", agent_id=damaged.agent_id, reason=damaged.problem
                )
            lost += [
                record
                for record in page.records
                if isinstance(record.work, UNTIL_CAPTURED) and record.agent_id not in self._owners
            ]
        lost.reverse()
        gate = asyncio.Semaphore(RECOVERED_AT_ONCE)

        async def settle(record: AgentLifecycle) -> bool:
            async with gate:
                with self._claim(record.agent_id) as free:
                    if free:
                        case = await load(self.parts.store, record)
                        owner = Owner(case, self.parts, self.performer)
                        owner.drain()
                        await owner.run()
                    return free

        done = await asyncio.gather(*map(settle, lost), return_exceptions=True)
        for record, result in zip(lost, done, strict=True):
            # One that cannot be brought to rest must not keep all the others from running.
            if isinstance(result, Exception):
                self.parts.report(
                    "lifecycle_recovery_failed", agent_id=record.agent_id, reason=str(result)
                )
            elif isinstance(result, BaseException):
                raise result
        return tuple(
            record.agent_id for record, result in zip(lost, done, strict=True) if result is True
        )

    # --- one lifecycle ------------------------------------------------------------------------

    async def run(self, agent: Agent, task: Task, *, resume: bool = True) -> LoopResult:
        """Run the loop of one agent on one task until it ends; goes on where an earlier one was."""
        await self.start()
        owner = await self._own(agent, task)
        case, result = owner.case, None
        try:
            if self._draining:
                owner.drain()
            elif resume and _may_be_resumed(case.record):
                owner.tell(on.ResumeRequested(at=self.parts.clock.now(), by="run"))
            await self._settle_known(owner)
            result = await owner.run()
        except asyncio.CancelledError:
            result = interrupted(owner.case.record)
            raise
        except StoreError as problem:
            if not self._draining or isinstance(problem, (StoreDamagedError, StateGoneError)):
                await self._note_defect(owner.case.record, problem)
                raise
            # Nobody waits for room now: the record is as it was last written, and the next
            # runner goes on from there, as after a crash.
            self.parts.report(
                "lifecycle_store_failed", agent_id=agent.agent_id, reason=str(problem)
            )
            result = interrupted(owner.case.record)
        except Exception as problem:
            await self._note_defect(owner.case.record, problem)
            raise
        finally:
            del self._owners[agent.agent_id]
            self._wishes.handed -= owner.unread()
            owner.gone.set()
            self._settle_others(owner, result)
        if is_done(owner.case.record.work):
            await self._revive_dependents(owner.case.record.task_id)
        await self._tell_of_merge(owner.case.record)
        return result

    async def _note_defect(self, record: AgentLifecycle, problem: Exception) -> None:
        """Let the record say what ended its loop; it goes on from here in the next run."""
        text = f"the runner failed: {type(problem).__name__}: {problem}"
        text = self.parts.masker.mask(text)
        self.parts.report("lifecycle_loop_failed", agent_id=record.agent_id, reason=text)
        with suppress(LifecycleError):  # perhaps the very thing that failed
            await self.parts.store.update(replace(record, error=text))

    async def _own(self, agent: Agent, task: Task) -> Owner:
        """Become the one owner; a request that is being applied right now comes first."""
        agent_id = agent.agent_id
        before = await self.parts.store.get(agent_id)
        await self._turn(agent_id)
        self._applying.add(agent_id)
        try:
            case = await case_of(self.parts, agent, task, before)
            owner = Owner(case, self.parts, self.performer)
            self._owners[agent_id] = owner
        finally:
            self._applying.discard(agent_id)
        return owner

    async def _turn(self, agent_id: str) -> None:
        """Wait for the request, or the removal, that somebody carries out on a lifecycle."""
        while agent_id in self._applying:  # noqa: ASYNC110  # rare, and over within one request
            await asyncio.sleep(LOOK_EVERY / 10)
        if agent_id in self._owners:
            raise LifecycleError(f"{agent_id} is running already in this process")

    async def apply(
        self, agent_id: str, event: Event, *, request: int | None = None
    ) -> AgentLifecycle:
        """Let a fact take effect on a lifecycle that nobody runs; starts no agent.

        `request` is the id under which the fact is in the store already.
        """
        event = masked(event, self.parts.masker)
        if request is not None:
            self._wishes.handed.add(request)
        await self._turn(agent_id)
        with self._claim(agent_id):
            if request is None:
                # Nobody else takes it before it is noted as handed on: the claim is ours.
                request = await self.parts.store.ask(agent_id, event)
                self._wishes.handed.add(request)
            problem = await self._apply(agent_id, event, request)
        if problem:
            raise LifecycleError(problem)
        record = await self.parts.store.get(agent_id)
        if record is None:
            raise UnknownLifecycleError(f"{agent_id} was removed meanwhile")
        return record

    async def _apply(self, agent_id: str, event: Event, request: int) -> str:
        record = await self.parts.store.get(agent_id)
        if record is None or record.work is None:
            problem = f"there is no lifecycle {agent_id} in {self.parts.repo}"
            await self.parts.store.answer_request(request, problem)
            return problem
        if isinstance(event, on.RejectRequested) and isinstance(record.work, Rejected):
            # It ended by itself and kept its workspace to be looked at; now nobody wants it.
            try:
                await self.cleanup_agent(agent_id)
            except RuntimeFault as fault:
                await self.parts.store.answer_request(request, str(fault))
                return str(fault)
        if isinstance(event, on.RejectRequested) and (merged := await in_base(self.parts, record)):
            await self.parts.store.answer_request(request, merged)
            return merged
        owner = Owner(await load(self.parts.store, record), self.parts, self.performer)
        owner.drain()
        owner.tell(event, request_id=request)
        await owner.run()
        await self._tell_of_merge(owner.case.record)
        problem = await self.parts.store.request_outcome(request) or ""
        if not problem and self.revive is not None and ended(owner.case.record) is None:
            self.revive(owner.case.record)
        return problem

    async def _tell_of_merge(self, record: AgentLifecycle) -> None:
        """Let others forget that they were refused because this work was not accepted."""
        if not isinstance(record.work, Accepted):
            return
        event = on.AlongAccepted(at=self.parts.clock.now(), agent_id=record.agent_id)
        async for other in every(self.parts.store, Filter(states=(Coarse.COMPLETED,))):
            if isinstance(other.work, Completed) and record.agent_id in other.work.along:
                with self._claim(other.agent_id) as free:
                    if not free:
                        self.tell(other.agent_id, event)
                        continue
                    owner = Owner(await load(self.parts.store, other), self.parts, self.performer)
                    owner.drain()
                    owner.tell(event)
                    await owner.run()

    async def cleanup_agent(self, agent_id: str) -> None:
        """Remove workspace and branch of an ended lifecycle; unmerged work stays under a ref."""
        record = await self.parts.store.get(agent_id)
        attempt = record.work.tally.attempt if record and record.work else 0
        await leave(self.parts, agent_id, attempt)

    def tell(self, agent_id: str, event: Event) -> bool:
        """Pass a fact to a running loop; says whether there was one."""
        owner = self._owners.get(agent_id)
        if owner is not None:
            owner.tell(event)
        return owner is not None

    def owner(self, agent_id: str) -> Owner | None:
        """Return the owner of a running lifecycle."""
        return self._owners.get(agent_id)

    def owners(self) -> tuple[Owner, ...]:
        """Return the owners of all running lifecycles."""
        return tuple(self._owners.values())

    def notify(self, event: CIEvent) -> None:
        """Take a CI event that the caller hands in."""
        self._hear(event, handed=True)

    # --- what lifecycles tell each other ------------------------------------------------------

    async def _settle_known(self, owner: Owner) -> None:
        """Tell a new owner what became of its dependencies before it was there."""
        state = owner.state
        wanting: tuple[str, ...] = ()
        if isinstance(state, Queued):
            wanting = state.waiting_on
        elif isinstance(state, AwaitingHuman) and state.about is About.DEPENDENCY:
            wanting = state.blocked_on
        for wanted in wanting:
            record = await self.parts.bases.of_task(wanted)
            if record is None or wanted in self._tasks_running():
                continue
            if ended(record) is not None or self._is_left_to_people(record):
                owner.tell(self._settled(record))

    def _settle_others(self, owner: Owner, result: LoopResult | None) -> None:
        """Tell the others what became of a task; None when a defect ended its loop."""
        record = owner.case.record
        if not record.task_id or (result and result.result_type is LoopResultType.SHUTDOWN):
            return
        for other in self._owners.values():
            if _waits_for(other.state, record.task_id):
                other.tell(self._settled(record, result.error if result else None))

    async def _revive_dependents(self, task_id: str) -> None:
        """Take up what had been given up because this task did not complete before."""
        if self.revive is None:
            return
        async for record in every(self.parts.store, Filter(states=(Coarse.RUNNING,))):
            state = record.work
            waited = (
                isinstance(state, AwaitingHuman)
                and state.about in (About.DEPENDENCY, About.BLOCKED_TIMEOUT)
                and task_id in state.blocked_on
            ) or (isinstance(state, Blocked) and task_id in state.word.blocked_on)
            if waited and record.agent_id not in self._owners and self.revive is not None:
                self.revive(record)

    def _is_left_to_people(self, record: AgentLifecycle) -> bool:
        """Tell whether a lifecycle that nobody runs does not go on in this call."""
        parts = self.parts
        return (
            record.work is not None
            and not parts.settings().stay_for_people
            and only_a_person(
                record.work,
                running=self._tasks_running(),
                completed=parts.completed,
                has_ci=parts.ci is not None,
            )
        )

    def _settled(self, record: AgentLifecycle, error: str | None = None) -> Event:
        return on.DependencySettled(
            at=self.parts.clock.now(),
            task_id=record.task_id,
            done=is_done(record.work),
            text=record.error or error or "its loop ended early",
        )

    @contextmanager
    def _claim(self, agent_id: str) -> Iterator[bool]:
        """Keep owners and requests away from a lifecycle; False when one has it already."""
        if agent_id in self._owners or agent_id in self._applying:
            yield False
            return
        self._applying.add(agent_id)
        try:
            yield True
        finally:
            self._applying.discard(agent_id)

    def _tasks_running(self) -> set[str]:
        return {owner.case.record.task_id for owner in self._owners.values()}

    def _hear(self, event: CIEvent, *, handed: bool = False) -> None:
        for owner in self._owners.values():
            if owner.case.record.facts.get("branch") == event.branch:
                owner.hear(event, handed=handed)

    # --- what people ask for ------------------------------------------------------------------

    async def _take_up(self, request: Request) -> bool:
        """Give a request to whoever runs its lifecycle, or carry it out; False: not yet."""
        if request.agent_id in self._applying:
            return False
        owner = self._owners.get(request.agent_id)
        if owner is not None:
            owner.tell(request.event, request_id=request.request_id)
            return True
        # What it orders may take long (a merge is verified), and others ask for something, too.
        self._applying.add(request.agent_id)
        task = asyncio.get_running_loop().create_task(self._carry_out(request))
        self._requested.add(task)
        task.add_done_callback(self._requested.discard)
        return True

    async def _carry_out(self, request: Request) -> None:
        try:
            await self._apply(request.agent_id, request.event, request.request_id)
        except Exception as problem:  # noqa: BLE001  # it stays open for the next runner
            self.parts.report(
                "lifecycle_request_failed", agent_id=request.agent_id, reason=str(problem)
            )
        finally:
            self._applying.discard(request.agent_id)


def _nothing() -> None:
    pass


def _waits_for(state: State, task_id: str) -> bool:
    return task_id in waits_for(state)


def _may_be_resumed(record: AgentLifecycle) -> bool:
    """Whoever runs a lifecycle wants it to go on where it was given up or held.

    Where the agent has all that it waits for, only a person's word is news: not another start.
    """
    state = record.work
    if isinstance(state, Rejected):
        return state.reason is not Reason.PERSON
    waits = isinstance(state, AwaitingHuman) and not state.joined and ended(record) is not None
    return waits or isinstance(state, Suspended)
