"""Runs the lifecycles of one repository on this machine: one owner each, any number at once.

Owns who is running, what they tell each other (a completed task, a CI event) and the requests that
people leave in the store. What any fact means is the machine's business.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from lifecycle.base_commits import is_done
from lifecycle.engine.dependents import goes_no_further, known_ends, settled, waited_for
from lifecycle.engine.early_events import EarlyEvents
from lifecycle.engine.issue_progress import follow_issues
from lifecycle.engine.open_lifecycle import case_of, may_be_resumed, only_starts
from lifecycle.engine.operation_log import OperationLog
from lifecycle.engine.owners import LocalOwners
from lifecycle.engine.recovery import learn_completed
from lifecycle.engine.requests import RequestPoller
from lifecycle.engine.retention import Retention
from lifecycle.engine.transition_hooks import TransitionHooks
from lifecycle.engine.turns import TurnPauses
from lifecycle.errors import (
    LifecycleError,
    StateGoneError,
    StoreDamagedError,
    StoreError,
    UnknownLifecycleError,
)
from lifecycle.judging.merge import in_base
from lifecycle.machine import events as on
from lifecycle.machine.rules.blocks import waits_for
from lifecycle.machine.runner_orders import OperationNote
from lifecycle.machine.states import Accepted, AgentState, Completed, Rejected
from lifecycle.mask_values import masked
from lifecycle.perform.performer import Performer
from lifecycle.perform.removal import remove_all
from lifecycle.record import AgentLifecycle, Filter, agent_of
from lifecycle.result import LoopResult, LoopResultType, ended, interrupted
from lifecycle.working_copy import load
from runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ci.events import CIEvent
    from lifecycle.engine.owners import Owners
    from lifecycle.machine.events import Event
    from lifecycle.owner.owner import Owner
    from lifecycle.plan import Agent, Task
    from lifecycle.record import OperatorRequest
    from lifecycle.services import MachineServices
    from lifecycle.working_copy import LocalCopy


class LocalEngine:
    """All lifecycles of one repository in this process."""

    def __init__(
        self,
        machine: MachineServices,
        early: deque[CIEvent] | None = None,
        owners: Callable[[MachineServices, Performer], Owners] = LocalOwners,
    ) -> None:
        self.machine, self.shared = machine, machine.shared
        self.performer = Performer(machine)
        self._ownership = owners(machine, self.performer)
        self._owners: dict[str, Owner] = {}
        self._early = EarlyEvents(deque() if early is None else early, self._owners)
        self.shared.observers.append(self._early.committed)
        self._draining = False
        self._started = False
        self._recovered: tuple[str, ...] = ()
        """Whom the start brought to safety, until somebody asks for them."""
        self._unsubscribe: Callable[[], None] = lambda: None
        self.inbox = RequestPoller(self.shared, self._take_up, self._lose_ground)
        self._gone = ""
        """Why it ended by itself: lock or records are not its own any more."""
        self._ending: asyncio.Task[None] | None = None
        self._applying: dict[str, asyncio.Event] = {}
        """Lifecycles that a request, a removal or a recovery has in hand, until it is over."""
        self._requested: set[asyncio.Task[None]] = set()
        """Requests for lifecycles that nobody runs, while they are carried out."""
        self._retention = Retention(machine, self._claim)
        self.turns = TurnPauses(self.shared, self.emit)
        self.operations = OperationLog(self.shared, lambda: self.turns.number)
        self.inbox.serve(OperationNote, self.noted)
        own = machine.own_commands
        self._hooks = None if own is None else TransitionHooks(self.shared, own, machine.repo)
        self.revive: Callable[[AgentLifecycle], None] | None = None
        """Called with a record that a person's request made runnable and that nobody runs."""
        self.abandon: Callable[[], None] = lambda: None
        """Called when nothing may begin any more; what runs is being shut down."""

    # --- beginning and end --------------------------------------------------------------------

    async def start(self) -> None:
        """End what an earlier runner left alive, bring its work to safety, listen."""
        if self._started:
            return
        self._started = True
        shared = self.shared
        await self._ownership.start()
        await learn_completed(shared)
        await shared.accounts.load()
        if shared.ci is not None:
            await shared.ci.start()
            self._unsubscribe = shared.ci.subscribe(self._hear)
        self._recovered = await self.recover_agents()
        await follow_issues(shared)
        self.inbox.listen()
        self._retention.begin()

    async def aclose(self) -> None:
        """Shut down what runs, then stop listening; nothing is left running."""
        await self.shutdown()
        self.turns.close()
        self._unsubscribe()
        await self.inbox.aclose()
        await asyncio.gather(*self._requested, return_exceptions=True)
        await self._retention.aclose()
        if self._hooks is not None:
            await self._hooks.aclose()
        await self.machine.terminals.aclose(self.shared.settings().stop_grace)
        if self.shared.ci is not None:
            await self.shared.ci.aclose()
        await self.machine.watcher.aclose()
        await self.machine.background.aclose()

    async def shutdown(self) -> None:
        """End every loop with its work saved and its record resumable."""
        self._draining = True
        self.inbox.end()
        self.performer.break_off()
        for owner in tuple(self._owners.values()):
            owner.drain()
        while self._owners:
            await asyncio.gather(*(owner.gone.wait() for owner in tuple(self._owners.values())))

    def _lose_ground(self, gone: str) -> None:
        """Stop and save what runs: nothing can be recorded, and nobody is kept out any more."""
        self._gone = gone
        self.shared.report("lifecycle_state_gone", reason=gone)
        self._ending = asyncio.get_running_loop().create_task(self.shutdown())
        self.abandon()

    def require_ground(self) -> None:
        """Raise StateGoneError when this runner's lock or records were taken away from it."""
        if self._gone:
            raise StateGoneError(self._gone)

    async def kill(self) -> None:
        """End every agent's tree at once; what was being saved is finished all the same."""
        live = self.machine.terminals.live()
        await asyncio.gather(*(process.stop(0.0) for process in live))

    async def recover_agents(self) -> tuple[str, ...]:
        """Bring to safety what a crash left in mid-attempt; returns all agent ids, each once."""
        earlier, self._recovered = self._recovered, ()
        return earlier + await self._ownership.recover(self._claim)

    # --- one lifecycle ------------------------------------------------------------------------

    async def run(
        self,
        agent: Agent,
        task: Task,
        *,
        resume: bool = True,
        after_reject: bool = False,
        ending: Callable[[Callable[[], None]], None] | None = None,
    ) -> LoopResult:
        """Run the loop of one agent on one task until it ends; continues an earlier one.

        With `after_reject` what a person rejected begins again, with a record of its own.
        `ending` is handed what ends this loop alone, soon and with its work brought to safety.
        """
        owner = await self._own(agent, task, after_reject=after_reject)
        local, result = owner.local, None
        if ending is not None:
            ending(owner.drain)
        try:
            if self._draining:
                owner.drain()
            elif resume and may_be_resumed(local.record):
                owner.emit(on.ResumeRequested(at=self.shared.clock.now(), by="run"))
            for fact in await known_ends(self.shared, owner.state):
                owner.emit(fact)
            self._early.tell(owner)
            result = await owner.run()
        except asyncio.CancelledError:
            result = interrupted(owner.local.record)
            raise
        except StoreError as problem:
            if not self._draining or isinstance(problem, (StoreDamagedError, StateGoneError)):
                await self._note_defect(owner.local.record, problem)
                raise
            # Nobody waits for room now: the record is as it was last written, and the next
            # runner continues from there, as after a crash.
            self.shared.report(
                "lifecycle_store_failed", agent_id=agent.agent_id, reason=str(problem)
            )
            result = interrupted(owner.local.record)
        except Exception as problem:
            await self._note_defect(owner.local.record, problem)
            raise
        finally:
            del self._owners[agent.agent_id], self.shared.running[agent.agent_id]
            self.turns.left(agent.agent_id)
            self.inbox.handed -= owner.unread()
            owner.gone.set()
            self._tell_dependents(owner.local.record, result)
        if is_done(owner.local.record.work):
            await self._revive_dependents(owner.local.record.task_id)
        await self._tell_of_merge(owner.local.record)
        return result

    async def _note_defect(self, record: AgentLifecycle, problem: Exception) -> None:
        """Record what ended its loop; the next run continues from here."""
        text = f"the runner failed: {type(problem).__name__}: {problem}"
        text = self.shared.masker.mask(text)
        self.shared.report("lifecycle_loop_failed", agent_id=record.agent_id, reason=text)
        with suppress(LifecycleError):  # perhaps the very thing that failed
            await self.shared.store.update(replace(record, error=text))

    async def _own(self, agent: Agent, task: Task, *, after_reject: bool = False) -> Owner:
        """Become the one owner; a request that is being applied right now comes first."""
        agent_id = agent.agent_id
        before = await self.shared.store.get(agent_id)
        await self._turn(agent_id)
        if agent_id in self._owners:
            raise LifecycleError(f"{agent_id} is running already in this process")
        with self._claim(agent_id):
            local = await case_of(self.machine, agent, task, before, after_reject=after_reject)
            owner = self._ownership.of(local)
            self._owners[agent_id] = owner
            self.turns.owned(agent_id, local.record.work)
            self.shared.running[agent_id] = local.record.task_id
        return owner

    async def _turn(self, agent_id: str) -> None:
        """Wait for the request, or the removal, that somebody carries out on a lifecycle."""
        while (claimed := self._applying.get(agent_id)) is not None:
            await claimed.wait()

    async def ask(
        self, agent_id: str, event: Event, *, request: int | None = None
    ) -> AgentLifecycle:
        """Let a lifecycle take a fact, whether it runs or not, and return its record; starts none.

        `request` is the id under which the fact is in the store already. LifecycleError says why
        it was refused.
        """
        store, event = self.shared.store, masked(event, self.shared.masker)
        if request is None:
            request = await store.ask(agent_id, event)
        self.inbox.handed.add(request)
        while (problem := await store.request_outcome(request)) is None:
            owner = self._owners.get(agent_id)
            if owner is not None:
                owner.emit(event, request_id=request)
                await owner.answered(request)
                continue
            await self._turn(agent_id)
            if agent_id not in self._owners:
                with self._claim(agent_id):
                    await self._apply(agent_id, event, request)
        if problem:
            raise LifecycleError(problem)
        record = await store.get(agent_id)
        if record is None:
            raise UnknownLifecycleError(f"{agent_id} was removed meanwhile")
        return record

    async def _apply(self, agent_id: str, event: Event, request: int) -> None:
        """Carry out a request on a lifecycle that nobody runs, and answer it; we have its claim."""
        store = self.shared.store
        if await store.request_outcome(request) is not None:
            return
        record = await store.get(agent_id)
        problem = await self._refusal(agent_id, record, event)
        if problem or record is None:
            if isinstance(event, on.PersonEvent):
                self.shared.refused(agent_id, event, problem)
            await store.answer_request(request, problem)
            return
        owner = self._ownership.of(await load(store, record))
        if self.revive is not None and only_starts(event, record) and not owner.is_news(event):
            self.operations.done(agent_id, event)
            await store.answer_request(request)
            self.revive(record)
            return
        owner.drain()
        owner.emit(event, request_id=request)
        await owner.run()
        record = owner.local.record
        await self._tell_of_merge(record)
        refused = await store.request_outcome(request)
        if not refused and self.revive is not None and ended(record) is None:
            self.revive(record)

    async def _refusal(self, agent_id: str, record: AgentLifecycle | None, event: Event) -> str:
        """Say why a request is refused before its lifecycle sees it."""
        if record is None or record.work is None:
            return f"there is no lifecycle {agent_id} in {self.machine.repo}"
        if agent_id != (agent := agent_of(agent_id)):
            return f"{agent_id} is an earlier lifecycle of {agent}: it is over"
        if not isinstance(event, on.RejectRequested):
            return ""
        if isinstance(record.work, Rejected):
            # It ended by itself and kept its workspace to be looked at; now nobody wants it.
            try:
                await self.cleanup_agent(agent_id)
            except RuntimeFault as fault:
                return str(fault)
        return await in_base(self.machine, record)

    async def _tell_of_merge(self, record: AgentLifecycle) -> None:
        """Let others forget that they were refused because this work was not accepted."""
        if not isinstance(record.work, Accepted):
            return
        event = on.AlongAccepted(at=self.shared.clock.now(), agent_id=record.agent_id)
        async for other in self.shared.store.every(Filter(states=(AgentState.COMPLETED,))):
            if isinstance(other.work, Completed) and record.agent_id in other.work.along:
                with self._claim(other.agent_id) as free:
                    if not free:
                        self.emit(other.agent_id, event)
                        continue
                    owner = self._ownership.of(await load(self.shared.store, other))
                    owner.drain()
                    owner.emit(event)
                    await owner.run()

    async def cleanup_agent(self, agent_id: str) -> None:
        """Remove workspace and branch of an ended lifecycle; unmerged work stays under a ref."""
        record = await self.shared.store.get(agent_id)
        attempt = record.work.tally.attempt if record and record.work else 0
        await remove_all(self.machine, agent_id, attempt)

    def emit(self, agent_id: str, event: Event) -> bool:
        """Pass a fact to a running loop; says whether there was one."""
        owner = self._owners.get(agent_id)
        if owner is not None:
            owner.emit(event)
        return owner is not None

    def running(self) -> Mapping[str, LocalCopy]:
        """Return the lifecycles that run, by agent id; only to be read."""
        return {agent_id: owner.local for agent_id, owner in self._owners.items()}

    def drain(self, agent_id: str) -> None:
        """End one soon, with its work saved and its record resumable; `run` returns then."""
        if (owner := self._owners.get(agent_id)) is not None:
            owner.drain()

    def owner(self, agent_id: str) -> Owner | None:
        """Return the owner of a lifecycle that runs here."""
        return self._owners.get(agent_id)

    def hear(self, event: CIEvent) -> None:
        """Take what CI says about a branch or an agent, from a caller who hands it in."""
        self._early.hear(event)

    # --- what lifecycles tell each other ------------------------------------------------------

    async def settle(self, task_id: str) -> None:
        """Tell those that wait for a task what became of it."""
        record = await self.shared.base_commits.of_task(task_id)
        if record is None or record.agent_id in self._owners:
            return
        if goes_no_further(self.shared, record):
            self._tell_dependents(record)
        if is_done(record.work):
            await self._revive_dependents(task_id)

    def _tell_dependents(self, record: AgentLifecycle, result: LoopResult | None = None) -> None:
        """Tell those that run here and wait for a task; `result` is of the loop that ended."""
        if not record.task_id or (result and result.result_type is LoopResultType.SHUTDOWN):
            return
        for other in self._owners.values():
            if record.task_id in waits_for(other.state):
                other.emit(settled(self.shared, record, result.error if result else None))

    async def _revive_dependents(self, task_id: str) -> None:
        """Take up what had been given up because this task did not complete before."""
        if self.revive is None:
            return
        async for record in self.shared.store.every(Filter(states=(AgentState.RUNNING,))):
            given_up = waited_for(record.work, task_id) and record.agent_id not in self._owners
            if given_up and self.revive is not None:
                self.revive(record)

    @contextmanager
    def _claim(self, agent_id: str) -> Iterator[bool]:
        """Keep owners and requests away from a lifecycle; False when one has it already."""
        if agent_id in self._owners or agent_id in self._applying:
            yield False
            return
        self._applying[agent_id] = over = asyncio.Event()
        try:
            yield True
        finally:
            del self._applying[agent_id]
            over.set()

    def _hear(self, event: CIEvent) -> None:
        for owner in self._owners.values():
            if owner.local.record.facts.get("branch") == event.branch:
                owner.hear(event)

    # --- what people ask for ------------------------------------------------------------------

    async def _take_up(self, request: OperatorRequest) -> bool:
        """Give a request to the owner of its lifecycle, or carry it out; False: not yet."""
        agent_id = request.agent_id
        if agent_id is None or agent_id in self._applying:
            return False
        owner = self._owners.get(agent_id)
        if owner is not None:
            owner.emit(request.event, request_id=request.request_id)
            return True
        # What it orders may take long (a merge is verified), and others ask for something, too.
        with ExitStack() as stack:
            stack.enter_context(self._claim(agent_id))
            carried = self._carry_out(agent_id, request, stack.pop_all())
            task = asyncio.get_running_loop().create_task(carried)
        self._requested.add(task)
        task.add_done_callback(self._requested.discard)
        return True

    async def _carry_out(self, agent_id: str, request: OperatorRequest, claim: ExitStack) -> None:
        with claim:
            try:
                await self._apply(agent_id, request.event, request.request_id)
            except Exception as problem:  # noqa: BLE001  # it stays open for the next runner
                self.shared.report(
                    "lifecycle_request_failed", agent_id=agent_id, reason=str(problem)
                )

    async def noted(self, note: OperationNote) -> tuple[str, str]:
        """Log what a command did by itself, and start what it added."""
        self.operations.note(note)
        added = await self.shared.store.get(note.resolved_name) if note.resolved_name else None
        if added is not None and self.revive is not None and ended(added) is None:
            self.revive(added)
        return "", ""
