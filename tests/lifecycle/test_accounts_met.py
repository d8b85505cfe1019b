"""What a lifecycle used is forgotten when its loop is over, and known again when one begins."""

from __future__ import annotations

from lifecycle.accounts import Accounts
from lifecycle.clock import SteppedClock
from lifecycle.record import AgentLifecycle, Commit, Spending
from lifecycle.store.memory import MemoryStore

NOON = 1_800_000_000.0


class Books:
    """The accounts of a runner and its store, with one lifecycle."""

    def __init__(self) -> None:
        self.store = MemoryStore(clock=lambda: NOON)
        self.accounts = Accounts(self.store, SteppedClock(NOON))
        self.record = AgentLifecycle(agent_id="a", task="Work")

    async def ends(self, attempt: int, tokens: int) -> None:
        spending = Spending(
            agent_id="a", birth=self.record.birth, plan="night", attempt=attempt, at=NOON,
            program="claude", tokens=tokens,
        )  # fmt: skip
        self.accounts.booked(spending)
        await self.store.commit(Commit(record=self.record, spending=spending))

    def tokens(self) -> tuple[int, int]:
        """Return what the lifecycle and its plan used."""
        mine, plan = self.accounts.spent(agent_id="a"), self.accounts.spent(plan="night")
        return mine.tokens, plan.tokens


async def test_the_plan_counts_on_while_nobody_knows_the_lifecycle() -> None:
    books = Books()
    await books.ends(1, 100)
    books.accounts.part("a")
    assert books.tokens() == (0, 100)


async def test_a_loop_that_begins_again_knows_what_it_used() -> None:
    books = Books()
    await books.ends(1, 100)
    await books.ends(2, 30)
    books.accounts.part("a")

    await books.accounts.meet("a")
    assert books.tokens() == (130, 130)
    await books.accounts.meet("a")
    assert books.tokens() == (130, 130)


async def test_an_attempt_that_is_repeated_afterwards_takes_its_own_place() -> None:
    books = Books()
    await books.ends(1, 100)
    books.accounts.part("a")
    await books.accounts.meet("a")
    await books.ends(1, 120)
    assert books.tokens() == (120, 120)
