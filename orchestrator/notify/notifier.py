"""Finds what people must be told in the decisions of a runner, and stores it before it is sent.

Listens to committed facts; what was committed while nobody listened is found at the start. Must not
keep a loop waiting or change anything: what goes wrong here is reported, and the loops go on.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Self

from lifecycle.errors import LifecycleError, StoreError
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    Accepted,
    AwaitingHuman,
    Blocked,
    Completed,
    Rejected,
    Suspended,
    Working,
)
from lifecycle.mask_values import masked
from lifecycle.needs_person import only_a_person
from lifecycle.notify.message import RUNNER_STOPPED, USAGE_LIMIT, Notification, id_of
from lifecycle.plan import Task
from lifecycle.record import Filter
from orchestrator.approval.records import PROPOSED
from orchestrator.notify import budgets, findings
from orchestrator.notify.outbox import Outbox, names_for
from orchestrator.notify.reminders import reminder_of
from orchestrator.notify.secret_values import secrets_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from types import TracebackType

    from lifecycle.clock import Timer
    from lifecycle.engine.engine import LocalEngine
    from lifecycle.machine.states import State
    from lifecycle.record import AgentLifecycle
    from lifecycle.reporting import Committed
    from lifecycle.settings import Settings
    from orchestrator.notify.channels import ChannelSender

MEMORY = "notify"
"""Collection of what a runner remembers: until when it looked, what runs, since when it works."""
SETTLES = 2.0
"""Seconds after which it is believed that nobody but a person moves something on."""
LIMIT_OVER_AFTER = 60.0
"""Seconds that an attempt works after which a usage limit counts as over."""
SLACK = 120.0
"""Seconds by which instants of facts may come in another order than their commits."""
STORE_RETRY = 5.0
"""Seconds until what could not be stored is stored again."""
_LOOKS_AT = on.AgentSpawned | on.SnapshotTaken
"""At which facts a runner without a channel looks whether there is one now."""
KEPT = 30 * 86_400.0
"""Seconds that notifications are kept which wait for no channel."""


class Notifier:
    """Listens while the loops of a runner run; `async with` begins and ends it."""

    def __init__(
        self, engine: LocalEngine, sender: ChannelSender, *, signalled: Callable[[], bool]
    ) -> None:
        self._engine, self._shared = engine, engine.shared
        self._sender, self._signalled = sender, signalled
        self.outbox = Outbox(self._shared, sender)
        self._queue: deque[Callable[[], Awaitable[None]]] = deque()
        self._working: asyncio.Task[None] | None = None
        self._again, self._ending = asyncio.Event(), asyncio.Event()
        self._timers: dict[str, Timer] = {}
        self._blocked: set[str] = set()
        """Who is looked at soon."""
        self._told: set[str] = set()
        """Ids that are stored, as far as this runner stored them."""
        self._limits: dict[str, Notification] = {}
        """Usage limits that are met and not yet over."""
        self._episode: float | None = None
        """Since when there was work of which the end was not told."""
        self._began = self._shared.clock.now()
        self._is_used = False
        """Whether there was a channel since this runner began."""
        self._settings: Settings | None = None

    async def __aenter__(self) -> Self:
        shared = self._shared
        if shared.settings().notify:
            self._is_used = True
            if not await self._safely(self._begin):
                self._later(self._begin)
        shared.observers.append(self.news)
        shared.accounts.watch = self._used
        shared.unplaced = self._unplaced
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        shared = self._shared
        if self.news in shared.observers:
            shared.observers.remove(self.news)
        for timer in self._timers.values():
            timer.cancel()
        try:
            self._engine.require_ground()
        except LifecycleError as gone:
            problem = gone
        if not self._is_used:
            return
        if isinstance(problem, Exception):
            self._later(partial(self._stopped, str(problem) or type(problem).__name__))
        elif problem is None and not self._signalled():
            for agent_id in tuple(self._blocked):
                self._later(partial(self._still_blocked, agent_id))
            self._later(self._all_done)
        self._ending.set()
        while self._working is not None:
            await self._working
        await self._safely(self._end)
        await self.outbox.aclose(self._signalled)

    # --- beginning and end --------------------------------------------------------------------

    async def _begin(self) -> None:
        """Look what was committed while nobody listened, and send what was left."""
        store = self._shared.store
        self._learn()
        await store.notifications.prune(self._began - KEPT)
        known = await store.all(MEMORY)
        first = "seen" not in known
        # The clock may have been set back since.
        since = min(float(known.get("seen", {}).get("at", self._began)), self._began) - SLACK
        episode = known.get("episode")
        if episode is not None:
            self._episode = float(episode["since"])
        for met in await store.notifications.unended(USAGE_LIMIT, "met"):
            self._limits[met.about] = met
        if "running" in known:
            await self._tell(findings.killed(float(known["running"]["since"]), self._began))
        await store.put(MEMORY, "running", {"since": self._began, "pid": os.getpid()})
        if not first:
            async for record in store.every(Filter(current=True, updated_after=since)):
                await self._look_at(record)
        await self._look_at_proposals(silent=first)
        await store.put(MEMORY, "seen", {"at": self._began})
        self.outbox.wake(await store.notifications.channels_waiting())
        if self._episode is not None:
            # Whoever was killed may have told of everything but of the end.
            self._soon("everything is done", lambda: self._later(self._all_was_done))

    async def _look_at(self, record: AgentLifecycle) -> None:
        """Tell of what may have been decided about it while nobody listened."""
        if isinstance(record.work, Blocked):
            self._look_soon_at(record.agent_id)  # what it waits for may just begin
        elif self._is_for_people(record):
            await self._tell(findings.of_record(record, self._began))
        if findings.limit_of(record):
            await self._limited(record)
        if (given := record.facts.get("task")) is None:
            return
        await self._shared.accounts.meet(record.agent_id)
        for found in budgets.reached(self._shared, record, Task.model_validate(given)):
            await self._tell(found)

    async def _end(self) -> None:
        store = self._shared.store
        await store.remove(MEMORY, "running")
        await store.put(MEMORY, "seen", {"at": self._shared.clock.now()})

    async def _stopped(self, problem: str) -> None:
        """Tell that the runner ends by itself, also where nothing can be stored any more."""
        found = Notification(
            id=id_of(RUNNER_STOPPED, self._began),
            at=self._shared.clock.now(),
            type=RUNNER_STOPPED,
            text=f"The runner stopped by itself: {' '.join(problem.split())[:400]}",
            command="loopwright up",
        )
        try:
            self._engine.require_ground()
            await self._tell(found)
        except LifecycleError:
            found = masked(found, self._shared.masker)
            await self.outbox.send_unstored(found, self._signalled)

    # --- what is heard ------------------------------------------------------------------------

    def _has_channels(self) -> bool:
        """Tell whether anything is to be told; the first channel begins with what was before."""
        if self._shared.settings().notify:
            self._is_used = True
            self._later(self._begin)
            self._work_since(self._began)
        return self._is_used

    def _work_since(self, at: float) -> None:
        if self._episode is None:
            self._episode = at
            self._later(partial(self._shared.store.put, MEMORY, "episode", {"since": at}))

    def news(self, news: Committed) -> None:
        """Take note of a decision; an `Observer`."""
        if self._is_used or (isinstance(news.fact, _LOOKS_AT) and self._has_channels()):
            self._heard(news)

    def _heard(self, news: Committed) -> None:
        record, fact, work = news.record, news.fact, news.record.work
        if isinstance(fact, on.SnapshotTaken):
            self._later(partial(self._look_at_proposals, silent=False))
        if isinstance(fact, on.AgentSpawned):
            self._spawned(record)
        if news.before == news.after:
            if (again := reminder_of(news)) is not None:
                self._later(partial(self._tell, again))
            return
        if isinstance(work, AwaitingHuman | Rejected):
            self._later(partial(self._tell, findings.of_record(record, news.at)))
        elif isinstance(work, Blocked):
            self._look_soon_at(record.agent_id)
        if findings.limit_of(record):
            self._later(partial(self._limited, record))
        elif self._limits and news.before == "Capturing" and work is not None:
            self._limit_passed(record)
        if self._at_rest(work):
            self._soon("everything is done", lambda: self._later(self._all_done))

    def _used(self, agent_id: str) -> None:
        """Look at the budgets after an attempt used something."""
        local = self._engine.running().get(agent_id)
        if local is None or not self._is_used:
            return
        for found in budgets.reached(self._shared, local.record, local.task):
            if found.id not in self._told:
                self._told.add(found.id)
                self._later(partial(self._tell, found))

    def _unplaced(self, tasks: Sequence[str], missing: str, episode: str) -> None:
        found = findings.unplaced(tasks, missing, episode, self._shared.clock.now())
        if found.id not in self._told and (self._is_used or self._has_channels()):
            self._told.add(found.id)
            self._later(partial(self._tell, found))

    def _spawned(self, record: AgentLifecycle) -> None:
        self._work_since(self._shared.clock.now())
        about = findings.LIMIT.format(findings.program_of(record))
        if about in self._limits:
            works = partial(self._still_works, record.agent_id)
            self._soon(f"limit {record.agent_id}", works, LIMIT_OVER_AFTER)

    def _look_soon_at(self, agent_id: str) -> None:
        """Tell of one that is blocked, unless something but a person moves it on by then."""
        self._blocked.add(agent_id)
        look = partial(self._still_blocked, agent_id)
        self._soon(f"blocked {agent_id}", partial(self._later, look))

    async def _still_blocked(self, agent_id: str) -> None:
        self._blocked.discard(agent_id)
        local = self._engine.running().get(agent_id)
        record = await self._shared.store.get(agent_id) if local is None else local.record
        if record is not None and self._is_for_people(record):
            await self._tell(findings.of_record(record, self._shared.clock.now()))

    def _still_works(self, agent_id: str) -> None:
        local = self._engine.running().get(agent_id)
        if local is not None and isinstance(local.record.work, Working):
            self._limit_passed(local.record)

    def _limit_passed(self, record: AgentLifecycle) -> None:
        met = self._limits.pop(findings.LIMIT.format(findings.program_of(record)), None)
        if met is not None:
            self._later(partial(self._tell, findings.limit_over(met, self._shared.clock.now())))

    # --- what is told -------------------------------------------------------------------------

    async def _tell(self, found: Notification | None) -> None:
        """Store it for the channels that take it, unless it was stored before; then send it."""
        if found is None:
            return
        shared = self._shared
        self._learn()
        names = names_for(found, self.outbox.channels())
        shared.checkpoint("before notification is stored")
        kept = masked(found, shared.masker)
        added = await shared.store.notifications.add(kept, names, due_at=shared.clock.now())
        self._told.add(found.id)
        shared.checkpoint("after notification is stored")
        if added:
            shared.report(
                "notification_stored", notification=found.id, what=found.name, channels=names
            )
            self.outbox.wake(names)

    async def _limited(self, record: AgentLifecycle) -> None:
        about = findings.limit_of(record)
        if about and about not in self._limits:
            met = findings.limit_met(record, self._shared.clock.now())
            self._limits[about] = met
            await self._tell(met)

    async def _look_at_proposals(self, *, silent: bool) -> None:
        """Tell of settings that the work of agents would change, once for each set of changes."""
        shared, by_agent = self._shared, dict[str, list[str]]()
        open_ones: dict[str, list[str]] = {}
        for key, body in (await shared.store.all(PROPOSED)).items():
            agent_id = str(body.get("agent_id", ""))
            by_agent.setdefault(agent_id, []).append(key)
            if not body.get("settled") and not str(body.get("cell", "")).endswith("*"):
                name = str(body["cell"]).rpartition("#")[2] or str(body["cell"]).rstrip("#")
                open_ones.setdefault(agent_id, []).append(name)
        for agent_id, names in open_ones.items():
            keys = by_agent[agent_id]
            found = findings.settings_changed(agent_id, keys, names, shared.clock.now())
            if found.id in self._told:
                continue
            if silent:
                await shared.store.notifications.add(found, (), due_at=found.at)
            else:
                await self._tell(found)

    async def _all_was_done(self) -> None:
        """Tell how everything ended where the last runner did not come to that."""
        if all(self._at_rest(record.work) for record in await self._of_episode()):
            await self._all_done()

    async def _of_episode(self) -> list[AgentLifecycle]:
        if self._episode is None:
            return []
        which = Filter(current=True, updated_after=self._episode - SLACK)
        return [record async for record in self._shared.store.every(which)]

    async def _all_done(self) -> None:
        """Tell once how everything ended, where nothing is left that goes on by itself."""
        store, since = self._shared.store, self._episode
        works = [local.record.work for local in self._engine.running().values()]
        if since is None or self._signalled() or not all(map(self._at_rest, works)):
            return
        records = await self._of_episode()
        now, asks = self._shared.clock.now(), self._asks_of
        found = findings.digest(records, since, now, asks=asks)
        if found is None:
            return
        self._episode = None
        await self._tell(found)
        await store.remove(MEMORY, "episode")

    # --- what it does that with ---------------------------------------------------------------

    def _is_for_people(self, record: AgentLifecycle) -> bool:
        return isinstance(record.work, Rejected) or self._asks_of(record)

    def _asks_of(self, record: AgentLifecycle) -> bool:
        return record.work is not None and self._asks_people(record.work)

    def _asks_people(self, work: State) -> bool:
        shared = self._shared
        return only_a_person(
            work,
            running=shared.running.values(),
            completed=shared.completed,
            has_ci=shared.ci is not None,
        )

    def _at_rest(self, work: State | None) -> bool:
        if isinstance(work, Completed):
            return not work.merging
        ended = isinstance(work, Accepted | Rejected | Suspended)
        return ended or (work is not None and self._asks_people(work))

    def _learn(self) -> None:
        """Teach the masker what of the channels is secret, as soon as the settings change."""
        settings = self._shared.settings()
        if settings is not self._settings:
            self._settings = settings
            sender = self._sender
            self._shared.masker.learn(
                secrets_of(settings.notify, repo=sender.repo, environ=sender.environ)
            )

    def _soon(self, key: str, call: Callable[[], None], seconds: float = SETTLES) -> None:
        """Call back in a while; what was to be called back under the same key is not."""
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()

        def now() -> None:
            self._timers.pop(key, None)
            call()

        clock = self._shared.clock
        self._timers[key] = clock.call_at(clock.now() + seconds, now)

    def _later(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do it beside the loops, after what was asked for before."""
        self._queue.append(work)
        if self._working is None:
            self._working = asyncio.get_running_loop().create_task(
                self._work_off(), name="notifications"
            )

    async def _work_off(self) -> None:
        while self._queue:
            if not await self._safely(self._queue[0]) and not self._ending.is_set():
                await self._pause(STORE_RETRY)  # that the store fails is told by who decides
                continue
            self._queue.popleft()
        self._working = None

    async def _pause(self, seconds: float) -> None:
        clock = self._shared.clock
        timer = clock.call_at(clock.now() + seconds, self._again.set)
        self._again.clear()
        waits = [asyncio.ensure_future(each.wait()) for each in (self._again, self._ending)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            for each in waits:
                each.cancel()

    async def _safely(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Do it; False where the store failed, so that it is to be done again.

        What was not stored when a runner ends is found by the next one.
        """
        try:
            await work()
        except StoreError:
            return False
        except Exception as problem:  # noqa: BLE001  # whatever it is, the loops go on
            self._failed(f"{type(problem).__name__}: {problem}")
        return True

    def _failed(self, reason: str, channel: str = "") -> None:
        reason = self._shared.masker.mask(reason)
        self._shared.report("notify_failed", channel=channel, reason=reason)
