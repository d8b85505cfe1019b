"""Stories played in the simulated world, by one runner or by several that die on the way."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lifecycle.admission.budgets import Accounts
from lifecycle.admission.slots import Slots
from lifecycle.base_commits import BaseCommits
from lifecycle.clock import SteppedClock
from lifecycle.context.snapshot import ContextBuilder
from lifecycle.engine.engine import LocalEngine
from lifecycle.errors import LifecycleError
from lifecycle.launch.sandbox import SandboxPlanner
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    BackingOff,
    Blocked,
    Completed,
    PrPending,
    Queued,
    Rejected,
    State,
    Working,
)
from lifecycle.machine.table import decide
from lifecycle.paths import Paths
from lifecycle.plan import Agent, Task
from lifecycle.result import ended
from lifecycle.services import MachineServices, SharedServices
from lifecycle.settings import Settings
from lifecycle.store.sqlite.store import SqliteStore
from runtime.setup.facts import GitSetupFacts
from templates.renderer import Renderer
from tests.lifecycle.engine import simulated_ports as ports
from tests.lifecycle.engine.simulated import CrashError, Life, World
from tests.lifecycle.engine.simulated_ci import Provider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from communication.watcher import MailboxWatcher
    from lifecycle.engine.port import Engine
    from lifecycle.machine.events import Event
    from lifecycle.machine.policy import Policy
    from lifecycle.record import OperatorRequest
    from lifecycle.result import LoopResult
    from tests.lifecycle.engine.simulated import Script

AGENT = "agent-T001"
WRITES = ("create", "update", "effects_done", "answer_request")
MOST_STEPS = 3000
MOST_SAID = 5
UNFINISHED = (Working, Blocked, PrPending, BackingOff)


@dataclass(frozen=True)
class Story:
    """What the agent does, what the world does, and how the loop is set."""

    script: Script
    verify: tuple[str, ...] = ("test",)
    gates: dict[str, int] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    with_ci: bool = True
    red_builds: frozenset[int] = frozenset()
    people: tuple[tuple[str, Callable[[float], Event]], ...] = ()
    """In which work state somebody asks for what, in this order."""

    @property
    def task(self) -> Task:
        return Task(id="T001", title="Calculator", verify=self.verify)

    def read_settings(self) -> Settings:
        given = {"retry_interval": 1.0, "idle_limit": 0.0, "wall_limit": 0.0, "stop_grace": 0.1}
        return Settings.model_validate({**given, **self.settings})


class MortalStore:
    """The store, as one runner reaches it: a dead one writes nothing."""

    def __init__(self, store: SqliteStore, life: Life) -> None:
        self._store, self._life = store, life

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if not inspect.iscoroutinefunction(method):
            self._life.breathe()
            return method

        async def call(*args: Any, **named: Any) -> Any:
            self._life.breathe()
            if name in WRITES:
                self._life.checkpoint(f"before {name}")
            await asyncio.sleep(0)
            self._life.breathe()
            found = await method(*args, **named)
            if name in WRITES:
                self._life.checkpoint(f"after {name}")
            return found

        return call


@dataclass
class Play:
    """One story in one world, with the runners that have lived in it so far."""

    story: Story
    folder: Path
    store: SqliteStore = field(default_factory=SqliteStore.in_memory)
    lives: list[Life] = field(default_factory=list)
    result: LoopResult | None = None
    make: Callable[[MachineServices], Engine] = LocalEngine
    """Makes the engine that is played with."""
    settles: Callable[[], Awaitable[None]] = field(default_factory=lambda: _settle)
    """Returns when nothing of the engine can go on without the world."""
    meddle: Callable[[Engine], Awaitable[None]] | None = None
    """Called between two steps of the world."""

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.world = World(self.folder, self.story.script, gates=self.story.gates)
        self.world.forge.red = set(self.story.red_builds)
        self._asked: list[int] = []
        self.said = 0

    async def to_the_end(self, *crashes: int, goes_on: bool = False) -> Play:
        """Let runners live until one reaches the end; each of `crashes` ends one of them."""
        for crash_at in (*crashes, None):
            life = Life(crash_at)
            self.lives.append(life)
            if await self._live(life):
                break
            if goes_on:
                self.world.goes_on()
        return self

    async def until(self, state: type[State]) -> None:
        """Let a runner live until the lifecycle is in this state, and die then."""
        life = Life()
        self.lives.append(life)
        await self._live(life, state)

    @asynccontextmanager
    async def engine(self) -> AsyncIterator[Engine]:
        """Have an engine that was just started; nobody plays the story meanwhile."""
        life = Life()
        engine = self.make(self._machine(life, SteppedClock(self.world.now)))
        await engine.start()
        try:
            yield engine
        finally:
            await engine.aclose()
            life.dead = True
            self.world.subscriptions.clear()
            self.world.forge.handlers.clear()

    async def settled(self) -> None:
        """Return when no task can go on without the world."""
        await self.settles()

    async def _live(self, life: Life, last: type[State] | None = None) -> bool:
        clock = SteppedClock(self.world.now)
        loop = asyncio.get_running_loop()
        mine = asyncio.current_task()
        others = asyncio.all_tasks() - {mine}
        engine = self.make(self._machine(life, clock))
        agent = Agent(agent_id=AGENT, command=("agent",))
        run = loop.create_task(_opened(engine, agent, self.story.task))
        try:
            for _ in range(MOST_STEPS):
                await self.settles()
                if life.dead or (run.done() and await self._is_told(run)):
                    break
                if last is not None and isinstance(await self._work(), last):
                    life.dead = True
                    break
                if self.meddle is not None:
                    await self.meddle(engine)
                if await self._people_ask() or self.world.step():
                    continue
                instant = clock.next_instant()
                assert instant is not None, "nothing can happen any more"
                clock.advance(instant - clock.now())
                self.world.now = clock.now()
            else:
                record = await self.store.get(AGENT)
                raise AssertionError(f"the story does not end: {record and record.work}")
            if not life.dead:
                self.result = run.result()
                await engine.aclose()
        finally:
            life.dead = True
            self.world.subscriptions.clear()
            self.world.forge.handlers.clear()
            left = asyncio.all_tasks() - {mine} - others
            for task in left:
                task.cancel()
            found = await asyncio.gather(run, *left, return_exceptions=True)
        for problem in found:
            if isinstance(problem, BaseException) and not isinstance(
                problem, (CrashError, asyncio.CancelledError)
            ):
                raise problem
        return self.result is not None

    async def _work(self) -> State | None:
        record = await self.store.get(AGENT)
        return record.work if record is not None else None

    async def guided(self) -> OperatorRequest | None:
        """Let a person say what nobody said before, while it is not done; returns the request."""
        if not isinstance(await self._work(), UNFINISHED) or self.said >= MOST_SAID:
            return None
        self.said += 1
        event = on.Guided(at=self.world.now, by="Ada", text=f"word {self.said}")
        await self.store.ask(AGENT, event)
        return (await self.store.requests())[-1]

    async def asked_again(self, engine: Engine, request: int, event: Event) -> None:
        """Hand in a request once more, whatever comes of it."""
        with suppress(LifecycleError, CrashError):
            await engine.ask(AGENT, event, request=request)

    async def audit(self) -> list[tuple[str, ...]]:
        """Return what the audit has, but for the instants."""
        entries = await self.store.trail.entries()
        return [(each.actor, each.action, each.subject, each.outcome) for each in entries]

    def policy(self) -> Policy:
        """Return the numbers that decisions go by."""
        return self.story.read_settings().policy(self.story.task)

    async def _is_told(self, run: asyncio.Task[LoopResult]) -> bool:
        """Tell whether nothing that people want of an ended lifecycle is still to be done."""
        if run.exception() is not None:
            return True
        open_now = await self.store.requests()
        return (
            len(self._asked) == len(self.story.people)
            and not open_now
            and not await self.store.pending(AGENT)
        )

    async def _people_ask(self) -> bool:
        """Let the next person ask once the lifecycle is where he waits for it."""
        record = await self.store.get(AGENT)
        if record is None or len(self._asked) == len(self.story.people):
            return False
        where, event = self.story.people[len(self._asked)]
        acts = any(actor.steps for actor in self.world.alive())
        if type(record.work).__name__ != where or (where == "Working" and acts):
            return False
        self._asked.append(await self.store.ask(AGENT, event(self.world.now)))
        return True

    def _machine(self, life: Life, clock: SteppedClock) -> MachineServices:
        world = self.world
        store = cast("SqliteStore", MortalStore(self.store, life))
        terminals = ports.Terminals(world, life)
        branches = ports.Branches(world, life)
        settings = self.story.read_settings()
        shared = SharedServices(
            store=store,
            clock=clock,
            settings=lambda: settings,
            accounts=Accounts(store, clock),
            slots=Slots(lambda: settings.max_live_agents),
            base_commits=BaseCommits(store, branches),
            ci=Provider(world, life) if self.story.with_ci else None,
            checkpoint=life.checkpoint,
        )
        return MachineServices(
            shared=shared,
            repo=self.folder,
            paths=Paths.of(self.folder),
            workspaces=ports.Spaces(world, life),
            terminals=terminals,
            branches=branches,
            checkouts=ports.Checkouts(life),
            commands=ports.Commands(world, life),
            setup_facts=GitSetupFacts(self.folder),
            ports=ports.NoPorts(),
            watcher=cast("MailboxWatcher", ports.Watcher(world)),
            builder=_builder(),
            sandbox=SandboxPlanner(
                self.folder, self.folder / ".loopwright", home=self.folder, path="", report=print
            ),
            background=ports.AtOnce(),
        )

    async def picture(self) -> dict[str, Any]:
        """Return what must be the same with and without crashes."""
        record = await self.store.get(AGENT)
        assert record is not None
        assert record.work is not None
        tally = record.work.tally
        attempts = await self.store.attempts(AGENT)
        result = ended(record)
        return {
            "work": type(record.work).__name__,
            "state": record.state,
            "summary": record.submission_summary,
            "files": record.changed_files,
            "error": record.error,
            "attempts": tally.attempts,
            "retry_count": tally.retry_count,
            "attempt": tally.attempt,
            # A crash may cost a process more; `check` holds how many there were.
            "result": result and replace(result, spawn_count=0),
            "ledger": [(row.attempt, row.outcome, row.summary, row.error) for row in attempts],
            "merged": list(dict.fromkeys(self.world.forge.merged_into_base)),
            "pull requests": [pull.state for pull in self.world.forge.pulls],
            "workspaces": sorted(self.world.spaces),
            "orders left": await self.store.pending(AGENT),
        }

    async def replayed(self, start: State | None = None) -> State:
        """Let the machine decide the whole journal once more."""
        policy = self.policy()
        state: State = start or Queued()
        for entry in await self.store.journal(AGENT):
            assert entry.before == type(state).__name__
            step = decide(state, entry.event, policy)
            assert step.late is entry.late
            state = step.state
            assert entry.after == type(state).__name__
        return state

    async def check(self, *, ends: bool = True) -> None:
        """Hold what must hold after any number of crashes, and at the end."""
        world = self.world
        assert world.doubled == [], "two agents were alive at once"
        assert world.alive() == [], "an agent was left alive"
        record = await self.store.get(AGENT)
        assert record is not None
        assert await self.replayed() == record.work
        assert record.work is not None
        assert record.work.tally.spawn_count == len(world.actors), "not all processes are counted"
        assert not ends or isinstance(record.work, (Completed, Rejected)) or self.result is not None


async def _opened(engine: Engine, agent: Agent, task: Task) -> LoopResult:
    await engine.start()
    return await engine.run(agent, task, resume=False)


@cache
def _builder() -> ContextBuilder:
    return ContextBuilder(Renderer(Path("/nonexistent")))


async def _settle() -> None:
    """Return when no task of this event loop can go on without the world."""
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]  # what is idle else?
    await asyncio.sleep(0)
    while ready:  # noqa: ASYNC110  # nothing tells of it
        await asyncio.sleep(0)


DEMO: Script = {
    1: [("commit", "x.txt"), ("say", {"type": "blocked", "blocked_on": ["ci"], "summary": "ci"}),
        ("exit", 0)],
    2: [("commit", "y.txt"), ("say", {"type": "pr_created", "summary": "a pull request"}),
        ("exit", 0)],
    3: [("say", {"type": "task_complete", "summary": "done"}), ("exit", 0)],
}  # fmt: skip


async def crowd(
    folder: Path,
    number: int,
    *,
    slots: int,
    like: Play | None = None,
) -> tuple[Play, list[LoopResult]]:
    """Play the demo story with many agents at once, with the engine of another play."""
    play = Play(Story(DEMO, settings={"max_live_agents": slots}), folder)
    if like is not None:
        play.make, play.settles = like.make, like.settles
    make = play.make
    clock = SteppedClock(play.world.now)
    engine = make(play._machine(Life(), clock))
    await engine.start()
    tasks = [Task(id=f"T{each:03}", verify=("test",)) for each in range(number)]
    runs = asyncio.gather(
        *(
            engine.run(Agent(agent_id=f"agent-{each.id}", command=("agent",)), each)
            for each in tasks
        )
    )
    while True:
        await play.settles()
        if runs.done():
            break
        if play.world.step():
            continue
        instant = clock.next_instant()
        assert instant is not None
        clock.advance(instant - clock.now())
    await engine.aclose()
    return play, runs.result()
