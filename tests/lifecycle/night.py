"""Plays a whole night: many agents, few places, people who sleep, and runners that die.

The loop, its owners, its store and its accounts are the real ones; time is stepped. What must hold
in the end is not known here: `night_oracle` says it, from the script and the diary alone.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lifecycle.accounts import Accounts
from lifecycle.clock import SteppedClock
from lifecycle.engine import Engine
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    About,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Reason,
    Rejected,
)
from lifecycle.result import ended
from lifecycle.rounds import Rounds
from lifecycle.wishes import Wishes
from runtime.activity import Activity
from runtime.output import size
from runtime.tree import Commit
from tests.lifecycle import simulated_ports as ports
from tests.lifecycle.night_script import EVENING, HOUR, MIDNIGHT, MINUTE
from tests.lifecycle.night_world import NightWorld
from tests.lifecycle.simulated import CrashError, Life
from tests.lifecycle.stories import Play, Story, _settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from lifecycle.clock import Timer
    from lifecycle.parts import Parts
    from lifecycle.record import AgentLifecycle, AttemptRow, JournalEntry, Spending
    from lifecycle.result import LoopResult
    from lifecycle.store.port import LifecycleStore
    from runtime.workspace import Workspace
    from tests.lifecycle.night_script import Job, Night

LOOKS_AT_AGENTS_EVERY = 20.0
PEOPLE_ARE_SLOW = 10.0
"""Seconds that a request lies there before a runner looks; twice a second is much for a night."""
MORNING_AFTER = 10 * MINUTE
"""When, after midnight, a person takes up what the budget of the day had ended."""
MOST_STEPS = 400_000
LONGEST = 96 * HOUR


class NightClock(SteppedClock):
    """Tells when the next timer is due that is no mere look for requests; looks less often."""

    def __init__(self, now: float) -> None:
        super().__init__(now)
        self._matter: list[tuple[float, int, Any]] = []
        self._count = itertools.count()

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call back when the clock is moved past the instant."""
        if isinstance(getattr(callback, "__self__", None), Wishes):
            return super().call_at(when + PEOPLE_ARE_SLOW, callback)
        timer = super().call_at(when, callback)
        heapq.heappush(self._matter, (when, next(self._count), timer))
        return timer

    def next_that_matters(self) -> float | None:
        """Return when the next of the others is due."""
        now, due = self.now(), self._matter
        while due and (due[0][0] <= now or due[0][2].cancelled):
            heapq.heappop(due)
        return due[0][0] if due else None


class NightTerminals(ports.Terminals):
    """Sees how long the logs of the living are, and nothing else of them."""

    def sample(self) -> Mapping[str, Activity]:
        """Return one measurement of everybody."""
        self._life.breathe()
        return {
            actor.mark: Activity(size(actor.order.log), 0, 1) for actor in self._world.alive()
        }


class NightSpaces(ports.Spaces):
    """Knows the commits of a workspace too."""

    async def recent_commits(
        self, workspace: Workspace, limit: int = 10, *, head: str | None = None
    ) -> tuple[Commit, ...]:
        """Return them, the newest first."""
        del head
        at = datetime.fromtimestamp(self._world.now, UTC)
        shas = self._space(workspace).commits[::-1][:limit]
        return tuple(Commit(sha, "work", "agent", at) for sha in shas)


