"""What the loops of one repository work with: what all machines share, and what one machine has.

The builder of the loop fills both once. What decides and commits takes the shared services alone;
what touches folders, processes or git takes those of its machine, which lead to the shared ones.
Must not hold what belongs to one lifecycle.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lifecycle.admission.program_limits import ProgramLimits
from lifecycle.context.background_writer import BackgroundWriter
from lifecycle.launch.programs import HostEnvironment
from lifecycle.reporting import silent
from runtime.machine_id import this_machine
from runtime.masking.masker import Masker

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from ci.interface import CIProvider, CIWatch
    from communication.watcher import MailboxWatcher
    from lifecycle.admission.budgets import Accounts
    from lifecycle.admission.slots import Slots
    from lifecycle.base_commits import BaseCommits, CommitWatch
    from lifecycle.clock import Clock
    from lifecycle.context.snapshot import ContextBuilder
    from lifecycle.launch.sandbox import SandboxPlanner
    from lifecycle.machine.events import PersonEvent
    from lifecycle.paths import Paths
    from lifecycle.plan import PlanMark
    from lifecycle.ports import (
        Branches,
        Bring,
        Checkouts,
        Ports,
        TaskCommands,
        Terminals,
        Workspaces,
    )
    from lifecycle.reporting import Observer, Report
    from lifecycle.settings import Settings
    from lifecycle.store.sqlite.store import SqliteStore
    from runtime.code_origin.findings import ForeignCode
    from runtime.commands import CommandRunner
    from runtime.process import ProcessIdentity
    from runtime.setup.facts import GitSetupFacts


SAMPLE_INTERVAL = 2.0
"""Seconds between two measurements of all living agents."""


def pass_by(place: str) -> None:
    """Do nothing at a boundary."""
    del place


def _no_other_code(folder: Path, commands: tuple[str, ...]) -> tuple[ForeignCode, ...]:
    del folder, commands
    return ()


def _unnoticed(agent_id: str, event: PersonEvent, reason: str) -> None:
    del agent_id, event, reason


def _everyone_placed(tasks: Sequence[str], missing: str, episode: str) -> None:
    del tasks, missing, episode


def _nothing_left(agent_id: str, birth: str, attempt: int) -> None:
    del agent_id, birth, attempt


def _to_nobody(**facts: object) -> None:
    del facts


@dataclass(slots=True)
class SharedServices:
    """What all machines that work on one repository share."""

    store: SqliteStore
    clock: Clock
    settings: Callable[[], Settings]
    accounts: Accounts
    """What attempts used, against the budgets."""
    slots: Slots
    base_commits: BaseCommits
    program_limits: ProgramLimits = field(default_factory=ProgramLimits)
    """Programs that some lifecycle found limited."""
    ci: CIProvider | None = None
    masker: Masker = field(default_factory=Masker)
    """Takes secrets out of all that is kept."""
    plans: dict[str, PlanMark] = field(default_factory=dict)
    """The plan that a task belongs to, by the task's id, where it came with one."""
    completed: dict[str, str] = field(default_factory=dict)
    """Tasks that are done, with their titles."""
    running: dict[str, str] = field(default_factory=dict)
    """Tasks that are worked on, by the id of the lifecycle that does."""
    observers: list[Observer] = field(default_factory=list)
    watched: list[Callable[[CIWatch], None]] = field(default_factory=list)
    """Called when a watch is registered with the CI provider."""
    report: Report = silent
    """Where log events go."""
    refused: Callable[[str, PersonEvent, str], None] = _unnoticed
    """Called with what was asked of which lifecycle, and why it is not done."""
    unplaced: Callable[[Sequence[str], str, str], None] = _everyone_placed
    """Called again and again with tasks that no worker can take, what is missing, and a name of
    this one time that it is."""
    one_machine: bool = True
    """No other machine works on this repository: what bears another name is of an earlier life of
    this one, as of a container that was recreated."""
    address: str = ""
    """Where the server of this runner answers; empty without one."""
    announce: Callable[..., None] = _to_nobody
    """Adds facts, by name, to what other programs are told about this runner."""
    gone: Callable[[], str] = str
    """Returns why this runner must stop (lock or database replaced), or an empty string."""
    checkpoint: Callable[[str], None] = pass_by
    """Called at each named boundary between deciding, committing and performing; a crash test may
    end the process there."""


@dataclass(slots=True)
class MachineServices:
    """What one machine has to work on the repository with: its folders, processes and programs."""

    shared: SharedServices
    repo: Path
    paths: Paths
    workspaces: Workspaces
    terminals: Terminals
    branches: Branches
    checkouts: Checkouts
    commands: TaskCommands
    setup_facts: GitSetupFacts
    ports: Ports
    watcher: MailboxWatcher
    builder: ContextBuilder
    sandbox: SandboxPlanner
    other_code: Callable[[Path, tuple[str, ...]], tuple[ForeignCode, ...]] = _no_other_code
    """Finds on which ways commands would use code from outside the folder that they start in."""
    own_commands: CommandRunner | None = None
    """Runs the user's own commands, outside of any sandbox."""
    held_files: Callable[[], Collection[str]] = frozenset
    """Files of the user's checkout, by name, that an agent changed and no person approved yet."""
    withheld: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What of the runner's environment is not inherited, by variable: it leads to such code."""
    host: HostEnvironment = field(default_factory=HostEnvironment)
    """What agent programs are started with, for every lifecycle."""
    comm_file: Path | None = None
    """One communications.json for all agents; one in each workspace if None."""
    strays: defaultdict[str, set[ProcessIdentity]] = field(default_factory=lambda: defaultdict(set))
    """Processes that were ended when this runner began, by mark, until they are told of."""
    work_watch: CommitWatch | None = None
    """Is told of what each attempt committed."""
    bring: Bring | None = None
    """Has a branch here as a worker pushed it; not needed where one machine does all the work."""
    attempt_left: Callable[[str, str, int], None] = _nothing_left
    """Called with agent, birth and attempt once there is more of what an attempt leaves for people:
    a worker hands it in."""
    sample_interval: float = SAMPLE_INTERVAL
    """Seconds between two measurements of all living agents."""
    machine_id: str = field(default_factory=this_machine)
    """The name of this machine in marks and records."""
    background: BackgroundWriter = field(default_factory=BackgroundWriter)
    """Writes in the background what is kept for people."""

    def owns(self, machine_id: str) -> bool:
        """Tell whether what bears this name is ours to end or to take over; unnamed it is."""
        return self.shared.one_machine or machine_id in ("", self.machine_id)
