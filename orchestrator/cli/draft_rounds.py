"""Has an agent draft a plan: one lifecycle per draft, which ends here and is never merged."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lifecycle.engine.retention import RETIRED
from lifecycle.errors import LifecycleError, PlanError
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    About,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Completed,
    PrPending,
    Reason,
    Rejected,
)
from lifecycle.paths import Paths
from orchestrator.cli.draft_view import draft_view
from orchestrator.cli.run_loops import loop_through
from orchestrator.config.plans import MOST_BYTES, chosen_agent
from orchestrator.control import requests
from orchestrator.control.open_store import store_of
from orchestrator.drafting.check import Surroundings
from orchestrator.drafting.draft_task import AGENT, FILE, TASK, is_draft, task_for
from orchestrator.runner.job_selection import names, startable, within_budgets
from orchestrator.runner.preflight import require_tools
from orchestrator.runner.workload import Job, Workload
from orchestrator.terminal import exits
from orchestrator.terminal.options import user
from orchestrator.terminal.text import instant, one_line, span, tell
from runtime.git.git import Git

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.engine.engine import LocalEngine
    from lifecycle.machine.states import State
    from lifecycle.record import AgentLifecycle
    from lifecycle.reporting import Committed
    from orchestrator.cli.run_loops import CommandContext
    from orchestrator.drafting.draft_task import DraftRequest
    from orchestrator.runner.workload import RunResult

NOT_MERGED = "a draft of a plan is not merged"
_LAST = "the last: "
_PLAIN_FILES = ("100644", "100755")


class DraftFailedError(LifecycleError):
    """There is no draft; the text says why."""

    def __init__(self, text: str, code: int, *, by_signal: bool = False) -> None:
        super().__init__(text)
        self.code, self.by_signal = code, by_signal


class DraftAsksError(LifecycleError):
    """The agent asks something before it can draft."""


@dataclass(slots=True)
class DraftUsage:
    """What all drafts of a command used."""

    attempts: int = 0
    tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0

    def to_json(self) -> dict[str, int | float | None]:
        """Return plain values; an unknown cost is null."""
        return {
            "attempts": self.attempts,
            "tokens": self.tokens,
            "cost_usd": self.cost_usd,
            "seconds": round(self.seconds, 3),
        }


@dataclass(slots=True)
class DraftRounds:
    """The drafts of one command."""

    context: CommandContext
    adapter: str | None = None
    command: str | None = None
    timeout: float = 1200.0
    """Seconds that an agent may take for one draft; 0 for no limit."""
    plain: bool = False
    used: DraftUsage = field(default_factory=DraftUsage)
    around: Surroundings = field(default_factory=Surroundings)
    """What the newest draft has to fit."""

    def draft(self, request: DraftRequest) -> str:
        """Return the text of a draft; DraftFailedError or DraftAsksError where there is none."""
        watch = _Watch(self.timeout)

        async def work(engine: LocalEngine) -> Workload:
            return await self._work(engine, request, watch)

        async def drafted() -> tuple[RunResult, AgentLifecycle | None, str]:
            ending = await loop_through(
                self.context,
                work,
                who="loopwright plan",
                plain=self.plain,
                view=draft_view(self.used.attempts + 1, plain=self.plain),
                revives=False,
                here_only=True,
            )
            return ending, *await self._closed(ending)

        ending, record, text = asyncio.run(drafted())
        if ending.signal_code:
            text = "ended by a signal: no plan is written"
            raise DraftFailedError(text, ending.signal_code, by_signal=True)
        if not text:
            raise _failure(ending, record, watch.why)
        return text

    async def _work(self, engine: LocalEngine, request: DraftRequest, watch: _Watch) -> Workload:
        """Return the one loop to run; what a killed command left of an earlier draft goes first."""
        settings, store = self.context.settings(), engine.shared.store
        require_tools(settings)
        former = await store.get(AGENT)
        if former is not None and not former.is_over:
            if not is_draft(former):
                raise PlanError(
                    f"{AGENT} is at work on another task here, and drafts have this name; end it "
                    f"with `loopwright accept {AGENT}` or `loopwright reject {AGENT}`"
                )
            await engine.ask(AGENT, _closing(engine.shared.clock.now()))
        taken = {task for _, task in await names(store)} | set(await store.all(RETIRED))
        task = task_for(request, settings.verify, taken - {TASK})
        agent = chosen_agent(TASK, settings, adapter=self.adapter, command=self.command)
        startable(agent)
        job = Job(agent, task, after_reject=True)
        within_budgets(engine, (job,), (), settings, None if self.used.attempts else tell)
        self.around = Surroundings((), taken - {TASK}, bool(settings.setup))
        watch.begin(engine)
        return Workload((job,))

    async def _closed(self, ending: RunResult) -> tuple[AgentLifecycle | None, str]:
        """Read the draft, count what it used, and end its lifecycle; returns record and draft."""
        record = ending.records.get(AGENT)
        if record is None:
            return None, ""
        repo, text = self.context.repo, ""
        try:
            if isinstance(record.work, Completed):
                text = await self._read(record.work.head)
        finally:
            await self._count(repo)
            if not (isinstance(record.work, Rejected) and record.work.reason is Reason.PERSON):
                closing = _closing(requests.now())
                await requests.send(repo, AGENT, closing, settings=self.context.settings())
        return record, text

    async def _read(self, head: str) -> str:
        """Return the draft in a commit; PlanError says why it cannot be read."""
        git, repo = Git(home=Paths.of(self.context.repo).root / "git"), self.context.repo
        listed = await git.run("ls-tree", "-z", "-l", head, "--", FILE, cwd=repo)
        mode, _, blob, size = listed.stdout.partition(b"\t")[0].decode().split() or ("",) * 4
        if mode not in _PLAIN_FILES:
            raise PlanError(f"the agent says it is done, and {FILE} is no plain file in its commit")
        if int(size) > MOST_BYTES:
            raise PlanError(f"the draft has {int(size) // 1024} KiB: at most {MOST_BYTES // 1024}")
        files = await git.run("ls-tree", "-r", "-z", "--name-only", head, cwd=repo)
        kept = frozenset(files.stdout.decode(errors="surrogateescape").split("\0"))
        self.around = Surroundings(kept, self.around.taken, self.around.has_setup)
        found = await git.run("cat-file", "blob", blob, cwd=repo)
        try:
            return found.stdout.decode("utf-8")
        except UnicodeDecodeError as problem:
            raise PlanError(f"the draft is not UTF-8: {problem}") from problem

    async def _count(self, repo: Path) -> None:
        async with store_of(repo) as store:
            for row in await store.attempts(AGENT):
                used = row.used
                self.used.attempts += 1
                self.used.tokens += used.tokens
                self.used.seconds += used.seconds
                if used.cost_usd is not None:
                    self.used.cost_usd = (self.used.cost_usd or 0.0) + used.cost_usd


class _Watch:
    """Ends a draft that would wait for something that does not come while a person waits for it."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._ending: asyncio.Task[None] | None = None
        self._engine: LocalEngine | None = None
        self.why: tuple[str, int] | None = None
        """What ended it, and the exit code for that."""

    def begin(self, engine: LocalEngine) -> None:
        """Watch from now on."""
        self._engine = engine
        engine.shared.observers.append(self._heard)
        if self._timeout:
            told = f"the agent took longer than {span(self._timeout)} (--timeout)"
            loop = asyncio.get_running_loop()
            loop.call_later(self._timeout, self._end, told, exits.LIMIT_REACHED)

    def _heard(self, news: Committed) -> None:
        work = news.record.work
        if news.agent_id == AGENT and work is not None and (found := _waits(work, news.at)):
            self._end(*found)

    def _end(self, why: str, code: int) -> None:
        if self._ending is None and self._engine is not None:
            self.why = why, code
            self._ending = asyncio.get_running_loop().create_task(self._engine.shutdown())


