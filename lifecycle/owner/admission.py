"""Asks `lifecycle.admission` whether an attempt of one lifecycle may begin now.

Joins the sums and the limits of the runner with one lifecycle. Decides nothing about what follows.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lifecycle.admission.budgets import Budgets
from lifecycle.admission.unenforceable_budgets import is_exempt, uncounted
from lifecycle.errors import PlanError
from lifecycle.machine import events as on
from lifecycle.plan import plan_of

if TYPE_CHECKING:
    from lifecycle.machine.budget import Spent
    from lifecycle.record import Spending
    from lifecycle.services import SharedServices
    from lifecycle.working_copy import LocalCopy

SILENT = 3
"""Attempts in a row that reported nothing of what a budget counts, after which a person is told."""


class Admission:
    """Lets the attempts of one lifecycle begin."""

    def __init__(self, shared: SharedServices, local: LocalCopy) -> None:
        self._shared, self._local = shared, local
        self._told: set[str] = set()
        self._silent = 0
        """Attempts in a row that reported nothing of what a budget counts."""

    async def met(self) -> None:
        """Load what it used before into the accounts, if it had an attempt."""
        work = self._local.record.work
        if work is not None and work.tally.spawn_count:
            await self._shared.accounts.meet(self._local.agent_id)

    def may(self) -> bool:
        """Tell whether a slot could be used now; not while others make the last attempts."""
        budgets = self._budgets()
        if budgets is None:
            return True
        accounts, record = self._shared.accounts, self._local.record
        return not accounts.verdict(record.agent_id, budgets, birth=record.birth).hold

    def ticket(self) -> on.Admitted:
        """Return the fact that a slot was granted, with the reasons against using it."""
        now, budgets, over = self._shared.clock.now(), self._budgets(), ""
        record = self._local.record
        if budgets is None:
            self.begun()
        else:
            over = self._shared.accounts.admit(record.agent_id, budgets, birth=record.birth).over
            self._warn_of_programs()
        return on.Admitted(
            at=now, over=over, resting=self._shared.program_limits.resting(self._local.agent, now)
        )

    @property
    def is_free(self) -> bool:
        """Tell whether no budget has to be asked."""
        return self._budgets() is None

    def begun(self) -> None:
        """Count an attempt as under way, also while no budget asks for it: one may be set soon."""
        self._shared.accounts.started(self._local.agent_id, plan_of(self._local.record).name)

    def review_begun(self) -> None:
        """Count a review as under way: it uses the budgets, but is no attempt."""
        plan = plan_of(self._local.record).name
        self._shared.accounts.started(self._local.agent_id, plan, attempts=0)

    def booked(self, spending: Spending) -> None:
        """Record the usage of an attempt."""
        self._shared.accounts.booked(spending)
        if not spending.review:
            self._listen(spending)

    def afford(self, so_far: Spent) -> str:
        """Take what the attempt under way used so far; say which budget that uses up."""
        accounts, record = self._shared.accounts, self._local.record
        accounts.reports(record.agent_id, so_far)  # also for people who look
        budgets = self._budgets()
        if budgets is None:
            return ""
        return accounts.verdict(record.agent_id, budgets, birth=record.birth).over

    def _warn_of_programs(self) -> None:
        """Warn of a budget that was set after the start and cannot limit one of the programs.

        Nothing is ended for it: nobody knew at the start that the program is not counted.
        """
        mark, settings = plan_of(self._local.record), self._shared.settings()
        with suppress(PlanError):  # one that is unknown by now is told when it cannot be started
            own = self._local.task.budget
            for each in uncounted(self._local.agent, settings, own, mark.budget):
                self._warn(f"{each.found}; {each.remedy}")

    def _listen(self, spending: Spending) -> None:
        """Warn of a program that should report its usage, and does not."""
        budgets, (name, _, model) = self._budgets(), spending.program.partition(":")
        if budgets is None or is_exempt(name, model, self._shared.settings()):
            return
        every, misses = (budgets.lifecycle, budgets.plan, budgets.day), list[str]()
        if not spending.tokens and any(each.tokens for each in every):
            misses.append("tokens")
        if spending.cost_usd is None and any(each.cost_usd for each in every):
            misses.append("dollars")
        self._silent = self._silent + 1 if misses else 0
        if self._silent == SILENT:
            self._warn(
                f"the last {SILENT} attempts reported no {' or '.join(misses)}, so budgets count "
                "them as nothing; budget_attempts and budget_hours hold them all the same"
            )

    def _warn(self, text: str) -> None:
        """Say it once in this runner."""
        if text not in self._told:
            self._told.add(text)
            self._shared.report("budget_unheld", agent_id=self._local.agent_id, reason=text)

    def _budgets(self) -> Budgets | None:
        local = self._local
        return Budgets.set_for(self._shared.settings(), local.task, plan_of(local.record))
