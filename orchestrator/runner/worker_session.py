"""One call of `worker`: from connecting to the server until everything is handed on.

Owns the signals and what is told on the terminal. Decides nothing about lifecycles.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lifecycle.clock import SystemClock
from lifecycle.paths import Paths
from lifecycle.worker.coordinator_link import CoordinatorLink
from lifecycle.worker.upload import CoordinatorAddress
from orchestrator.config.known_secrets import masker_of
from orchestrator.control.runner_log import RunnerLog
from orchestrator.runner.notices import Troubles
from orchestrator.runner.providers import ProviderInputs, make_providers
from orchestrator.runner.signals import SignalHandler
from orchestrator.version import __version__
from orchestrator.wording import worker_lines
from runtime.workspaces.worktrees_dir import claimed, worktrees_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from lifecycle.reporting import Report
    from lifecycle.settings import Settings
    from lifecycle.worker.worker import Worker

KILL_WITHIN = 5.0
"""Seconds for which a worker that is to end at once may save what its agents left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRequest:
    """Which worker is wanted, and what was found out about its machine."""

    name: str
    repo: Path
    settings: Settings
    environ: Mapping[str, str]
    programs: tuple[str, ...]
    lacks: tuple[str, ...]
    url: str
    """Where the coordinator answers; empty if that is not known."""
    token: str = field(repr=False)
    """By which it hands in there what attempts left."""


async def run_worker(request: WorkerRequest, tell: Callable[[str], None]) -> int:
    """Work until a signal comes; returns the exit code.

    ConfigError or ServerError says what keeps us from it, RepositoryBusyError who works here.
    """
    from orchestrator.engines.temporal.joined import WorkerPlace, worker_of  # noqa: PLC0415  # loads the SDK

    repo, settings, environ = request.repo, request.settings, request.environ
    now = SystemClock().now
    masker = masker_of(environ, settings.pass_env)
    inputs = ProviderInputs(repo, lambda: settings, environ, now, masker)
    with (
        claimed(
            worktrees_dir(repo, settings.worktrees_dir, environ), repo.resolve()
        ),  # once, and local
        closing(RunnerLog(Paths.of(repo).root, now=now, masker=masker)) as log,
        SignalHandler(tell) as signals,
    ):
        lines = WorkerLines(Troubles(log.report, tell).report, tell, settings)
        place = WorkerPlace(
            name=request.name,
            repo=repo,
            settings=settings,
            report=lines.report,
            masker=masker,
            header=make_providers(inputs).git_header,
            link=_link(request),
        )
        async with worker_of(place, environ) as worker:
            signals.attach(_Ending(worker, signals))
            lines.began(request.name, str(repo), request.lacks)
            await signals.came.wait()
            lines.draining()
        lines.drained()
    return signals.exit_code


def _link(request: WorkerRequest) -> CoordinatorLink | None:
    """Return the way to the coordinator's server, where its address and the token are known."""
    settings = request.settings
    if not (request.url and request.token):
        return None
    return CoordinatorLink(
        to=CoordinatorAddress(request.url, request.token, request.name),
        version=__version__,
        labels=settings.labels,
        programs=request.programs,
        lacks=request.lacks,
    )


class WorkerLines:
    """Passes reports on, and tells on the terminal what this worker took and handed on."""

    def __init__(self, log: Report, tell: Callable[[str], None], settings: Settings) -> None:
        self._log, self._tell, self._settings = log, tell, settings
        self._has: set[str] = set()
        self._handed = 0

    def report(self, event: str, /, **fields: object) -> None:
        """Log an event; tell it where it is about the work here."""
        self._log(event, **fields)
        agent_id, reason = str(fields.get("agent_id", "")), str(fields.get("reason", ""))
        if event == "worker_assignment_taken":
            self._has.add(agent_id)
            attempt, title = int(str(fields["attempt"])), str(fields["title"])
            slots = self._settings.max_live_agents
            used = len(self._has)
            self._tell(worker_lines.took(agent_id, title, attempt, used=used, slots=slots))
        elif event == "worker_assignment_ended":
            self._has.discard(agent_id)
            self._handed += bool(reason)
            commit = str(fields["commit"])
            why = reason or "it rests"
            branch = f"agent/{agent_id}"
            self._tell(worker_lines.handed_on(agent_id, why, branch=branch, commit=commit))
        elif event == "attempt_upload_failed":
            attempt, file = int(str(fields["attempt"])), str(fields["file"])
            self._tell(worker_lines.not_uploaded(agent_id, attempt, file, reason))
        elif event == "worker_assignment_lost":
            self._has.discard(agent_id)
            self._tell(worker_lines.lost(self._settings.lease, (agent_id,)))

    def began(self, name: str, place: str, lacks: tuple[str, ...]) -> None:
        """Say who waits for work."""
        slots, labels = self._settings.max_live_agents, self._settings.labels
        for line in worker_lines.began(name, place, slots=slots, labels=labels, lacks=lacks):
            self._tell(line)

    def draining(self) -> None:
        """Say that nothing new is taken."""
        self._tell(worker_lines.draining(sorted(self._has)))

    def drained(self) -> None:
        """Say that nothing is left."""
        self._tell(worker_lines.drained(self._handed))


class _Ending:
    """How signals end a worker: the first lets it hand on what it has, the second ends it."""

    def __init__(self, worker: Worker, signals: SignalHandler) -> None:
        self._worker, self._signals = worker, signals

    async def shutdown(self) -> None:
        """Leave it to who waits for the signal."""

    async def kill(self) -> None:
        """End all agents, save what they left as far as time allows, and be gone."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._worker.aclose(), KILL_WITHIN)
        os._exit(self._signals.exit_code)
