"""Has an agent draft a plan: one lifecycle per draft, which ends here and is never merged."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from lifecycle.engine.retention import RETIRED
from lifecycle.errors import PlanError
from lifecycle.machine.states import Completed
from orchestrator.cli.draft_by_runner import draft_by_runner
from orchestrator.cli.draft_lifecycle import (
    DraftFailedError,
    DraftOrder,
    closing,
    failure,
    is_closed,
    read_draft,
    waits_for,
)
from orchestrator.cli.draft_view import draft_view
from orchestrator.cli.run_loops import loop_through
from orchestrator.config.plans import chosen_agent
from orchestrator.control import requests
from orchestrator.control.commands import RUNS_ALL
from orchestrator.control.open_store import runner_of, store_of
from orchestrator.drafting.check import Surroundings
from orchestrator.drafting.draft_task import AGENT, TASK, is_draft, task_for
from orchestrator.runner.job_selection import names, startable, within_budgets
from orchestrator.runner.preflight import require_tools
from orchestrator.runner.workload import Job, Workload
from orchestrator.terminal import exits
from orchestrator.terminal.text import span, tell

if TYPE_CHECKING:
    from lifecycle.engine.engine import LocalEngine
    from lifecycle.record import AgentLifecycle
    from lifecycle.reporting import Committed
    from orchestrator.drafting.draft_task import DraftRequest
    from orchestrator.runner.workload import RunResult


class DraftRounds(DraftOrder):
    """The drafts of one command, one after the other."""

    def draft(self, request: DraftRequest) -> str:
        """Return the text of a draft; DraftFailedError or DraftAsksError where there is none.

        Where a runner is alive that takes up what is added, it drafts; else this process does.
        """
        runner = runner_of(self.context.repo)
        if runner is not None and str(runner.get("who")).startswith(RUNS_ALL):
            return asyncio.run(draft_by_runner(self, request))
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
            result = ending.results.get(AGENT)
            why = (result.error if result is not None else "") or ending.defects.get(AGENT, "")
            state = record.work if record is not None else None
            raise failure(state, *(watch.why or (why, ending.exit_code)))
        return text

    async def _work(self, engine: LocalEngine, request: DraftRequest, watch: _Watch) -> Workload:
        """Return the one loop to run; what a killed command left of an earlier draft goes first."""
        settings, store = self.context.settings(), engine.shared.store
        require_tools(settings)
        for former in await store.unfinished():
            if is_draft(former):
                await engine.ask(former.agent_id, closing(engine.shared.clock.now()))
            elif former.agent_id == AGENT:
                raise PlanError(
                    f"{AGENT} is at work on another task here, and drafts have this name; end it "
                    f"with `loopwright accept {AGENT}` or `loopwright reject {AGENT}`"
                )
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
                text, files = await read_draft(repo, record.work.head)
                self.around = replace(self.around, files=files)
        finally:
            async with store_of(repo) as store:
                self.used.add(await store.attempts(AGENT))
            if not is_closed(record.work):
                end = closing(requests.now())
                await requests.send(repo, AGENT, end, settings=self.context.settings())
        return record, text


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
        if news.agent_id == AGENT and work is not None and (found := waits_for(work, news.at)):
            self._end(*found)

    def _end(self, why: str, code: int) -> None:
        if self._ending is None and self._engine is not None:
            self.why = why, code
            self._ending = asyncio.get_running_loop().create_task(self._engine.shutdown())
