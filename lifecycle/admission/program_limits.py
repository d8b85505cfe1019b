"""Which agent programs are at a usage limit, as some lifecycle of this runner found out.

Decides nothing about what follows.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from lifecycle.mask_values import HIDDEN
from lifecycle.plan import Agent
from runtime.masking.masker import holds_secret

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lifecycle.machine.states import UnavailableProgram
    from lifecycle.store.sqlite.store import SqliteStore


class ProgramLimits:
    """Which programs some lifecycle found limited: the same account serves all of them."""

    def __init__(self) -> None:
        self._rests: dict[tuple[object, ...], UnavailableProgram] = {}
        self._learned = False
        self._learning = asyncio.Lock()

    async def learn(self, store: SqliteStore) -> None:
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

    def note(self, agent: Agent, resting: Iterable[UnavailableProgram]) -> None:
        """Share limits that end by themselves; of one account the latest end counts."""
        for each in resting:
            account = _account(agent, each.program)
            known = self._rests.get(account)
            if each.until is not None and (known is None or (known.until or 0.0) < each.until):
                self._rests[account] = each

    def resting(self, agent: Agent, at: float) -> tuple[UnavailableProgram, ...]:
        """Return what is known of the programs that this agent could be."""
        if not self._rests:
            return ()
        names = agent.programs or ("",)
        found = (self._rests.get(key) for name in names for key in _accounts(agent, name))
        known = {
            rest.program: rest for rest in found if rest is not None and (rest.until or 0.0) > at
        }
        return tuple(known.values())

    def known(self, at: float) -> tuple[UnavailableProgram, ...]:
        """Return all that is known, of each program the account that rests longest."""
        found: dict[str, UnavailableProgram] = {}
        for each in self._rests.values():
            known = found.get(each.program)
            if (each.until or 0.0) > max(at, (known and known.until) or 0.0):
                found[each.program] = each
        return tuple(found.values())

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
