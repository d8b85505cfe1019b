"""One task owns each lifecycle: it takes one fact, decides, commits, and only then acts.

Everything else (watchers, timers, CI, people) only puts facts into the owner's inbox. Results of
orders come back the same way, so that a stop is never queued behind a spawn.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from dataclasses import replace
from typing import TYPE_CHECKING

from lifecycle.base_commits import is_done
from lifecycle.drive import Drive, broken_off
from lifecycle.errors import (
    StoreDamagedError,
    StoreError,
    StoreFromNewerVersionError,
)
from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    ACTIVE,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Capturing,
    Preparing,
    PrPending,
    Spawning,
    Stopping,
    Suspended,
    Working,
)
from lifecycle.mask_values import masked
from lifecycle.needs_person import asked, only_a_person, ways
from lifecycle.owner.admission import Admission
from lifecycle.owner.effect_tasks import SETTLING, EffectTasks
from lifecycle.owner.inbox import OwnerInbox
from lifecycle.owner.resume import left_of, remember_commits, unheard
from lifecycle.owner.waiting import WaitPolling, Wakeups, holds_no_place_yet
from lifecycle.perform.ci import fact_from, watch_of
from lifecycle.reporting import Committed
from lifecycle.result import LoopResult, ended, for_people, interrupted
from runtime.shortage import shortage_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ci.events import CIEvent
    from lifecycle.drive import Turn
    from lifecycle.machine.effects import Effect
    from lifecycle.machine.events import Event
    from lifecycle.machine.policy import Policy
    from lifecycle.machine.states import State
    from lifecycle.owner.inbox import Item
    from lifecycle.owner.resume import Leftover
    from lifecycle.perform.performer import Performer
    from lifecycle.record import JournalEntry, PendingEffect
    from lifecycle.services import SharedServices
    from lifecycle.settings import Settings
    from lifecycle.working_copy import LocalCopy

UNTIL_CAPTURED = (Spawning, Working, Stopping, Capturing)
"""States in which a loop that shuts down has something to bring to safety first."""
WAITS_FOR_PEOPLE = AwaitingHuman.__name__
KILLED = tuple(
    128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
)
"""Exit codes by which a shell says that a signal ended what it ran."""
STORE_EVERY = 5.0
"""Seconds between two attempts to write to a store that refuses."""
STORE_TRIES = 120
"""How often it is tried again; the agent works on meanwhile, unattended."""


class Owner:
    """The owner of one lifecycle."""

    def __init__(self, local: LocalCopy, shared: SharedServices, performer: Performer) -> None:
        self.local = local
        self._shared = shared
        self._performer = performer
        self._inbox = inbox = OwnerInbox(shared.masker)
        self._drive = Drive(local)
        self._effects = EffectTasks(carry_out=self._carry_out, ended=inbox.fail)
        self._draining = False
        self._running = False
        self._asks: State | None = None
        """The wait that a person was told of."""
        self._known_policy: tuple[Settings, Policy] | None = None
        self.admission = Admission(shared, local)
        self._wakeups = Wakeups(
            shared, local.agent_id, emit=self.emit, wake=inbox.wake, admission=self.admission
        )
        self._polling = WaitPolling(
            shared,
            state=lambda: self.state,
            ask=self._look,
            found=self._found,
            failed=inbox.fail,
            watch=lambda state: watch_of(local, state),
            busy=lambda: bool(self._effects),
        )
        self.gone = asyncio.Event()
        """Set by the engine, once nothing of this owner is left."""

    # --- what others may do -------------------------------------------------------------------

    def emit(self, event: Event, *, effect_id: str = "", request_id: int = 0) -> None:
        """Put a fact into the inbox."""
        if isinstance(event, on.AgentExited) and (event.signal or event.exit_code in KILLED):
            # Killed because this runner has to end: the agent did not end by itself.
            why = "the runner was shutting down" if self._draining else self._shared.gone()
            event = replace(event, interrupted=why) if why else event
        self._inbox.put(event, effect_id, request_id)

    def hear(self, event: CIEvent, *, handed: bool = False) -> None:
        """Take what CI says about this lifecycle's branch, or the library's caller for it."""
        fact = fact_from(self.local, event, self._shared.clock.now(), handed=handed)
        if fact is not None:
            self.emit(fact)

    def drain(self) -> None:
        """End soon: bring a living agent's work to safety, start nothing any more."""
        if self._draining:
            return
        self._draining = True
        if self._running and isinstance(self.state, (Working, Spawning)):
            self.emit(on.StopRequested(at=self._shared.clock.now(), by="shutdown"))
        if not isinstance(self.state, UNTIL_CAPTURED):
            self._effects.cancel(settling=False)
        self._inbox.wake()

    def is_news(self, event: Event) -> bool:
        """Tell whether a fact would change anything, or be refused."""
        return self._drive.is_news(event, self._policy())

    async def answered(self, request_id: int) -> None:
        """Wait until a request that was told is dealt with, or this owner is over."""
        await self._inbox.dealt_with(request_id)

    def unread(self) -> set[int]:
        """Return the requests that came too late for it; somebody else has to answer them."""
        return self._inbox.requests()

    @property
    def state(self) -> State:
        """The work state as last committed."""
        return self._drive.state

    async def run(self) -> LoopResult:
        """Own the lifecycle until it ends or this loop is drained."""
        self._running = True
        try:
            await self.admission.met()
            await self._take_over()
            while True:
                self._inbox.check()
                await self._work_off()
                self._tell_people()
                if self._is_over():
                    break
                self._wakeups.arm(self.state, draining=self._draining)
                self._polling.arm(draining=self._draining)
                await self._inbox.wait()
            await self._let_go()
        finally:
            await self._release()
            self._shared.accounts.part(self.local.agent_id)
            self._inbox.close()
        record = self.local.record
        if (result := ended(record)) is not None:
            return result
        return for_people(record) if self._is_left_to_people() else interrupted(record)

    # --- one fact -----------------------------------------------------------------------------

    async def _work_off(self) -> None:
        while self._inbox:
            await self._take(self._inbox.take())

    async def _take(self, item: Item) -> None:
        if isinstance(item.event, (on.Admitted, on.DeadlinePassed)):
            self._wakeups.admitted()
        if isinstance(item.event, on.Admitted) and self._draining:
            return
        turn = self._drive.take(
            item.event, self._policy(), effect_id=item.effect_id, request_id=item.request_id
        )
        if turn.commit is not None:
            await self._settle(turn)
        else:
            if turn.refused:
                self._tell_refusal(turn)
            await self._answer(item.request_id, turn.refused)
        if not turn.refused:
            self._wakeups.rest(self.state)

    async def _settle(self, turn: Turn) -> None:
        """Commit what was decided; share what follows for others; then order it."""
        if self._may_go_straight_on(turn):
            # Into the next attempt, by the same commit: nothing is in the way.
            turn = self._drive.take(self.admission.ticket(), self._policy(), onto=turn)
        await self._commit(turn)

    async def _commit(self, turn: Turn) -> None:
        name, commit = type(turn.fact).__name__, turn.commit
        if commit is None:
            return
        self._shared.checkpoint(f"before commit of {name}")
        await self._write_with_retry(lambda: self._shared.store.commit(commit))
        self._shared.checkpoint(f"after commit of {name}")
        self._drive.committed(turn)
        self._share(turn)
        if commit.spending is not None:
            self.admission.booked(commit.spending)
        await self._break_off()
        if orders := self._own(turn.orders):
            self._effects.begin(orders, draining=self._draining)
        self._announce(commit.journal)

    def _own(self, orders: tuple[PendingEffect, ...]) -> tuple[PendingEffect, ...]:
        """Return the orders that are performed here."""
        return orders

    def _may_go_straight_on(self, turn: Turn) -> bool:
        state = turn.state
        return (
            isinstance(state, BackingOff)
            and turn.commit is not None
            and turn.commit.spending is None  # what was used is counted before the next begins
            and state.until <= self._shared.clock.now()
            and not self._draining
            and self._shared.slots.holds(self.local.agent_id)
            and self.admission.is_free
        )

    def _share(self, turn: Turn) -> None:
        """Let others know of a task that is done, and of limits that were met or are over."""
        shared, local = self._shared, self.local
        if is_done(turn.state):
            shared.completed[local.record.task_id] = local.task.title
        elif is_done(turn.before):  # it was sent back
            shared.completed.pop(local.record.task_id, None)
        if turn.found_limits is None:
            return
        if isinstance(turn.fact, on.ResumeRequested):
            shared.program_limits.forget(local.agent)
        else:
            shared.program_limits.note(local.agent, turn.found_limits)

    async def _break_off(self) -> None:
        fact = broken_off(self.state, self._shared.clock.now())
        if fact is not None and await self._effects.break_off():
            pending = await self._shared.store.pending(self.local.agent_id)
            self._drive.carried_out(*(order.effect_id for order in pending))
            self.emit(fact)

    async def _answer(self, request_id: int, problem: str = "") -> None:
        if request_id:
            await self._write_with_retry(
                lambda: self._shared.store.answer_request(request_id, problem)
            )

    async def _write_with_retry(self, write: Callable[[], Awaitable[object]]) -> None:
        """Write; wait while the disk is full or locked: what has happened cannot be taken back.

        While the machine is only short of something, it is not given up at all.
        """
        left, waited = STORE_TRIES, False
        while True:
            try:
                await write()
            except (StoreFromNewerVersionError, StoreDamagedError):
                raise
            except StoreError as problem:
                if self._draining or not left:
                    raise
                left -= not shortage_of(problem)
                waited = True
                self._report("lifecycle_store_failed", reason=str(problem))
                await asyncio.sleep(STORE_EVERY)
            else:
                if waited:
                    self._report("lifecycle_store_recovered")
                return

    def _tell_refusal(self, turn: Turn) -> None:
        if isinstance(turn.fact, on.PersonEvent):
            self._shared.refused(self.local.agent_id, turn.fact, turn.refused)
        else:
            self._report("lifecycle_illegal_transition", reason=turn.refused)

    def _report(self, event: str, **fields: object) -> None:
        self._shared.report(event, agent_id=self.local.agent_id, **fields)

    async def _carry_out(self, order: PendingEffect) -> None:
        """Perform an order; its result is a fact again."""
        name = type(order.effect).__name__
        self._shared.checkpoint(f"before {name}")
        if isinstance(order.effect, do.RunReview):
            self.admission.review_begun()
        event = await self._performer.perform(
            self.local, order.effect_id, order.effect, self.emit, self.admission.afford
        )
        self._shared.checkpoint(f"after {name}")
        if event is None:
            self._drive.carried_out(order.effect_id)
        else:
            self.emit(event, effect_id=order.effect_id)

    # --- waiting ------------------------------------------------------------------------------

    def _is_over(self) -> bool:
        if self._effects:
            return False
        state = self.state
        held_by_person = self._drive.held and isinstance(state, Suspended)
        if held_by_person or ended(self.local.record) is not None:
            return True
        if not self._draining:
            return self._is_left_to_people()
        if isinstance(state, Capturing) and state.again_at is not None:
            return True
        if isinstance(state, Spawning):
            # Ordered and not acted on any more: the next runner spawns it under the same order.
            return True
        return not isinstance(state, UNTIL_CAPTURED)

    def _needs_person(self) -> bool:
        shared = self._shared
        return only_a_person(
            self.state,
            running=shared.running.values(),
            completed=shared.completed,
            has_ci=shared.ci is not None,
        )

    def _is_left_to_people(self) -> bool:
        """Tell whether this loop ends because nobody waits here for people."""
        stays = self._shared.settings().stay_for_people
        return not (stays or self._draining) and self._needs_person()

    def _tell_people(self) -> None:
        """Say once what a person is waited for, and what they can type."""
        if self._draining or self._effects:
            return
        if not self._needs_person():
            self._asks = None
        elif self._asks is None:
            self._asks = state = self.state
            told = ways(self.local.agent_id, state)
            self._report("lifecycle_waits_for_person", what=asked(state), ways=told)

    async def _look(self, order: Effect) -> Event | None:
        return await self._performer.perform(self.local, "", order, self.emit)

    def _found(self, event: Event) -> None:
        """Take what a look found, unless it is nothing new."""
        event = masked(event, self._shared.masker)
        if self.is_news(event):
            self.emit(event)

    # --- beginning and end --------------------------------------------------------------------

    async def _take_over(self) -> None:
        """Continue where the record says: orders that are not known to be done are done now."""
        local, state = self.local, self.state
        left = await self._left(state)
        self._drive.carried_out(*left.settled)
        if left.lost is not None:
            self.emit(left.lost)
        await self._catch_up(state)
        orders = left.orders
        if self._draining:
            orders = tuple(order for order in orders if isinstance(order.effect, SETTLING))
        if orders:
            self._effects.begin(orders, draining=self._draining)
        if self._draining:
            return
        await remember_commits(local, state, self._performer)
        if not orders and isinstance(state, (Blocked, PrPending)):
            self._polling.now()
        for fact in await unheard(local, state, self._shared):
            self.emit(fact)

    async def _left(self, state: State) -> Leftover:
        return await left_of(self.local, state, self._shared, self._performer)

    async def _catch_up(self, state: State) -> None:
        """Learn of limits; wait for a slot for what is under way: others may have been quicker."""
        if self._draining:
            return
        await self._shared.program_limits.learn(self._shared.store)
        if not isinstance(state, ACTIVE) or isinstance(state, Spawning):
            return
        if holds_no_place_yet(state):
            return
        slots, agent_id = self._shared.slots, self.local.agent_id
        slots.ask(agent_id, self._inbox.wake)
        while not slots.holds(agent_id) and not self._draining:
            await self._inbox.woken()
        if isinstance(state, Preparing) and not self._draining:
            self.admission.begun()

    async def _let_go(self) -> None:
        """Give up what only this owner had, now that it is over."""

    async def _release(self) -> None:
        await self._polling.aclose()
        await self._effects.break_off()
        watch = self._performer.attempt_watch(self.local.agent_id)
        if watch is not None:
            await watch.stop(self._shared.settings().stop_grace)
        self._wakeups.close()
        if done := self._drive.settled():
            # One that stays is carried out again by the next runner, which does no harm.
            with contextlib.suppress(StoreError):
                await self._shared.store.effects_done(done)

    def _announce(self, journal: tuple[JournalEntry, ...]) -> None:
        for entry in journal:
            news = Committed(
                agent_id=entry.agent_id,
                event=type(entry.event).__name__,
                before=entry.before,
                after=entry.after,
                at=entry.at,
                fact=entry.event,
                record=self.local.record,
                ways=ways(entry.agent_id, self.state) if entry.after == WAITS_FOR_PEOPLE else "",
            )
            for observer in tuple(self._shared.observers):
                try:
                    observer(news)
                except Exception as problem:  # noqa: BLE001  # what is committed stands, whoever cannot take it
                    name = getattr(observer, "__qualname__", type(observer).__name__)
                    reason = f"{type(problem).__name__}: {problem}"
                    self._report("observer_failed", observer=name, reason=reason)

    def _policy(self) -> Policy:
        settings = self._shared.settings()
        known = self._known_policy
        if known is None or known[0] is not settings:
            policy = settings.policy(self.local.task, self.local.agent.programs)
            known = self._known_policy = (settings, policy)
        return known[1]