def _waits(work: State, at: float) -> tuple[str, int] | None:
    """Return what a draft waits for, if nobody should wait for that here, and the exit code."""
    match work:
        case BackingOff() if work.tally.resting:
            until = instant(work.until, at)
            return f"the agent program cannot work before {until}: {work.why}", exits.LIMIT_REACHED
        case Blocked():
            thing = work.word.reason or ", ".join(work.word.blocked_on)
            return f"the agent is blocked: {one_line(thing, 200)}", exits.BLOCKED
        case PrPending():
            return "the agent says that it opened a pull request, and drafted nothing", exits.FAILED
        case _:
            return None


def _failure(
    ending: RunResult, record: AgentLifecycle | None, ended: tuple[str, int] | None
) -> LifecycleError:
    work = record.work if record is not None else None
    if isinstance(work, AwaitingHuman) and work.about is About.QUESTION:
        return DraftAsksError(work.text)
    if ended is not None:
        return DraftFailedError(*ended)
    result = ending.results.get(AGENT)
    why = (result.error if result is not None else "") or ending.defects.get(AGENT, "")
    if isinstance(work, Rejected) and work.reason is Reason.MAX_RETRIES:
        # There is one attempt for each draft: how many are left says nothing.
        return DraftFailedError(f"no draft: {why.rpartition(_LAST)[2]}", exits.FAILED)
    return DraftFailedError(why or "the agent drafted nothing", ending.exit_code or exits.FAILED)


def _closing(at: float) -> on.RejectRequested:
    return on.RejectRequested(at=at, by=user(), why=NOT_MERGED)
