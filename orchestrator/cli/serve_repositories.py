"""Serves several repositories in one process: each opened by itself, all behind one address.

Decides nothing about lifecycles; which repository broke, and when it is tried again, is for
`orchestrator.runner.repositories`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ci.http.shared_clients import SharedClients
from lifecycle.admission.shared_day import SharedDay
from lifecycle.clock import SystemClock
from orchestrator.cli import run_loops
from orchestrator.config.known_secrets import masker_of
from orchestrator.control.runner_log import RunnerLog
from orchestrator.runner import job_selection
from orchestrator.runner.engine_choice import require_engine
from orchestrator.runner.process_share import ProcessShare
from orchestrator.runner.repositories import RepositoryKeeper, ServedRepository, names_of
from orchestrator.runner.signals import SignalHandler
from orchestrator.runner.workload import Workload
from orchestrator.terminal.options import find_repo
from orchestrator.web.bound_server import bind
from orchestrator.web.repositories.loading import server_module
from orchestrator.wording.live_view import PlainView
from runtime.capacity import raise_files
from runtime.thread_pool import provide
from runtime.workspaces.worktrees_dir import user_state

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from lifecycle.engine.engine import LocalEngine
    from orchestrator.runner.providers import Providers
    from orchestrator.runner.server_interface import Beside
    from orchestrator.web.token import Token

WHO = "loopwright serve"
LOG = ".serve"
"""The folder of the log of what is about no repository."""
TURN = 2.0
"""Seconds after which the next one is opened, whether or not this one is: it may hang."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeRequest:
    """How to serve them, as it was typed and as the user's own settings say."""

    host: str
    port: int
    token: Token
    worker_token: Token
    """By which workers hand in what their attempts left."""
    allowed_hosts: tuple[str, ...]
    overrides: Mapping[str, object]
    """Settings of the command line, for each repository."""
    listens: Callable[[str, Sequence[ServedRepository]], None]
    """Called with the address once requests are answered there."""


async def serve_repositories(folders: Sequence[Path], request: ServeRequest) -> int:
    """Serve until a signal comes; returns the exit code. A repository that breaks ends no other."""
    provide()
    raise_files()
    repositories = [ServedRepository(name, folder) for name, folder in names_of(folders).items()]
    clock, view = SystemClock(), PlainView(sys.stderr)
    sock = bind(request.host, request.port, request.token)
    masker = masker_of(os.environ)
    masker.learn({"LOOPWRIGHT_TOKEN": request.token.value})
    log_folder = user_state(os.environ) / LOG
    with (
        sock,
        SignalHandler(view.note) as signals,
        closing(RunnerLog(log_folder, now=clock.now, masker=masker)) as log,
    ):
        module = await server_module()
        inputs = module.ServerInputs(
            sock=sock,
            host=request.host,
            token=request.token.value,
            worker_token=request.worker_token.value,
            allowed_hosts=request.allowed_hosts,
            environ=os.environ,
            now=clock.now,
            report=log.report,
        )
        process = _Process(signals, [each.name for each in repositories], request)
        async with module.served(repositories, inputs) as mount:
            request.listens(module.url_of(sock), repositories)
            opening = asyncio.Semaphore()
            keepers = [
                RepositoryKeeper(
                    each,
                    partial(process.run, mount=mount, opening=opening),
                    signals=signals,
                    now=clock.now,
                    tell=view.note,
                )
                for each in repositories
            ]
            await asyncio.gather(
                *(
                    keeper.keep(partial(process.day.settled, each.name))
                    for keeper, each in zip(keepers, repositories, strict=True)
                )
            )
        return signals.exit_code


class _Process:
    """What the repositories share, and how one of them is run."""

    def __init__(self, signals: SignalHandler, names: Sequence[str], request: ServeRequest) -> None:
        self._signals, self._request = signals, request
        self._clients = SharedClients()
        self._count = len(names)
        self.day = SharedDay(names)

    async def run(
        self,
        it: ServedRepository,
        *,
        mount: Callable[[ServedRepository], Beside],
        opening: asyncio.Semaphore,
    ) -> None:
        """Run one repository to its end; raises what breaks it."""
        turn = _Turn(opening)
        await turn.take()
        late = asyncio.get_running_loop().call_later(TURN, self._is_late, it.name, turn)
        try:
            if not self._signals.number:
                await self._opened(it, mount, turn.give)
        finally:
            late.cancel()
            turn.give()

    def _is_late(self, name: str, turn: _Turn) -> None:
        """Have the others go on without it."""
        turn.give()
        if self.day.settled(name):
            _teller(name)(
                f"not open after {TURN:g} s: the others go on, and a budget of the day that they "
                "share does not count what it used, until it is"
            )

    async def _opened(
        self,
        it: ServedRepository,
        mount: Callable[[ServedRepository], Beside],
        opened: Callable[[], None],
    ) -> None:
        context = await asyncio.to_thread(self._context, it.folder)

        def provided(providers: Providers) -> None:
            it.providers = providers

        async def work(engine: LocalEngine) -> Workload:
            settings = context.settings()
            planned = await job_selection.planned(
                engine, None, settings, everything=True, tell=_teller(it.name), stays=True
            )
            opened()
            return Workload(planned.jobs, planned.held, mount(it), planned.damaged)

        await run_loops.loop_through(
            context,
            work,
            who=WHO,
            plain=True,
            revives=True,
            share=ProcessShare(
                name=it.name,
                repositories=self._count,
                signals=self._signals,
                clients=self._clients,
                day=self.day,
                provided=provided,
            ),
        )

    def _context(self, folder: Path) -> run_loops.CommandContext:
        context = run_loops.CommandContext.of(find_repo(str(folder)), **self._request.overrides)
        require_engine(context.settings(), context.environ)
        return context


class _Turn:
    """One turn of those that are opened one after the other; given back once."""

    def __init__(self, turns: asyncio.Semaphore) -> None:
        self._turns, self._mine = turns, False

    async def take(self) -> None:
        """Wait for it."""
        await self._turns.acquire()
        self._mine = True

    def give(self) -> None:
        """Give it back; harmless when called again."""
        if self._mine:
            self._mine = False
            self._turns.release()


def _teller(name: str) -> Callable[[str], None]:
    return partial(PlainView(sys.stderr, of=name).note)