@dataclass(frozen=True)
class Kept:
    """What the runner kept of one lifecycle."""

    record: AgentLifecycle
    attempts: tuple[AttemptRow, ...]
    spendings: tuple[Spending, ...]
    again: frozenset[tuple[int, float]]
    """Attempts that had been let in when a runner died, and when the next one took that up."""


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
                self._come(each.until + 5 * MINUTE, "mended")
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
        parts = self._parts(life, clock)
        runner = Runner(Engine(parts), self.night)
        try:
            await runner.begin(self.store)
            await self._until_rest(life, clock, runner)
            if not life.dead:
                await runner.engine.aclose()
                self.problems += left_over(parts, clock, self.night)
        finally:
            done, life.dead = not life.dead, True
            world.subscriptions.clear()
            world.forge.handlers.clear()
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
            runner.collect()
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

    def _parts(self, life: Life, clock: SteppedClock) -> Parts:
        parts = super()._parts(life, clock)
        parts.terminals = NightTerminals(self.world, life)
        parts.workspaces = NightSpaces(self.world, life)
        parts.rounds = Rounds(parts.terminals, clock, LOOKS_AT_AGENTS_EVERY)
        parts.accounts = Accounts(parts.store, clock, zone=UTC, freed=parts.places.serve)
        parts.plans = {job.task.id: job.plan for job in self.night.jobs}
        return parts

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
            self.world.diary.woken.append((now, agent_id, "person"))
            await self.store.ask(agent_id, on.Answered(at=now, text="this one", by="ada"))
        elif isinstance(work, Blocked):
            self.world.diary.woken.append((now, agent_id, "person"))
            await self.store.ask(agent_id, on.Unblocked(at=now, by="ada"))
        elif not isinstance(work, Rejected):
            self._come(now + MINUTE, why, agent_id)

    async def _take_up(self, runner: Runner, why: str) -> None:
        """Have those go on whose trouble is over."""
        now = self.world.now
        for job in self.night.jobs:
            record = await self.store.get(job.agent.agent_id)
            work = None if record is None else record.work
            if not isinstance(work, Rejected):
                continue
            reason = Reason.ERROR if why == "mended" else Reason.BUDGET
            if work.reason is reason and (why == "mended" or "of the day" in work.text):
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
            again = frozenset(in_flight(await self.store.journal(agent_id)))
            found[agent_id] = Kept(record, attempts, spendings, again)
        return found


def in_flight(journal: Iterable[JournalEntry]) -> Iterator[tuple[int, float]]:
    """Return which attempts one runner had let in and another one began, and when."""
    let_in = 0.0
    for entry in journal:
        match entry.event:
            case on.Admitted(at=at):
                let_in = at
            case on.RunnerRestarted(at=at, attempt=attempt) if entry.before == "Spawning":
                yield attempt, at
            case on.WorkspaceReady(at=at, attempt=attempt) if at != let_in:
                yield attempt, at


class Runner:
    """One runner's loops: who is run, and again."""

    def __init__(self, engine: Engine, night: Night) -> None:
        self.engine, self._night = engine, night
        self.runs: dict[str, asyncio.Task[LoopResult]] = {}
        self._jobs = {job.agent.agent_id: job for job in night.jobs}
        self._revived: list[str] = []
        engine.revive = lambda record: self._revived.append(record.agent_id)

    async def begin(self, store: LifecycleStore) -> None:
        """Run everybody who is not at the end."""
        await self.engine.start()
        for job in self._night.jobs:
            record = await store.get(job.agent.agent_id)
            if record is None or _goes_on(record):
                self.run(job)

    def run(self, job: Job, *, resume: bool = False) -> None:
        """Run the loop of one agent."""
        run = self.engine.run(job.agent, job.task, resume=resume)
        self.runs[job.agent.agent_id] = asyncio.get_running_loop().create_task(run)

    def collect(self) -> None:
        """Let go of the loops that ended; run again who was given up too early."""
        for agent_id, run in tuple(self.runs.items()):
            if run.done() and not run.cancelled() and run.exception() is None:
                del self.runs[agent_id]
            elif run.done():
                return  # looked at when the runner is dead
        for agent_id in self._revived:
            if agent_id not in self.runs:
                self.run(self._jobs[agent_id])
        self._revived.clear()


def _goes_on(record: AgentLifecycle) -> bool:
    work = record.work
    waits = isinstance(work, AwaitingHuman) and work.about is About.DEPENDENCY
    return waits or ended(record) is None


def left_over(parts: Parts, clock: SteppedClock, night: Night) -> list[str]:
    """Say what a runner holds after its end: places, or attempts that its accounts count on."""
    found = []
    for job in night.jobs:
        agent_id = job.agent.agent_id
        if parts.places.holds(agent_id) or parts.places.waiting(agent_id):
            found.append(f"{agent_id} holds a place, or waits for one, after the end")
    names = {job.plan.name for job in night.jobs}
    before = {name: parts.accounts.spent(plan=name).seconds for name in names}
    clock.advance(1000.0)
    for name in sorted(names):
        if parts.accounts.spent(plan=name).seconds != before[name]:
            found.append(f"the accounts count on an attempt of plan {name} after the end")
    return found
