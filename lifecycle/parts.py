"""Everything the loops of one repository share, joined once."""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from lifecycle.admission import Board
from lifecycle.programs import Surroundings
from lifecycle.scribe import Scribe
from runtime.masking import Masker

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from ci.interface import CIProvider, Watch
    from communication.watcher import MailboxWatcher
    from lifecycle.accounts import Accounts
    from lifecycle.bases import Bases
    from lifecycle.clock import Clock
    from lifecycle.confine import Confiner
    from lifecycle.context import ContextBuilder
    from lifecycle.machine.events import Event
    from lifecycle.paths import Paths
    from lifecycle.places import Places
    from lifecycle.plan import PlanMark
    from lifecycle.ports import (
        Branches,
        Checkouts,
        Commands,
        Ports,
        SetupFacts,
        Terminals,
        Workspaces,
        WorkWatch,
    )
    from lifecycle.record import AgentLifecycle
    from lifecycle.rounds import Rounds
    from lifecycle.settings import Settings
    from lifecycle.store.port import LifecycleStore
    from runtime.process import ProcessIdentity
    from runtime.right_code.findings import Finding


START_WAITS, END_WAITS = 0.01, 0.02
"""Seconds within which what follows from a fact is written down with it."""


class Observer(Protocol):
    """Who wants to know of each decision, after it is committed."""

    def __call__(self, news: News) -> None:
        """Take note; must not raise and not block."""
        ...


class Report(Protocol):
    """Takes a log event with its fields, as structlog's methods do."""

    def __call__(self, event: str, /, **fields: object) -> object:
        """Log it."""
        ...


_WARNINGS = ("_damaged", "_failed", "_illegal_transition", "_refused", "_short", "_small", "_gone")
_ALSO = ("lifecycle_waits_for_person", "budget_unheld", "settings_proposed")


def is_warning(event: str) -> bool:
    """Tell whether somebody should look at this event."""
    return event.endswith(_WARNINGS) or event in _ALSO


def logged(event: str, /, **fields: object) -> None:
    """Report to the standard library's log: people hear of what waits for them, and of faults."""
    told = "; ".join(f"{name}: {value}" for name, value in fields.items())
    level = logging.WARNING if is_warning(event) else logging.INFO
    logging.getLogger("loopwright").log(level, "%s: %s", event, told)


def silent(event: str, /, **fields: object) -> None:
    """Report to nobody."""
    del event, fields


def _pass_by(place: str) -> None:
    del place


def _no_other_code(folder: Path, commands: tuple[str, ...]) -> tuple[Finding, ...]:
    del folder, commands
    return ()


def _unseen(watch: Watch) -> None:
    del watch


@dataclass(frozen=True, slots=True)
class News:
    """One committed decision, for views and logs."""

    agent_id: str
    event: str
    before: str
    after: str
    at: float
    fact: Event
    """The event itself, with all it says."""
    record: AgentLifecycle
    """As it is now; of several decisions in one commit, after the last."""
    ways: str = ""
    """What a person can type, where it comes to wait for one."""


@dataclass(slots=True)
class Parts:
    """What an owner and a performer work with."""

    repo: Path
    paths: Paths
    store: LifecycleStore
    clock: Clock
    settings: Callable[[], Settings]
    workspaces: Workspaces
    terminals: Terminals
    branches: Branches
    checkouts: Checkouts
    commands: Commands
    setup_facts: SetupFacts
    ports: Ports
    watcher: MailboxWatcher
    rounds: Rounds
    builder: ContextBuilder
    places: Places
    bases: Bases
    confiner: Confiner
    accounts: Accounts
    other_code: Callable[[Path, tuple[str, ...]], tuple[Finding, ...]] = _no_other_code
    """Finds on which ways commands would use code from outside the folder that they start in."""
    held_files: Callable[[], Collection[str]] = frozenset
    """Files of the user's checkout, by name, that an agent changed and no person approved yet."""
    withheld: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What of the runner's environment is not inherited, by variable: it leads to such code."""
    around: Surroundings = field(default_factory=Surroundings)
    """What agent programs are started with, whoever they work for."""
    board: Board = field(default_factory=Board)
    plans: dict[str, PlanMark] = field(default_factory=dict)
    """The plan that a task belongs to, by the task's id, where it came with one."""
    ci: CIProvider | None = None
    masker: Masker = field(default_factory=Masker)
    """Takes secrets out of all that is kept."""
    comm_file: Path | None = None
    """One communications.json for all agents; one in each workspace if None."""
    completed: dict[str, str] = field(default_factory=dict)
    """Tasks that are done, with their titles."""
    running: Callable[[], Collection[str]] = tuple
    """Tasks that somebody works on in this process."""
    strays: defaultdict[str, set[ProcessIdentity]] = field(default_factory=lambda: defaultdict(set))
    """Processes that were ended when this runner began, by mark, until they are told of."""
    work_watch: WorkWatch | None = None
    """Is told of what each attempt committed."""
    observers: list[Observer] = field(default_factory=list)
    report: Report = silent
    """Where log events go."""
    start_waits: float = field(default_factory=lambda: START_WAITS)
    """Seconds, whatever the clock says, that the commit of an agent's start waits for its end."""
    end_waits: float = field(default_factory=lambda: END_WAITS)
    """Seconds that the commit of its end waits for what it left."""
    scribe: Scribe = field(default_factory=Scribe)
    appeared: Callable[[Watch], None] = _unseen
    """Is told when a provider is asked to look after something."""
    gone: Callable[[], str] = str
    """Says why this runner must not go on, once its lock or its records are not its own any more;
    until then nothing."""
    checkpoint: Callable[[str], None] = _pass_by
    """Called at each named boundary between deciding, committing and performing; a crash test may
    end the process there."""
