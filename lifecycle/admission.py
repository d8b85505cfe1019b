"""Whether an attempt may begin now: budgets, and what other lifecycles learned of its program.

Joins the accounts and the board with one lifecycle. Decides nothing about what follows.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from lifecycle.accounts import Budgets
from lifecycle.machine import events as on
from lifecycle.masking import HIDDEN
from lifecycle.plan import Agent, PlanMark
from lifecycle.project import COMMAND
from runtime.masking import holds_secret

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lifecycle.case import Case
    from lifecycle.machine.money import Spent
    from lifecycle.machine.states import Resting
    from lifecycle.parts import Parts
    from lifecycle.record import Spending
    from lifecycle.store.port import LifecycleStore


class Board:
    """Which programs some lifecycle found limited: the same account serves all of them."""

    def __init__(self) -> None:
        self._rests: dict[tuple[object, ...], Resting] = {}
        self._learned = False
        self._learning = asyncio.Lock()

    async def learn(self, store: LifecycleStore) -> None:
        """Learn, once, what was known before this runner began: limits outlive it."""
        async with self._learning:
            if self._learned:
                return
            for record in await store.unfinished():
                if record.work is not None and record.work.tally.resting:
                    # One whose facts are damaged tells nothing; it keeps no other from learning.
                    with suppress(KeyError, ValueError):
                        # As stored, where a secret only shows that there was one.
                        agent = Agent.model_validate(record.facts["agent"])
                        self.note(agent, record.work.tally.resting)
            self._learned = True

    def note(self, agent: Agent, resting: Iterable[Resting]) -> None:
        """Let others know of limits that end by themselves; who waits longest knows most."""
        for each in resting:
            account = _account(agent, each.program)
            known = self._rests.get(account)
            if each.until is not None and (known is None or (known.until or 0.0) < each.until):
                self._rests[account] = each

    def resting(self, agent: Agent, at: float) -> tuple[Resting, ...]:
        """Return what is known of the programs that this agent could be."""
        if not self._rests:
            return ()
        names = agent.programs or ("",)
        found = (self._rests.get(key) for name in names for key in _accounts(agent, name))
        known = {
            rest.program: rest for rest in found if rest is not None and (rest.until or 0.0) > at
        }
        return tuple(known.values())

    def forget(self, agent: Agent) -> None:
        """A person says that the limits are over."""
        for name in agent.programs or ("",):
            for key in _accounts(agent, name):
                self._rests.pop(key, None)


def _account(agent: Agent, program: str) -> tuple[object, ...]:
    """Tell accounts apart as far as can be seen: by program and model, and by variables."""
    return agent.command or program, tuple(sorted(agent.env.items()))


def _accounts(agent: Agent, program: str) -> tuple[tuple[object, ...], ...]:
    """Return an account as it is, and as an earlier runner stored it."""
    stored = tuple(
        sorted(
            (name, HIDDEN if holds_secret(name, value) else value)
            for name, value in agent.env.items()
        )
    )
    mine = _account(agent, program)
    kept = (mine[0], stored)
    return (mine,) if kept == mine else (mine, kept)


class Admission:
    """Lets the attempts of one lifecycle begin."""

    def __init__(self, parts: Parts, case: Case) -> None:
        self._parts, self._case = parts, case

    async def met(self) -> None:
        """Have the accounts know what it used before, if it had an attempt."""
        work = self._case.record.work
        if work is not None and work.tally.spawn_count:
            await self._parts.accounts.meet(self._case.agent_id)

    def may(self) -> bool:
        """Tell whether a place is of use now; not while others may use up a shared budget."""
        budgets = self._budgets()
        if budgets is None:
            return True
        accounts, record = self._parts.accounts, self._case.record
        verdict = accounts.verdict(
            record.agent_id, budgets, birth=record.birth, programs=self._programs
        )
        return not verdict.hold

    def ticket(self) -> on.Admitted:
        """Return the fact that a place was given, with what stands against using it."""
        now, budgets, over = self._parts.clock.now(), self._budgets(), ""
        record = self._case.record
        if budgets is None:
            self.begun()
        else:
            admitted = self._parts.accounts.admit(
                record.agent_id, budgets, birth=record.birth, programs=self._programs
            )
            over = admitted.over
        return on.Admitted(
            at=now, over=over, resting=self._parts.board.resting(self._case.agent, now)
        )

    @property
    def is_free(self) -> bool:
        """Tell whether no budget has to be asked."""
        return self._budgets() is None

    def begun(self) -> None:
        """Count an attempt as under way, also while no budget asks for it: one may be set soon."""
        self._parts.accounts.started(self._case.agent_id, plan_of(self._case).name)

    def charged(self, spending: Spending) -> Spending:
        """Return what an attempt used, with what is reckoned where its program kept silent."""
        return self._parts.accounts.charged(spending)

    def booked(self, spending: Spending, *, goes_on: bool) -> None:
        """Count what an attempt used, of which the next may have begun in the same breath."""
        self._parts.accounts.booked(spending)
        if goes_on:
            self.begun()

    def unused(self) -> None:
        """Give back what was set aside for an attempt that does not begin."""
        self._parts.accounts.gone(self._case.agent_id)

    def afford(self, so_far: Spent) -> str:
        """Take what the attempt under way used so far; say which budget that uses up."""
        budgets = self._budgets()
        if budgets is None:
            return ""
        accounts, record = self._parts.accounts, self._case.record
        program = record.work.tally.program if record.work is not None else ""
        accounts.reports(record.agent_id, so_far, program=program)
        return accounts.verdict(record.agent_id, budgets, birth=record.birth).over

    @property
    def _programs(self) -> tuple[str, ...]:
        """Return which programs the next attempt may be, by the names that the books know."""
        return self._case.agent.programs or (COMMAND,)

    def _budgets(self) -> Budgets | None:
        case = self._case
        mark = plan_of(case)
        settings = self._parts.settings()
        if case.task.budget is None and mark.budget is None and not settings.has_budget:
            return None
        return Budgets.of(settings, case.task, mark)


def plan_of(case: Case) -> PlanMark:
    """Return the plan that a lifecycle belongs to."""
    kept = case.record.facts.get("plan")
    return PlanMark.model_validate(kept) if kept else _LOOSE


_LOOSE = PlanMark()
