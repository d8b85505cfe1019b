"""One task owns each lifecycle: it takes one fact, decides, commits, and only then acts.

Everything else (watchers, timers, CI, people) only puts facts into the owner's inbox. Results of
orders come back the same way, so that a stop is never queued behind a spawn.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from lifecycle.acts import SETTLING, Acts
from lifecycle.admission import Admission
from lifecycle.alarm import Alarm, holds_no_place_yet
from lifecycle.asking import asked, only_a_person, ways
from lifecycle.bases import is_done
from lifecycle.draft import Draft
from lifecycle.errors import LifecycleError, StoreError
from lifecycle.inbox import Inbox, Item
from lifecycle.looks import Looks
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
    Verifying,
    Wanted,
    Working,
)
from lifecycle.machine.table import IllegalTransition, decide
from lifecycle.masking import masked
from lifecycle.minutes import keep
from lifecycle.outside import facts_from, watch_of
from lifecycle.parts import News
from lifecycle.result import LoopResult, ended, for_people, interrupted
from lifecycle.takeover import left_of, remember_commits, unheard

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ci.events import CIEvent
    from lifecycle.case import Case
    from lifecycle.machine.effects import Effect
    from lifecycle.machine.events import Event
    from lifecycle.machine.policy import Policy
    from lifecycle.machine.states import Resting, State
    from lifecycle.machine.step import Step
    from lifecycle.parts import Parts
    from lifecycle.performer import Performer
    from lifecycle.record import JournalEntry, PendingEffect
    from lifecycle.settings import Settings

UNTIL_CAPTURED = (Spawning, Working, Stopping, Capturing)
"""States in which a loop that shuts down has something to bring to safety first."""
WAITS_FOR_PEOPLE = AwaitingHuman.__name__
NOTES = (on.Guided, on.Reviewed, on.MailboxInvalid, on.WorkspaceRemoved)
"""Facts that change no state and are kept all the same."""


class Owner:
    """The owner of one lifecycle."""

    def __init__(self, case: Case, parts: Parts, performer: Performer) -> None:
        self.case = case
        self._parts = parts
        self._performer = performer
        self._inbox = inbox = Inbox(parts.masker)
        self._done_ids: list[str] = []
        self._acts = Acts(parts, perform=self._perform, done=self._performed, ended=inbox.fail)
        self._draining = False
        self._running = False
        self._stopped = False
        self._asks: State | None = None
        """The wait that a person was told of."""
        self._known_policy: tuple[Settings, Policy] | None = None
        self.admission = Admission(parts, case)
        self._alarm = Alarm(
            parts, case.agent_id, tell=self.tell, wake=inbox.wake, admission=self.admission
        )
        self._looks = Looks(
            parts,
            state=lambda: self.state,
            ask=self._look,
            found=self._found,
            failed=inbox.fail,
            watch=lambda state: watch_of(case, state),
        )
        self.gone = asyncio.Event()
        """Set by whoever runs the owner, once nothing of it is left."""

    # --- what others may do -------------------------------------------------------------------

    def tell(self, event: Event, *, effect_id: str = "", request_id: int = 0) -> None:
        """Put a fact into the inbox."""
        self._inbox.put(event, effect_id, request_id)

    def hear(self, event: CIEvent, *, handed: bool = False) -> None:
        """Take what CI says about this lifecycle's branch, or the library's caller for it."""
        for fact in facts_from(self.case, event, self._now(), handed=handed):
            self.tell(fact)

    def drain(self) -> None:
        """End soon: bring a living agent's work to safety, start nothing any more."""
        if self._draining:
            return
        self._draining = True
        if self._running and isinstance(self.state, (Working, Spawning)):
            self.tell(on.StopRequested(at=self._now(), by="shutdown"))
        if not isinstance(self.state, UNTIL_CAPTURED):
            self._acts.cancel(settling=False)
        self._inbox.wake()

    def unread(self) -> set[int]:
        """Return the requests that came too late for it; somebody else has to answer them."""
        return self._inbox.requests()

    @property
    def state(self) -> State:
        """The work state as last committed."""
        state = self.case.record.work
        if state is None:
            raise LifecycleError(f"no loop drives the record of {self.case.agent_id}")
        return state

    async def run(self) -> LoopResult:
        """Own the lifecycle until it ends or this loop is drained."""
        self._running = True
        try:
            await self.admission.met()
            await self._take_over()
            while True:
                self._inbox.check()
                while self._inbox:
                    await self._take(self._inbox.take())
                self._tell_people()
                if self._is_over():
                    break
                self._arm()
                await self._inbox.wait()
        finally:
            await self._let_go()
            self._parts.accounts.part(self.case.agent_id)
        record = self.case.record
        if (result := ended(record)) is not None:
            return result
        return for_people(record) if self._is_left_to_people() else interrupted(record)

    # --- one fact -----------------------------------------------------------------------------

    async def _take(self, item: Item) -> None:
        if isinstance(item.event, (on.Admitted, on.DeadlinePassed)):
            self._alarm.admitted()
        if isinstance(item.event, on.Admitted) and self._draining:
            return
        try:
            step = decide(self.state, item.event, self._policy())
        except IllegalTransition as problem:
            await self._refuse(item, problem)
            return
        if not self._matters(item, step):
            if item.effect_id:
                self._done_ids.append(item.effect_id)
            await self._answer(item)
        else:
            await self._settle(item, step)
        self._alarm.rest(self.state)

    def _matters(self, item: Item, step: Step) -> bool:
        if step.late:
            return isinstance(item.event, on.AttemptEvent)
        moved = step.state != self.state or bool(step.effects)
        return moved or isinstance(item.event, NOTES) or bool(item.effect_id)

    async def _settle(self, item: Item, step: Step) -> None:
        """Commit what was decided on a fact, with what follows from it at once, and order it."""
        draft = Draft(self.case, self.state)
        draft.add(item.event, step)
        if isinstance(item.event, on.AgentSpawned):
            await self._await_quick_end(draft)
        begun = await self._look_ahead(draft)
        self._go_straight_on(draft)
        if item.effect_id:
            self._done_ids.append(item.effect_id)
        await self._commit(draft, item)
        await self._break_off()
        orders = tuple(order for order in draft.orders if order is not begun)
        if orders:
            self._acts.begin(orders, draining=self._draining)
        self._announce(draft.journal)

    async def _look_ahead(self, draft: Draft) -> PendingEffect | None:
        """Capture what an attempt left while its end is not committed yet; both go together.

        It only looks, and saves what nobody else keeps, so it may come before its commit: after a
        crash in between the attempt counts as interrupted, as after one before its end. Returns
        the order if its result is still to come.
        """
        if self._draining or len(draft.orders) != 1 or self._inbox:
            return None
        order = draft.orders[0]
        if not isinstance(order.effect, do.TakeSnapshot):
            return None
        self._acts.begin((order,), draining=False)
        await self._inbox.wait_a_moment(self._parts.end_waits)
        first = self._inbox.first
        if first is None or first.effect_id != order.effect_id or not self._take_along(draft):
            return order
        draft.carried_out(order)
        return None

    async def _await_quick_end(self, draft: Draft) -> None:
        """Wait a moment for the end of an agent whose start is not committed yet.

        After a crash in between it counts as interrupted, as one whose start nobody wrote down.
        """
        await self._inbox.wait_a_moment(self._parts.start_waits)
        first = self._inbox.first
        if first is not None and isinstance(first.event, on.AgentExited):
            self._take_along(draft)

    def _take_along(self, draft: Draft) -> bool:
        """Let the next fact go into the same transaction; False when it has to stand by itself."""
        first = self._inbox.first
        if self._draining or first is None:
            return False
        event = first.event
        try:
            step = decide(draft.state, event, self._policy())
        except IllegalTransition:
            return False
        self._inbox.take()
        draft.add(event, step)
        return True

    def _go_straight_on(self, draft: Draft) -> None:
        """Go into the next attempt, in the same transaction, if nothing is in the way."""
        state, now = draft.state, self._now()
        if (
            isinstance(state, BackingOff)
            and state.until <= now
            and not self._draining
            and self._parts.places.holds(self.case.agent_id)
            and self.admission.is_free
        ):
            event = self.admission.ticket()
            draft.add(event, decide(state, event, self._policy()))

    async def _commit(self, draft: Draft, item: Item) -> None:
        case, name = self.case, type(item.event).__name__
        done = tuple(self._done_ids)
        self._done_ids.clear()
        self._parts.checkpoint(f"before commit of {name}")
        commit = draft.commit(done, item.request_id)
        await self._keep(lambda: self._parts.store.commit(commit))
        self._parts.checkpoint(f"after commit of {name}")
        rested, was_done = self.state.tally.resting, is_done(self.state)
        case.record = draft.record
        if is_done(case.record.work):
            self._parts.completed[case.record.task_id] = case.task.title
        elif was_done:  # it was sent back
            self._parts.completed.pop(case.record.task_id, None)
        if draft.row is not None:
            case.note_attempt(draft.row)
        if draft.spending is not None:
            goes_on = isinstance(draft.state, Spawning)
            self.admission.booked(draft.spending, goes_on=goes_on)
        self._share(item.event, rested)
        for entry in draft.journal:
            case.remember(entry)
        if isinstance(item.event, on.StopRequested) and item.event.pause:
            self._stopped = True
        elif isinstance(item.event, on.ResumeRequested):
            self._stopped = False

    def _share(self, event: Event, before: tuple[Resting, ...]) -> None:
        """Let others know of a limit that was met, or that a person says is over."""
        resting = self.state.tally.resting
        if resting == before:
            return
        if isinstance(event, on.ResumeRequested):
            self._parts.board.forget(self.case.agent)
        else:
            self._parts.board.note(self.case.agent, resting)

    async def _break_off(self) -> None:
        """Do not finish gates or a baseline of half an hour for what a person ended meanwhile."""
        state, wanted = self.state, self.state.tally.wanted
        fact: Event
        if isinstance(state, Verifying) and wanted is Wanted.REJECT:
            fact = on.GatesFinished(
                at=self._now(), attempt=state.tally.attempt, gates=(), problem="broken off"
            )
        elif isinstance(state, Preparing) and wanted in (Wanted.STOP, Wanted.HOLD, Wanted.REJECT):
            fact = on.WorkspaceFailed(
                at=self._now(),
                attempt=state.tally.attempt,
                text="broken off",
                fault=on.Fault.ENVIRONMENT,
            )
        else:
            return
        if await self._acts.break_off():
            pending = await self._parts.store.pending(self.case.agent_id)
            self._done_ids.extend(order.effect_id for order in pending)
            self.tell(fact)

    async def _refuse(self, item: Item, problem: IllegalTransition) -> None:
        self._parts.report(
            "lifecycle_illegal_transition", agent_id=self.case.agent_id, reason=str(problem)
        )
        if item.effect_id:
            self._done_ids.append(item.effect_id)
        await self._answer(item, str(problem))

    async def _answer(self, item: Item, problem: str = "") -> None:
        if item.request_id:
            await self._keep(lambda: self._parts.store.answer_request(item.request_id, problem))

    async def _keep(self, write: Callable[[], Awaitable[object]]) -> None:
        await keep(self._parts, self.case.agent_id, write, hurry=lambda: self._draining)

    async def _perform(self, order: PendingEffect) -> Event | None:
        return await self._performer.perform(
            self.case, order.effect_id, order.effect, self.tell, self.admission.afford
        )

    def _performed(self, order: PendingEffect, event: Event | None) -> None:
        if event is None:
            self._done_ids.append(order.effect_id)
        else:
            self.tell(event, effect_id=order.effect_id)

    # --- waiting ------------------------------------------------------------------------------

    def _is_over(self) -> bool:
        if self._acts:
            return False
        state = self.state
        if ended(self.case.record) is not None or self._held(state):
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
        parts = self._parts
        return only_a_person(
            self.state,
            running=parts.running(),
            completed=parts.completed,
            has_ci=parts.ci is not None,
        )

    def _is_left_to_people(self) -> bool:
        """Tell whether this loop ends because nobody waits here for people."""
        stays = self._parts.settings().stay_for_people
        return not (stays or self._draining) and self._needs_person()

    def _tell_people(self) -> None:
        """Say once what a person is waited for, and what they can type."""
        if self._draining or self._acts:
            return
        if not self._needs_person():
            self._asks = None
        elif self._asks is None:
            self._asks = state = self.state
            self._parts.report(
                "lifecycle_waits_for_person",
                agent_id=self.case.agent_id,
                what=asked(state),
                ways=ways(self.case.agent_id, state),
            )

    def _held(self, state: State) -> bool:
        """A person stopped it: this loop ends, a later one may be told to resume."""
        return self._stopped and isinstance(state, Suspended)

    def _arm(self) -> None:
        self._alarm.arm(self.state, draining=self._draining)
        self._looks.arm(draining=self._draining)

    async def _look(self, order: Effect) -> Event | None:
        return await self._performer.perform(self.case, "", order, self.tell)

    def _found(self, event: Event) -> None:
        """Take what a look found, unless it is nothing new."""
        event = masked(event, self._parts.masker)
        try:
            news = self._matters(Item(event), decide(self.state, event, self._policy()))
        except IllegalTransition:
            news = True
        if news:
            self.tell(event)

    # --- beginning and end --------------------------------------------------------------------

    async def _take_over(self) -> None:
        """Go on where the record says: what was ordered and is not known to be done is done now."""
        case, state = self.case, self.state
        left = await left_of(case, state, self._parts, self._performer)
        self._done_ids.extend(left.settled)
        if left.lost is not None:
            self.tell(left.lost)
        await self._catch_up(state)
        orders = left.orders
        if self._draining:
            orders = tuple(order for order in orders if isinstance(order.effect, SETTLING))
        if orders:
            self._acts.begin(orders, draining=self._draining)
        if self._draining:
            return
        await remember_commits(case, state, self._parts)
        if not orders and isinstance(state, (Blocked, PrPending)):
            self._looks.now()
        for fact in await unheard(case, state, self._parts.ci, self._parts):
            self.tell(fact)

    async def _catch_up(self, state: State) -> None:
        """Learn of limits; wait for a place for what is under way: others may have been quicker."""
        if self._draining:
            return
        await self._parts.board.learn(self._parts.store)
        if not isinstance(state, ACTIVE) or isinstance(state, Spawning):
            return
        if holds_no_place_yet(state):
            return
        places, agent_id = self._parts.places, self.case.agent_id
        places.ask(agent_id, self._inbox.wake)
        while not places.holds(agent_id) and not self._draining:
            await self._inbox.woken()
        if isinstance(state, Preparing) and not self._draining:
            self.admission.begun()

    async def _let_go(self) -> None:
        await self._looks.aclose()
        await self._acts.break_off()
        attendance = self._performer.attended(self.case.agent_id)
        if attendance is not None:
            await attendance.stop(self._parts.settings().stop_grace)
        self._alarm.close()
        if self._done_ids:
            done = tuple(self._done_ids)
            self._done_ids.clear()
            # One that stays is carried out again by the next runner, which does no harm.
            with contextlib.suppress(StoreError):
                await self._parts.store.effects_done(done)

    def _announce(self, journal: list[JournalEntry]) -> None:
        for entry in journal:
            news = News(
                agent_id=entry.agent_id,
                event=type(entry.event).__name__,
                before=entry.before,
                after=entry.after,
                at=entry.at,
                fact=entry.event,
                record=self.case.record,
                ways=ways(entry.agent_id, self.state) if entry.after == WAITS_FOR_PEOPLE else "",
            )
            for observer in self._parts.observers:
                observer(news)

    def _policy(self) -> Policy:
        settings = self._parts.settings()
        known = self._known_policy
        if known is None or known[0] is not settings:
            policy = settings.policy(self.case.task, self.case.agent.programs)
            known = self._known_policy = (settings, policy)
        return known[1]

    def _now(self) -> float:
        return self._parts.clock.now()
