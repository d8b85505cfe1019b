"""One transaction in the making: facts that are decided and not yet committed."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from lifecycle.minutes import entry_of, orders_of
from lifecycle.project import onto_books, onto_ledger, onto_record
from lifecycle.record import Commit

if TYPE_CHECKING:
    from lifecycle.case import Case
    from lifecycle.machine.events import Event
    from lifecycle.machine.states import State
    from lifecycle.machine.step import Step
    from lifecycle.record import AttemptRow, JournalEntry, PendingEffect, Spending


class Draft:
    """What facts in a row mean for the record; nothing of it holds before its commit."""

    def __init__(self, case: Case, state: State) -> None:
        self._case = case
        self.state = state
        """The work state after the facts so far."""
        self.record = copy(case.record)
        self.journal: list[JournalEntry] = []
        self._passed: list[State] = []
        self.row: AttemptRow | None = None
        self.spending: Spending | None = None
        self.orders: tuple[PendingEffect, ...] = ()

    def add(self, event: Event, step: Step) -> None:
        """Add a fact and what was decided on it."""
        case, before = self._case, self.state
        self.journal.append(entry_of(case, event, before, step))
        if not step.late:
            last = self.row or (case.ledger[-1] if case.ledger else None)
            row = onto_ledger(last, self.record, before, event, step.state)
            if row is not None:
                self.row = row
                self.spending = onto_books(row, self.record, event) or self.spending
            onto_record(self.record, event, step.state)
            self.state = step.state
        self._passed.append(self.state)
        self.orders = (*self.orders, *orders_of(case, step.effects))

    def carried_out(self, order: PendingEffect) -> None:
        """Take back an order that was carried out before it had to be written down."""
        self.orders = tuple(each for each in self.orders if each is not order)

    def commit(self, done: tuple[str, ...], request_id: int) -> Commit:
        """Return what the store is to write; `done` are orders it need not remember any more."""
        return Commit(
            record=self.record,
            journal=tuple(self.journal),
            passed=tuple(self._passed),
            effects=self.orders,
            done=done,
            attempt=self.row,
            spending=self.spending,
            taken=(request_id,) if request_id else (),
        )
