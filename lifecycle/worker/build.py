"""Opens the machine of a worker: a clone of the repository, with a store of the worker's own.

Holds the clone for as long as it is open, as a runner does. Must not take assignments.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from lifecycle.admission.budgets import Accounts
from lifecycle.admission.slots import Slots
from lifecycle.base_commits import BaseCommits
from lifecycle.clock import SystemClock
from lifecycle.paths import Paths
from lifecycle.perform.machine_parts import RealParts, machine_services
from lifecycle.reporting import logged
from lifecycle.services import SharedServices
from lifecycle.store.lock import RunnerLock
from lifecycle.store.lost_files import LostFilesCheck
from lifecycle.store.sqlite.store import SqliteStore
from lifecycle.worker.branch_travel import BranchTravel, no_header
from runtime.branches import BranchManager
from runtime.machine_id import worker_id
from runtime.process import TerminalManager
from runtime.remote.remote import GitRemote, url_of
from runtime.temp_folders import sweep
from runtime.thread_pool import provide
from runtime.workspace import WorkspaceManager
from runtime.workspaces.judging_checkouts import JudgingCheckouts
from runtime.workspaces.worktrees_dir import JUDGING, worktrees_dir

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    from lifecycle.reporting import Report
    from lifecycle.services import MachineServices
    from lifecycle.settings import Settings
    from runtime.masking.masker import Masker


@asynccontextmanager
async def worker_machine(  # noqa: PLR0913  # all by name
    repo: Path,
    *,
    name: str,
    settings: Settings,
    report: Report = logged,
    header: Callable[[], Awaitable[Mapping[str, str]]] = no_header,
    masker: Masker | None = None,
    environ: Mapping[str, str] = os.environ,
) -> AsyncIterator[tuple[MachineServices, BranchTravel]]:
    """Open the clone in which the worker of this name works, and the way of its branches.

    `header` signs in at a remote that is reached over https. RepositoryBusyError where something
    else works in the clone.
    """
    repo = repo.resolve()  # noqa: ASYNC240  # once, and local
    paths, workers = Paths.of(repo), worker_id(name)
    provide()
    paths.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = RunnerLock(paths.root, who=f"worker {name}", machine=workers)
    lock.acquire()
    try:
        await asyncio.to_thread(sweep)
        clock = SystemClock()
        async with await SqliteStore.open(paths.database, clock=clock.now) as store:
            terminals = TerminalManager(repo, environ=environ, machine=workers, masker=masker)
            workspaces = WorkspaceManager(
                repo,
                root=worktrees_dir(repo, settings.worktrees_dir, environ),
                save_limit=lambda: settings.save_limit_mb << 20,
            )
            branches = BranchManager(repo)
            shared = SharedServices(
                store=store,
                clock=clock,
                settings=lambda: settings,
                accounts=Accounts(store, clock),
                slots=Slots(lambda: settings.max_live_agents),
                base_commits=BaseCommits(store, branches),
                masker=terminals.masker,
                report=report,
                one_machine=False,
                gone=LostFilesCheck(paths.database).gone,
            )
            parts = RealParts(
                repo=repo,
                paths=paths,
                terminals=terminals,
                workspaces=workspaces,
                branches=branches,
                checkouts=JudgingCheckouts(repo, root=workspaces.root / JUDGING),
            )
            remote = GitRemote(
                repo,
                name=settings.remote,
                url=url_of(repo, settings.remote),
                environ=environ,
                timeout=settings.push_timeout,
            )
            machine = machine_services(parts, shared)
            try:
                yield machine, BranchTravel(workspaces, branches, remote, header)
            finally:
                await terminals.aclose(settings.stop_grace)
                await machine.watcher.aclose()
                await machine.background.aclose()
    finally:
        lock.release()
