"""One call of `run` or `up`, from the opening of the repository to its exit code.

Owns what is served beside the loops, and in which order all of it begins and ends; which loops run
and what follows their ends is `service`.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING

from lifecycle.fleet.supervisor.scope import CancelScope
from lifecycle.machine.runner_orders import DeliveriesOrder, PullRequestOrder
from lifecycle.result import LoopResultType
from lifecycle.store.damaged_records import RecordDamagedError
from orchestrator.background.own_output import output_file
from orchestrator.notify.channels import ChannelSender, ring_terminal
from orchestrator.notify.notifier import Notifier
from orchestrator.runner import document_migration, pull_requests
from orchestrator.runner.server_interface import RunnerPort
from orchestrator.runner.service import Service
from orchestrator.runner.signals import SignalHandler
from orchestrator.runner.webhooks import WebhookPipeline
from orchestrator.tasks.ticker import Ticker
from orchestrator.telemetry.listener import telemetry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from ci.webhooks.receiver import Receiver
    from lifecycle.engine.engine import LocalEngine
    from lifecycle.fleet.supervisor.supervisor import Supervisor
    from lifecycle.loop import AgentLifecycleLoop
    from lifecycle.ports import Bring
    from orchestrator.approval.approvals import Approvals
    from orchestrator.runner.process_share import ProcessShare
    from orchestrator.runner.providers import Providers
    from orchestrator.runner.server_interface import Beside
    from orchestrator.runner.workload import RunResult, Workload
    from orchestrator.wording.live_view import LiveView


async def run_session(  # noqa: PLR0913  # all by name
    loop: AgentLifecycleLoop,
    work: Callable[[LocalEngine], Awaitable[Workload]],
    *,
    view: LiveView,
    providers: Providers,
    revives: bool,
    approvals: Approvals | None = None,
    share: ProcessShare | None = None,
    bring: Bring | None = None,
) -> RunResult:
    """Open the repository, run what there is to run, and leave nothing behind.

    `work` is asked once the repository is ours; `share` is what it has in common with others of
    this process; `bring` fetches what workers pushed. RepositoryBusyError names another runner.
    """
    listening = SignalHandler(view.note) if share is None else nullcontext(share.signals)
    with listening as signals:
        try:
            async with loop.opened() as engine, AsyncExitStack() as over:
                view.attach(engine)
                machine, bases = engine.machine, engine.shared.base_commits
                machine.bring = bases.bring = bring
                bases.watch = machine.work_watch
                _announce(engine, share)
                if share is not None:
                    share.day.joined(share.name, engine.shared.accounts)
                    engine.shared.accounts.shared = share.day
                service = Service(engine, view, signals, revives=revives, approvals=approvals)
                signals.attach(service)
                over.callback(signals.detach, service)
                await document_migration.take_over(engine.shared.store, engine.shared.clock.now)
                given = await work(engine)
                service.ending.damaged = given.damaged
                async with (
                    _notifier(engine, signals),
                    telemetry(engine),
                    Ticker(engine, view.note),
                    _served(engine, providers, view.note, given.beside) as receiver,
                ):
                    runner = partial(
                        RunnerPort,
                        engine,
                        service.audit,
                        view.note,
                        receiver=receiver,
                        budgets=providers.budgets,
                        draining=lambda: bool(signals.number),
                    )
                    async with _beside(given.beside, runner, service.supervisor):
                        await service.run(given)
                # What a person asked for at the last moment shows in the records.
                ending = service.ending
                held = {each.agent_id: each for each in given.held}
                for agent_id in {**ending.results, **held}:
                    known = held if agent_id not in ending.results else ending.records
                    with suppress(RecordDamagedError):  # it stays known as it was
                        record = await engine.shared.store.get(agent_id)
                        if record is not None:
                            known[agent_id] = record
                ending.held = tuple(
                    record for record in held.values() if record.agent_id not in ending.results
                )
        finally:
            await view.close()
        shut_down = any(
            result.result_type is LoopResultType.SHUTDOWN for result in ending.results.values()
        )
        if signals.number and (shut_down or given.stays or not ending.results):
            ending.signal_code = signals.exit_code
        return ending


def _announce(engine: LocalEngine, share: ProcessShare | None) -> None:
    """Tell other programs where our output goes, and who ends with us."""
    log = output_file()
    facts = {"log": log} if log else {}
    others = {"repositories": share.repositories} if share is not None else {}
    engine.shared.announce(**facts, **others)


def _notifier(engine: LocalEngine, signals: SignalHandler) -> Notifier:
    """Return what tells people of what needs them, while the loops run and at their end."""
    machine = engine.machine
    sender = ChannelSender(
        repo=machine.repo,
        environ=os.environ,
        commands=machine.own_commands,
        now=engine.shared.clock.now,
        ring=ring_terminal,
    )
    return Notifier(engine, sender, signalled=lambda: bool(signals.number))


@asynccontextmanager
async def _served(
    engine: LocalEngine, providers: Providers, tell: Callable[[str], None], beside: Beside | None
) -> AsyncIterator[Receiver | None]:
    """Serve what people ask of the runner itself; webhooks where some can come, or are handed in.

    Gives the receiver of webhooks, if there is one from the beginning.
    """
    async with AsyncExitStack() as stack:
        started: list[WebhookPipeline] = []

        async def webhooks() -> WebhookPipeline:
            if not started:
                started.append(WebhookPipeline(engine, providers))
                await stack.enter_async_context(started[0])
            return started[0]

        async def look(_order: DeliveriesOrder) -> tuple[str, str]:
            (await webhooks()).wake()
            return "", ""

        receiver = None
        if beside is not None or providers.provider is not providers.local:
            receiver = (await webhooks()).receiver
        merges = pull_requests.server(providers.provider, tell, engine.shared.masker)
        engine.inbox.serve(PullRequestOrder, merges)
        engine.inbox.serve(DeliveriesOrder, look)
        try:
            yield receiver
        finally:
            await engine.inbox.break_off()


@asynccontextmanager
async def _beside(
    beside: Beside | None, runner: Callable[[], RunnerPort], supervisor: Supervisor
) -> AsyncIterator[None]:
    """Let something run beside the loops; it ends with them, or when they are told to end.

    What breaks it ends the loops, and is raised once they have ended.
    """
    if beside is None:
        yield
        return
    over = CancelScope(supervisor.main)
    running = asyncio.get_running_loop().create_task(
        beside.run(runner(), over.wait), name="beside the loops"
    )

    def broken(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            supervisor.shutdown("the server failed", exit_code=1)

    running.add_done_callback(broken)
    try:
        yield
    finally:
        over.cancel()
        await running
