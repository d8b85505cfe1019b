"""How a command reaches a lifecycle, with or without a live runner.

A live runner gets the request through the store; a stopped repository is locked and changed here,
by the same rules. No agent is ever started by a request.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING

from lifecycle.audit import Audit
from lifecycle.clock import SystemClock
from lifecycle.engine.elsewhere import require_no_worker
from lifecycle.engine.operation_log import OPERATIONS, write_note
from lifecycle.errors import LifecycleError, RepositoryBusyError
from lifecycle.machine.runner_orders import OperationNote
from lifecycle.mask_values import masked
from lifecycle.paths import Paths
from lifecycle.record import Reply
from lifecycle.settings import Settings
from lifecycle.store.lock import REQUEST
from lifecycle.store.rows.audit import action_of
from orchestrator.config.known_secrets import masker_of
from orchestrator.control.open_store import known, runner_of, store_of
from orchestrator.control.runner_log import RunnerLog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from lifecycle.machine.events import Event, PersonEvent
    from lifecycle.store.sqlite.store import SqliteStore
    from runtime.masking.masker import Masker

LOOK_EVERY = 0.05
"""Seconds between two looks for a runner's answer."""
DONE = Reply(begun=True, answered=True)
STAYS = "the request stays, and is carried out as soon as it looks or by the next runner"


class UnansweredError(LifecycleError):
    """A live runner did not answer in time."""


async def send(
    repo: Path,
    agent_id: str,
    event: Event,
    *,
    wait_s: float = 10.0,
    settings: Settings | None = None,
) -> None:
    """Carry out a person's request; LifecycleError says why it was refused.

    Returns once it is decided and recorded. What follows from it (a merge, the end of an agent) may
    still be under way when a live runner has it.
    """
    settings = settings or Settings()
    event = masked(event, masker_of(os.environ, settings.pass_env))
    async with store_of(repo) as store:
        agent_id = (await known(store, agent_id, repo)).agent_id

        async def here(request: int) -> Reply:
            require_no_worker(await known(store, agent_id, repo))
            await _apply(repo, agent_id, event, request or None, settings)
            return DONE

        reply = await answer_to(
            store, repo, partial(store.ask, agent_id, event), here, wait_s=wait_s, unanswered=STAYS
        )
        if reply.problem:
            raise LifecycleError(reply.problem)


async def refuse(  # noqa: PLR0913  # the last by name
    repo: Path,
    store: SqliteStore,
    agent_id: str,
    event: PersonEvent,
    reason: str,
    *,
    settings: Settings,
) -> None:
    """Record and log a request that is refused before any lifecycle could know of it."""
    masker = masker_of(os.environ, settings.pass_env)
    await Audit(store.trail, now=now, masker=masker).record(
        action_of(event), event.by or "somebody", agent_id, "refused", reason
    )
    note = OperationNote(
        at=event.at,
        by=event.by,
        operation=OPERATIONS[type(event)],
        agent_name=agent_id,
        refused=reason,
    )
    await leave_note(repo, store, note, masker)


async def leave_note(repo: Path, store: SqliteStore, note: OperationNote, masker: Masker) -> None:
    """Have the live runner log what a command did by itself; without one, log it here."""
    if runner_of(repo) is not None:
        await store.ask(None, masked(note, masker))
        return
    with closing(RunnerLog(Paths.of(repo).root, now=now, masker=masker)) as log:
        write_note(log.report, note, turn=0)


async def answer_to(  # noqa: PLR0913  # the last by name
    store: SqliteStore,
    repo: Path,
    ask: Callable[[], Awaitable[int]],
    here: Callable[[int], Awaitable[Reply]],
    *,
    wait_s: float,
    unanswered: str,
) -> Reply:
    """Ask the live runner and wait for its answer; without one, carry it out `here`.

    `here` gets the request that a runner left without an answer when it went away, or 0.
    """
    clock, request = asyncio.get_running_loop().time, 0
    end = clock() + wait_s
    while True:
        runner = runner_of(repo)
        if runner is None:
            with suppress(RepositoryBusyError):
                return await here(request)
        elif not request:
            request = await ask()
        if request:
            reply = await store.reply(request)
            if reply.answered:
                return reply
            if reply.begun and runner is not None:
                end = clock() + wait_s  # it may take long
        if clock() > end:
            raise UnansweredError(
                f"the runner (pid {(runner or {}).get('pid', '?')}) did not answer within "
                f"{wait_s:g} s; {unanswered}"
            )
        await asyncio.sleep(LOOK_EVERY)


async def _apply(
    repo: Path, agent_id: str, event: Event, request: int | None, settings: Settings
) -> None:
    from orchestrator import wiring  # noqa: PLC0415  # a live runner has a loop of its own
    from orchestrator.telemetry.listener import telemetry  # noqa: PLC0415  # as above

    masker = masker_of(os.environ, settings.pass_env)
    with closing(RunnerLog(Paths.of(repo).root, now=now, masker=masker)) as log:
        loop = wiring.build(
            repo,
            settings=lambda: settings,
            who=f"{REQUEST} for {agent_id}",
            report=log.report,
            masker=masker,
        )
        async with loop.opened() as engine, telemetry(engine):
            if request is not None:
                outcome = await engine.shared.store.request_outcome(request)
                if outcome is not None:
                    if outcome:
                        raise LifecycleError(outcome)
                    return
            await engine.ask(agent_id, event, request=request)


def now() -> float:
    """Return the instant to put on a request."""
    return SystemClock().now()
