"""The owner of a lifecycle that is decided, and worked on, elsewhere: it keeps, shares and waits.

What it learns it tells the decider as one machine's owner tells its own `Drive`; the commits that
come back it writes, books and announces as that does, and it performs the orders that touch what
all machines share. Must not decide anything, and must not know how commits travel.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lifecycle.drive import Turn, WorkingCopy
from lifecycle.errors import LifecycleError
from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import ACTIVE, BackingOff, Queued
from lifecycle.owner.decider import (
    Beginning,
    DecisionLostError,
    FactAnswer,
    Telling,
    Terms,
    TooLargeToTravelError,
    on_a_worker,
)
from lifecycle.owner.owner import UNTIL_CAPTURED, Owner
from lifecycle.owner.resume import Leftover
from lifecycle.past import FACT_BYTES, fitted_fact, size
from lifecycle.shortage_retry import patiently, text_of
from runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lifecycle.machine.states import State
    from lifecycle.owner.decider import Decider
    from lifecycle.owner.inbox import Item
    from lifecycle.perform.performer import Performer
    from lifecycle.record import PendingEffect, Transaction
    from lifecycle.services import SharedServices
    from lifecycle.working_copy import LocalCopy

TOO_LONG = (
    "what was said takes {bytes:,} bytes, and {most:,} are the most that travels to a worker: "
    "shorten it, or commit it as a file and name that"
)
UNTOLD = (do.FreezeAgent, do.ThawAgent)
"""Orders without an answer: that they are carried out is told with the next commit, if any."""


class RemoteOwner(Owner):
    """The owner of one lifecycle, which another process decides on."""

    def __init__(  # noqa: PLR0913  # each is one thing that is elsewhere
        self,
        local: LocalCopy,
        shared: SharedServices,
        performer: Performer,
        decider: Decider,
        equipment: Callable[[LocalCopy], Awaitable[dict[str, Any]]],
        *,
        drop: Callable[[str], Awaitable[None]],
    ) -> None:
        """`equipment` tells what a worker has to know beside the working copy.

        `drop` removes what machines handed each other of an agent whose work is over.
        """
        super().__init__(local, shared, performer)
        self._decider = decider
        self._equipment, self._drop = equipment, drop
        self._arrived: deque[tuple[tuple[Transaction, ...], asyncio.Future[None]]] = deque()
        self._elsewhere: dict[str, PendingEffect] = {}
        """Orders that a worker has and has not answered."""
        self._terms: Terms | None = None
        """As they were told last."""
        self._work: dict[str, Any] = {}
        """What a worker has to know, as it was found out last."""
        self._finding_out: asyncio.Task[dict[str, Any]] | None = None
        self._granted: Item | None = None
        """The grant of a slot, until it is found out what a worker has to know."""
        self._ended = False

    async def keep(self, commits: tuple[Transaction, ...]) -> None:
        """Write commits that were made elsewhere; returns once they are in the store."""
        if self._ended:
            raise LifecycleError(f"nobody keeps what is decided on {self.local.agent_id}")
        kept = asyncio.get_running_loop().create_future()
        self._arrived.append((commits, kept))
        self._inbox.wake()
        await kept

    # --- one fact, one commit -----------------------------------------------------------------

    async def _work_off(self) -> None:
        while True:
            if self._arrived:
                await self._keep_next()
            elif self._inbox:
                await self._take(self._inbox.take())
            elif self._finding_out is not None and self._finding_out.done():
                await self._found_out(self._finding_out.result())
            else:
                break
        if not self._work and self._finding_out is None and self._has_worker():
            self._find_out()

    def _has_worker(self) -> bool:
        return isinstance(self.state, ACTIVE) or bool(self._elsewhere)

    def _find_out(self, grant: Item | None = None) -> None:
        """Find out what a worker has to know; that may take as long as the remote is away."""
        if self._finding_out is not None:
            self._finding_out.cancel()
        self._granted = grant
        self._finding_out = asyncio.get_running_loop().create_task(
            patiently(
                lambda: self._equipment(self.local),
                self._shared.report,
                agent_id=self.local.agent_id,
            )
        )
        self._finding_out.add_done_callback(lambda _: self._inbox.wake())

    async def _found_out(self, work: dict[str, Any]) -> None:
        grant, self._granted, self._finding_out, self._work = self._granted, None, None, work
        if grant is None:
            await self._begin()
        elif self._draining:
            self._wakeups.admitted()
        else:
            now = self._shared.clock.now()
            await self._tell(replace(grant, event=replace(grant.event, at=now)))

    def _forget_grant(self) -> None:
        """Give the slot back where a person, or CI, was quicker than the remote."""
        if self._granted is None or isinstance(self.state, (Queued, BackingOff)):
            return
        if self._finding_out is not None:
            self._finding_out.cancel()
        self._granted = self._finding_out = None
        self._wakeups.admitted()

    async def _take(self, item: Item) -> None:
        if not isinstance(item.event, on.Admitted):
            await self._tell(item)
        elif self._draining:
            self._wakeups.admitted()
        else:
            self._find_out(item)

    async def _tell(self, item: Item) -> None:
        grant = isinstance(item.event, (on.Admitted, on.DeadlinePassed))
        verdict = await self._ask(item)
        while self.local.seq < verdict.seq:
            if self._arrived:
                await self._keep_next()
            else:
                await self._inbox.woken()
        if grant:
            self._wakeups.admitted()
        if verdict.seq:
            self._wakeups.rest(self.state)
            return
        if verdict.refused:
            turn = Turn(fact=item.event, before=self.state, state=self.state)
            self._tell_refusal(replace(turn, refused=verdict.refused))
        await self._answer(item.request_id, verdict.refused)
        if not verdict.refused:
            self._wakeups.rest(self.state)

    async def _ask(self, item: Item) -> FactAnswer:
        """Have a fact decided on; once more if that was lost, with all that was written.

        What a person said is never cut: it is refused where it is too long.
        """
        said = size((item.event,))
        if isinstance(item.event, on.PersonEvent) and said > FACT_BYTES:
            return FactAnswer(refused=TOO_LONG.format(bytes=said, most=FACT_BYTES))
        event = fitted_fact(item.event)
        while True:
            terms = self._terms_now()
            telling = Telling(
                event=event,
                effect_id=item.effect_id,
                request_id=item.request_id,
                terms=None if terms == self._terms else terms,
            )
            try:
                verdict = await self._decider.take(self.local.agent_id, telling)
            except DecisionLostError:
                await self._begin()
                continue
            except TooLargeToTravelError as problem:
                if not isinstance(event, on.PersonEvent):
                    raise
                return FactAnswer(refused=f"{problem}: shorten what was said")
            self._terms = terms
            return verdict

    def _terms_now(self) -> Terms:
        return Terms(policy=self._policy(), work=self._work)

    async def _keep_next(self) -> None:
        commits, kept = self._arrived[0]
        for commit in commits:
            await self._keep(commit)
        self._arrived.popleft()
        if not kept.done():
            kept.set_result(None)

    async def _keep(self, commit: Transaction) -> None:
        """Write what was decided elsewhere; nothing is written twice."""
        local = self.local
        if commit.record.birth != local.record.birth or commit.journal[-1].seq <= local.seq:
            return
        commit.record.version, commit.record.cursor = local.record.version, local.record.cursor
        own = tuple(each for each in self._drive.settled() if each not in commit.done)
        commit = replace(commit, done=(*commit.done, *own))
        self._elsewhere |= {
            order.effect_id: order for order in commit.effects if on_a_worker(order.effect)
        }
        for done in commit.done:
            self._elsewhere.pop(done, None)
        fact, state = commit.journal[0].event, commit.passed[-1]
        await self._commit(Turn(fact=fact, before=self.state, state=state, commit=commit))
        self._forget_grant()
        self._wakeups.rest(self.state)

    def _own(self, orders: tuple[PendingEffect, ...]) -> tuple[PendingEffect, ...]:
        return tuple(order for order in orders if not on_a_worker(order.effect))

    async def _carry_out(self, order: PendingEffect) -> None:
        if isinstance(order.effect, do.RemoveWorkspace):
            agent_id = self.local.agent_id
            try:
                await self._drop(agent_id)
            except RuntimeFault as problem:  # nothing of the work depends on it
                self._report(
                    "branch_removal_refused", branch=f"agent/{agent_id}", reason=text_of(problem)
                )
        await super()._carry_out(order)

    async def _break_off(self) -> None:
        """Leave it to who gave the orders."""

    # --- beginning and end --------------------------------------------------------------------

    async def _left(self, state: State) -> Leftover:
        del state  # what became of an attempt that was under way is found out by a worker
        pending = await self._shared.store.pending(self.local.agent_id)
        self._elsewhere = {order.effect_id: order for order in pending if on_a_worker(order.effect)}
        await self._begin()
        return Leftover(self._own(pending))

    async def _begin(self) -> None:
        local = self.local
        self._terms = terms = self._terms_now()
        known = {name: getattr(local, name) for name in WorkingCopy.__dataclass_fields__}
        beginning = Beginning(
            copy=WorkingCopy(**known), terms=terms, orders=tuple(self._elsewhere.values())
        )
        await self._decider.begin(beginning, self.keep)

    def _is_over(self) -> bool:
        needed = not self._draining or isinstance(self.state, UNTIL_CAPTURED)
        awaited = any(not isinstance(each.effect, UNTOLD) for each in self._elsewhere.values())
        return not (needed and awaited) and super()._is_over()

    async def _let_go(self) -> None:
        """Have it decided on no more; what was decided meanwhile is kept all the same."""
        loop = asyncio.get_running_loop()
        releasing = loop.create_task(self._decider.release(self.local.agent_id))
        releasing.add_done_callback(lambda _: self._inbox.wake())
        try:
            while not releasing.done():
                if self._arrived:
                    await self._keep_next()
                else:
                    await self._inbox.woken()
        finally:
            releasing.cancel()
        self._drive.carried_out(*releasing.result())

    async def _release(self) -> None:
        self._ended = True
        if self._finding_out is not None:
            self._finding_out.cancel()
            await asyncio.gather(self._finding_out, return_exceptions=True)
        self._decider.part(self.local.agent_id)
        for _, kept in self._arrived:
            if not kept.done():
                kept.set_exception(LifecycleError("its owner ended before this was kept"))
        await super()._release()
