"""Whether an attempt may begin now: budgets, and what other lifecycles learned of its program.

Joins the accounts and the board with one lifecycle. Decides nothing about what follows.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from lifecycle.accounts import Budgets
from lifecycle.budgetcheck import is_exempt, uncounted
from lifecycle.errors import PlanError
from lifecycle.machine import events as on
from lifecycle.masking import HIDDEN
from lifecycle.plan import Agent, PlanMark
from runtime.masking import holds_secret

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lifecycle.case import Case
    from lifecycle.machine.money import Spent
    from lifecycle.machine.states import Resting
    from lifecycle.parts import Parts
    from lifecycle.record import AgentLifecycle, Spending
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


SILENT = 3
"""Attempts in a row that told nothing of what a budget counts, after which a person is told."""


class Admission:
    """Lets the attempts of one lifecycle begin."""

    def __init__(self, parts: Parts, case: Case) -> None:
        self._parts, self._case = parts, case
        self._told: set[str] = set()
        self._silent = 0
        """Attempts in a row that told nothing of what a budget counts."""

    async def met(self) -> None:
        """Have the accounts know what it used before, if it had an attempt."""
        work = self._case.record.work
        if work is not None and work.tally.spawn_count:
            await self._parts.accounts.meet(self._case.agent_id)

    def may(self) -> bool:
        """Tell whether a place is of use now; not while others make the last attempts."""
        budgets = self._budgets()
        if budgets is None:
            return True
        accounts, record = self._parts.accounts, self._case.record
        return not accounts.verdict(record.agent_id, budgets, birth=record.birth).hold

    def ticket(self) -> on.Admitted:
        """Return the fact that a place was given, with what stands against using it."""
        now, budgets, over = self._parts.clock.now(), self._budgets(), ""
        record = self._case.record
        if budgets is None:
            self.begun()
        else:
            over = self._parts.accounts.admit(record.agent_id, budgets, birth=record.birth).over
            self._warn_of_programs()
        return on.Admitted(
            at=now, over=over, resting=self._parts.board.resting(self._case.agent, now)
        )

    @property
    def is_free(self) -> bool:
        """Tell whether no budget has to be asked."""
        return self._budgets() is None

    def begun(self) -> None:
        """Count an attempt as under way, also while no budget asks for it: one may be set soon."""
        self._parts.accounts.started(self._case.agent_id, plan_of(self._case.record).name)

    def booked(self, spending: Spending, *, goes_on: bool) -> None:
        """Count what an attempt used, of which the next may have begun in the same breath."""
        self._parts.accounts.booked(spending)
        self._listen(spending)
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
        accounts.reports(record.agent_id, so_far)
        return accounts.verdict(record.agent_id, budgets, birth=record.birth).over

    def _warn_of_programs(self) -> None:
        """Tell of a budget that came after the start and cannot hold one of the programs.

        Nothing is ended for it: that it goes uncounted was not known when the night began.
        """
        mark, settings = plan_of(self._case.record), self._parts.settings()
        with suppress(PlanError):  # one that is unknown by now is told when it cannot be started
            own = self._case.task.budget
            for each in uncounted(self._case.agent, settings, own, mark.budget):
                self._warn(f"{each.found}; {each.mend}")

    def _listen(self, spending: Spending) -> None:
        """Tell of a program that is known to tell what it uses, and does not."""
        budgets, (name, _, model) = self._budgets(), spending.program.partition(":")
        if budgets is None or is_exempt(name, model, self._parts.settings()):
            return
        every, misses = (budgets.lifecycle, budgets.plan, budgets.day), list[str]()
        if not spending.tokens and any(each.tokens for each in every):
            misses.append("tokens")
        if spending.cost_usd is None and any(each.cost_usd for each in every):
            misses.append("dollars")
        self._silent = self._silent + 1 if misses else 0
        if self._silent == SILENT:
            self._warn(
                f"the last {SILENT} attempts told no {' or '.join(misses)}, so budgets count them "
                "as nothing; budget_attempts and budget_hours hold them all the same"
            )

    def _warn(self, text: str) -> None:
        """Say it once in this runner."""
        if text not in self._told:
            self._told.add(text)
            self._parts.report("budget_unheld", agent_id=self._case.agent_id, reason=text)

    def _budgets(self) -> Budgets | None:
        case = self._case
        mark = plan_of(case.record)
        settings = self._parts.settings()
        if case.task.budget is None and mark.budget is None and not settings.has_budget:
            return None
        return Budgets.of(settings, case.task, mark)


def plan_of(record: AgentLifecycle) -> PlanMark:
    """Return the plan that a lifecycle belongs to."""
    kept = record.facts.get("plan")
    return PlanMark.model_validate(kept) if kept else _LOOSE


_LOOSE = PlanMark()
