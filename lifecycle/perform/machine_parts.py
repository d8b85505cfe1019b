"""Makes the services of one machine of real parts: processes, git and files.

A runner of one machine and a worker are built of the same. Must not start anything.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from communication.watcher import MailboxWatcher
from lifecycle.context.snapshot import ContextBuilder
from lifecycle.judging.code_origin import finder
from lifecycle.launch.programs import here
from lifecycle.launch.sandbox import SandboxedCommands, SandboxPlanner
from lifecycle.services import MachineServices
from runtime.commands import CommandRunner
from runtime.setup.facts import GitSetupFacts
from runtime.setup.port_ranges import PortSlots
from templates.renderer import Renderer

if TYPE_CHECKING:
    from lifecycle.paths import Paths
    from lifecycle.ports import Branches, Checkouts, Workspaces
    from lifecycle.services import SharedServices
    from runtime.process import TerminalManager


@dataclass(frozen=True, slots=True, kw_only=True)
class RealParts:
    """What a machine works on a repository with, as its caller made it."""

    repo: Path
    paths: Paths
    terminals: TerminalManager
    workspaces: Workspaces
    branches: Branches
    checkouts: Checkouts
    tight: bool = False
    """There is little room on the machine."""


def machine_services(parts: RealParts, shared: SharedServices, **more: Any) -> MachineServices:
    """Join them; `more` are fields of the services that differ from their default."""
    repo, paths, terminals, settings = parts.repo, parts.paths, parts.terminals, shared.settings

    def told_weaker(what: str) -> None:
        shared.report("isolation_weaker", reason=what)

    sandbox = SandboxPlanner(
        repo, paths.root, home=Path.home(), path=os.environ.get("PATH", ""), report=told_weaker
    )
    own_commands = CommandRunner(terminals)
    mask = shared.masker.mask
    return MachineServices(
        shared=shared,
        repo=repo,
        paths=paths,
        workspaces=parts.workspaces,
        terminals=terminals,
        branches=parts.branches,
        checkouts=parts.checkouts,
        commands=SandboxedCommands(own_commands, sandbox, settings),
        own_commands=own_commands,
        setup_facts=GitSetupFacts(repo),
        ports=PortSlots(paths.ports),
        watcher=MailboxWatcher(
            poll_interval=settings().breakpoint_check_interval, polls_only=parts.tight
        ),
        builder=ContextBuilder(Renderer(paths.templates, nonce=lambda: token_hex(16), mask=mask)),
        sandbox=sandbox,
        other_code=finder(repo, paths, terminals, settings),
        withheld=terminals.withheld,
        host=here(),
        machine_id=terminals.machine,
        **more,
    )
