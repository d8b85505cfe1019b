"""Plays a whole night: many agents, few places, people who sleep, and runners that die.

The loop, its owners, its store and its accounts are the real ones; time is stepped. What must hold
in the end is not known here: `rules` says it.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING

from lifecycle.admission.budgets import Accounts
from lifecycle.engine.engine import LocalEngine
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    About,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Reason,
    Rejected,
)
from tests.lifecycle.engine.simulated import CrashError, Life
from tests.lifecycle.engine.stories import Play, Story, _settle
from tests.lifecycle.night.ports import (
    PEOPLE_ARE_SLOW,
    NightClock,
    NightSpaces,
    NightTerminals,
)
from tests.lifecycle.night.runner import Runner, left_over
from tests.lifecycle.night.script import EVENING, HOUR, MIDNIGHT, MINUTE
from tests.lifecycle.night.world import NightWorld

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.clock import SteppedClock
    from lifecycle.record import AgentLifecycle, AttemptRow, Spending
    from lifecycle.services import MachineServices
    from tests.lifecycle.night.script import Night

LOOKS_AT_AGENTS_EVERY = 20.0
LOOKS_AGAIN = 30 * MINUTE
MORNING_AFTER = 10 * MINUTE
"""When, after midnight, a person takes up what the budget of the day had ended."""
MOST_STEPS = 400_000
LONGEST = 96 * HOUR


@dataclass(frozen=True)
class Kept:
    """What the runner kept of one lifecycle."""

    record: AgentLifecycle
    attempts: tuple[AttemptRow, ...]
    spendings: tuple[Spending, ...]
    admitted: tuple[float, ...]
    """When attempts were let in."""


class NightPlay(Play):
    """One night, with the runners that lived in it."""

    world: NightWorld

    def __init__(self, folder: Path, night: Night) -> None:
        self.night = night
        self._chance = random.Random(night.seed)  # noqa: S311  # no secret
        self._people: list[tuple[float, int, str, str]] = []
        self._numbers = itertools.count()
        self.problems: list[str] = []
        """What a runner left in its own hands."""
        super().__init__(Story({}, settings=night.settings), folder)

    def __post_init__(self) -> None:
        """Make the world, and see to it that people come."""
        self.folder.mkdir()
        self.world = NightWorld(self.folder, self.night)
        self.world.now = EVENING
        self._asked: list[int] = []
        for at, agent_id in self.night.hurries:
            self._come(at, "hurry", agent_id)
        for each in self.night.troubles:
            if each.kind == "auth":
                self._come(each.until + 5 * MINUTE, "fixed")
        self._come(MIDNIGHT + MORNING_AFTER, "morning")

    def _come(self, at: float, why: str, agent_id: str = "") -> None:
        heapq.heappush(self._people, (at, next(self._numbers), why, agent_id))

    # --- runners ------------------------------------------------------------------------------

    async def through(self) -> NightPlay:
        """Let runners live until everything is at rest and nobody comes any more."""
        for crash_at, gap in (*self.night.crashes, (None, 0.0)):
            if await self._one_life(Life(crash_at)):
                break
            self._nobody_runs(self.world.now + gap)
        return self

    async def _one_life(self, life: Life) -> bool:
        world = self.world
        world.life += 1
        self.lives.append(life)
        world.diary.lives.append((world.now, None))
        mine = asyncio.current_task()
        others = asyncio.all_tasks() - {mine}
        clock = NightClock(world.now)
        machine = self._machine(life, clock)
        runner = Runner(LocalEngine(machine), self.night)
        try:
            await runner.begin(self.store)
            await self._until_rest(life, clock, runner)
            if not life.dead:
                await runner.engine.aclose()
                self.problems += left_over(machine, clock, self.night)
        finally:
            done, life.dead = not life.dead, True
            world.subscriptions.clear()
            world.forge.handlers.clear()
            runner.let_go()
            left = asyncio.all_tasks() - {mine} - others
            for task in left:
                task.cancel()
            found = await asyncio.gather(*runner.runs.values(), *left, return_exceptions=True)
        for problem in found:
            if isinstance(problem, BaseException) and not isinstance(
                problem, (CrashError, asyncio.CancelledError)
            ):
                raise problem
        if not done:
            world.diary.lives[-1] = world.diary.lives[-1][0], world.now
        return done

    async def _until_rest(self, life: Life, clock: NightClock, runner: Runner) -> None:
        world = self.world
        for _ in range(MOST_STEPS):
            await _settle()
            world.note_ends()
            if runner.collect():
                continue
            if life.dead or (not runner.runs and not self._people):
                return
            if await self._people_come(runner) or world.step():
                continue
            dues = (clock.next_that_matters(), world.next_due(), self._next_visit())
            due = min(each for each in dues if each is not None)
            if await self.store.requests():
                due = min(due, clock.now() + PEOPLE_ARE_SLOW)
            assert due < EVENING + LONGEST, f"the night does not end: {sorted(runner.runs)}"
            clock.advance(due - clock.now())
            world.now = clock.now()
        raise AssertionError(f"the night does not end: {sorted(runner.runs)}")

    def _nobody_runs(self, until: float) -> None:
        """Let everybody outside go on while no runner lives."""
        world = self.world
        while True:
            while world.step():
                world.note_ends()
            due = world.next_due()
            if due is None or due > until:
                break
            world.now = due
        world.now = until

    def _machine(self, life: Life, clock: SteppedClock) -> MachineServices:
        machine = super()._machine(life, clock)
        machine.terminals = NightTerminals(self.world, life)
        machine.workspaces = NightSpaces(self.world, life)
        machine.sample_interval = LOOKS_AT_AGENTS_EVERY
        machine.shared.accounts = Accounts(
            machine.shared.store, clock, zone=UTC, freed=machine.shared.slots.serve
        )
        machine.shared.plans = {job.task.id: job.plan for job in self.night.jobs}
        return machine

    # --- people -------------------------------------------------------------------------------

    def _next_visit(self) -> float | None:
        return self._people[0][0] if self._people else None

    async def _people_come(self, runner: Runner) -> bool:
        world = self.world
        while world.asked:
            self._come(world.now + self._chance.uniform(10, 90) * MINUTE, "tend", world.asked.pop())
        if not self._people or self._people[0][0] > world.now:
            return False
        _, _, why, agent_id = heapq.heappop(self._people)
        if why in ("tend", "hurry"):
            record = await self.store.get(agent_id)
            if record is not None and record.work is not None:
                await self._tend(record, why)
        else:
            await self._take_up(runner, why)
        return True

    async def _tend(self, record: AgentLifecycle, why: str) -> None:
        now, agent_id, work = self.world.now, record.agent_id, record.work
        if why == "hurry":
            if isinstance(work, BackingOff):
                self.world.diary.resumed.append((now, agent_id, why))
                await self.store.ask(agent_id, on.ResumeRequested(at=now, by="ada"))
        elif isinstance(work, AwaitingHuman) and work.about is About.QUESTION:
            await self.store.ask(agent_id, on.Answered(at=now, text="this one", by="ada"))
        elif isinstance(work, Blocked):
            await self.store.ask(agent_id, on.Unblocked(at=now, by="ada"))
        elif not isinstance(work, Rejected):
            self._come(now + MINUTE, why, agent_id)

    async def _take_up(self, runner: Runner, why: str) -> None:
        """Have those go on whose trouble is over."""
        now = self.world.now
        again = " again"
        if not why.endswith(again):
            # The runner may die over it.
            self._come(now + LOOKS_AGAIN, why + again)
        why = why.removesuffix(again)
        for job in self.night.jobs:
            record = await self.store.get(job.agent.agent_id)
            work = None if record is None else record.work
            if not isinstance(work, Rejected):
                continue
            reason = Reason.ERROR if why == "fixed" else Reason.BUDGET
            if work.reason is reason and (why == "fixed" or "of the day" in work.text):
                self.world.diary.resumed.append((now, job.agent.agent_id, why))
                runner.run(job, resume=True)

    # --- what is kept -------------------------------------------------------------------------

    async def kept(self) -> dict[str, Kept]:
        """Return what the store says of everybody."""
        found = {}
        for job in self.night.jobs:
            agent_id = job.agent.agent_id
            record = await self.store.get(agent_id)
            assert record is not None
            attempts = tuple(await self.store.attempts(agent_id))
            spendings = tuple(await self.store.spendings(agent_id=agent_id))
            journal = await self.store.journal(agent_id)
            admitted = tuple(e.event.at for e in journal if isinstance(e.event, on.Admitted))
            found[agent_id] = Kept(record, attempts, spendings, admitted)
        return found
