"""How a command reaches a lifecycle, whoever has the repository at the moment.

A live runner gets the request through the store; a stopped repository is locked and changed here,
by the same rules. No agent is ever started by a request.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from lifecycle.clock import SystemClock
from lifecycle.errors import LifecycleError, RepositoryBusyError
from lifecycle.masking import masked
from lifecycle.settings import Settings
from orchestrator import wiring
from orchestrator.reading import known, runner_of, store_of
from orchestrator.secrecy import masker_of

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.machine.events import Event

LOOK_EVERY = 0.05
"""Seconds between two looks for a runner's answer."""


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
    """Let a person's wish take effect; LifecycleError tells why it was refused.

    Returns once it is decided and recorded. What follows from it (a merge, the end of an agent) may
    still be under way when a live runner has it.
    """
    settings = settings or Settings()
    event = masked(event, masker_of(os.environ, settings.pass_env))
    async with store_of(repo) as store:
        agent_id = (await known(store, agent_id, repo)).agent_id
        request: int | None = None
        end = asyncio.get_running_loop().time() + wait_s
        while True:
            runner = runner_of(repo)
            if runner is None:
                # Also when a runner went away without an answer: the request is still open.
                try:
                    return await _apply(repo, agent_id, event, request, settings)
                except RepositoryBusyError:
                    pass
            elif request is None:
                request = await store.ask(agent_id, event)
            if request is not None:
                problem = await store.request_outcome(request)
                if problem:
                    raise LifecycleError(problem)
                if problem is not None:
                    return None
            if asyncio.get_running_loop().time() > end:
                raise UnansweredError(_unanswered(runner or {}, wait_s))
            await asyncio.sleep(LOOK_EVERY)


async def _apply(
    repo: Path, agent_id: str, event: Event, request: int | None, settings: Settings
) -> None:
    loop = wiring.build(repo, settings=lambda: settings, who=f"a request for {agent_id}")
    async with loop.opened() as engine:
        if request is not None:
            outcome = await engine.parts.store.request_outcome(request)
            if outcome is not None:
                if outcome:
                    raise LifecycleError(outcome)
                return
        await engine.apply(agent_id, event, request=request)


def _unanswered(runner: dict[str, Any], wait_s: float) -> str:
    return (
        f"the runner (pid {runner.get('pid', '?')}) did not answer within {wait_s:g} s; the "
        "request stays, and is carried out as soon as it looks or by the next runner"
    )


def now() -> float:
    """Return the instant to put on a request."""
    return SystemClock().now()
