"""Attempts that a crash interrupted and that were repeated, maybe by another program."""

from __future__ import annotations

import pytest

from lifecycle.accounts import SILENT, Accounts, Budgets, Verdict
from lifecycle.clock import SteppedClock
from lifecycle.machine.money import Budget
from lifecycle.record import AgentLifecycle, Commit, Spending
from lifecycle.store.memory import MemoryStore

NOON = 1_800_000_000.0
GO = Verdict()
LIMITS = Budgets(plan=Budget(tokens=10_000), plan_name="night")


class Runner:
    """The accounts of a runner, and the store that outlives it."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore(clock=lambda: NOON)
        self.accounts = Accounts(self.store, SteppedClock(NOON))

    async def ends(
        self, agent_id: str, attempt: int, program: str, *, tokens: int = 0, silent: bool = True
    ) -> Spending:
        """Count the end of a process, as the loop does: with the tokens of all of its attempt."""
        record = await self.store.get(agent_id) or AgentLifecycle(agent_id=agent_id, task="Work")
        spending = Spending(
            agent_id=agent_id,
            attempt=attempt,
            birth=record.birth,
            plan="night",
            at=NOON,
            program=program,
            tokens=tokens,
            silent_tokens=int(silent),
            silent_usd=1,
        )
        made = self.accounts.charged(spending)
        self.accounts.booked(made)
        await self.store.commit(Commit(record=record, spending=made))
        return made

    def may(self, program: str) -> bool:
        """Tell whether an attempt that may only be this program could begin."""
        return self.accounts.verdict("x", LIMITS, programs=(program,)) == GO

    async def again(self) -> Runner:
        """Return the runner that comes after this one."""
        made = Runner(self.store)
        await made.accounts.load()
        return made


@pytest.fixture
def runner() -> Runner:
    return Runner()


async def test_it_counts_for_the_program_that_repeated_it_last(runner: Runner) -> None:
    for number in range(1, SILENT + 1):
        await runner.ends("a", number, "codex")
        await runner.ends("a", number, "claude")

    for each in (runner, await runner.again()):
        assert each.may("codex"), "none of the attempts is codex's any more"
        assert not each.may("claude")


async def test_it_told_something_if_one_of_its_processes_did(runner: Runner) -> None:
    for number in range(1, SILENT + 1):
        await runner.ends("a", number, "codex")
        await runner.ends("a", number, "claude", tokens=100, silent=False)

    for each in (runner, await runner.again()):
        assert each.may("codex")
        assert each.may("claude")


async def test_it_is_one_attempt_however_often_it_is_repeated(runner: Runner) -> None:
    for _ in range(SILENT):
        await runner.ends("a", 1, "codex")

    for each in (runner, await runner.again()):
        assert each.may("codex")


async def test_it_teaches_until_the_next_start_and_no_longer(runner: Runner) -> None:
    await runner.ends("a", 1, "codex", tokens=100, silent=False)
    after = await runner.again()
    await after.ends("a", 1, "codex", tokens=100)
    assert (await after.ends("b", 1, "codex")).charged_tokens == 100

    later = await after.again()

    assert (await later.ends("c", 1, "codex")).charged_tokens == 0
    assert later.accounts.spent(plan="night").tokens == 300, "what was charged stays"
