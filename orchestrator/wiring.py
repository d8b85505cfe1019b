"""Joins the real parts for one repository; the one place that knows all rooms.

Must not decide anything: which settings count is `config`, what a loop does is `lifecycle`.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from lifecycle.plan import Plan
from lifecycle.settings import TEMPORAL
from orchestrator.approval.agent_commits import AgentCommitWatch
from orchestrator.approval.approvals import held_files, own_files
from orchestrator.config.known_secrets import masker_of
from orchestrator.tasks.ticked_files import TickedFiles
from runtime.branches import BranchManager
from runtime.process import TerminalManager
from runtime.workspace import WorkspaceManager
from runtime.workspaces.worktrees_dir import worktrees_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ci.interface import CIProvider
    from ci.ports import Remote
    from lifecycle.engine.owners import Owners
    from lifecycle.loop import AgentLifecycleLoop
    from lifecycle.perform.performer import Performer
    from lifecycle.reporting import Observer, Report
    from lifecycle.services import MachineServices
    from lifecycle.settings import Settings
    from runtime.masking.masker import Masker

CRASH_AT = "LOOPWRIGHT_CRASH_AT"
"""For tests of recovery: `NAME` or `NAME#N` kills this process the N-th time it comes past the
boundary of that name, such as `before commit of AgentExited` or `after SpawnAgent`."""


def build(  # noqa: PLR0913  # all by name
    repo: Path,
    *,
    settings: Callable[[], Settings],
    who: str,
    provider: CIProvider | None = None,
    remote: Remote | None = None,
    plan: Plan | None = None,
    observers: tuple[Observer, ...] = (),
    report: Report | None = None,
    environ: Mapping[str, str] = os.environ,
    masker: Masker | None = None,
    owners: Callable[[MachineServices, Performer], Owners] | None = None,
) -> AgentLifecycleLoop:
    """Return the loop of a repository; nothing is opened or locked yet.

    `who` is what other runners are told about this one. Without a provider no build is started and
    no pull request is moved, which is right for a command that only changes a record.
    """
    from lifecycle.loop import AgentLifecycleLoop  # noqa: PLC0415  # half of what `run --help` would cost

    if masker is None:
        masker = masker_of(environ, settings().pass_env)
    root = worktrees_dir(repo, settings().worktrees_dir, environ)
    return AgentLifecycleLoop(
        repo_dir=repo,
        plan=plan or Plan(tasks=()),
        ci_provider=provider,
        remote=remote,
        terminal_manager=TerminalManager(repo, environ=environ, masker=masker),
        branch_manager=BranchManager(repo, own_edits=TickedFiles(repo)),
        workspace_manager=WorkspaceManager(
            repo,
            root=root,
            save_limit=lambda: settings().save_limit_mb << 20,
            own_files=own_files(repo.resolve()),
        ),
        settings=settings,
        who=who,
        observers=observers,
        report=report,
        work_watch=AgentCommitWatch(repo.resolve(), masker, report),
        held_files=held_files(repo.resolve()),
        checkpoint=crash_hook(environ),
        owners=owners,
        # Else what workers do would be taken for what a crash of ours left.
        one_machine=settings().engine != TEMPORAL,
    )


def crash_hook(environ: Mapping[str, str]) -> Callable[[str], None] | None:
    """Return what ends this process at the boundary named in the environment, if one is."""
    place, _, number = environ.get(CRASH_AT, "").partition("#")
    if not place:
        return None
    left = int(number) if number.isdigit() else 1

    def passing(name: str) -> None:
        nonlocal left
        if name == place:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return passing
