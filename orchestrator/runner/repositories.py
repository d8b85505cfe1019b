"""The repositories of one process: their names, how each does, and when a broken one is retried.

Owns when a repository is opened anew and in which words its trouble is told. Must not know how one
is run or shown; what breaks one is never raised to the others.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import traceback
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ci.errors import CIError
from lifecycle.errors import (
    LifecycleError,
    RecordsLostError,
    RepositoryBusyError,
    StateGoneError,
    StoreDamagedError,
    StoreError,
)
from orchestrator.errors import ConfigError, OrchestratorError
from orchestrator.terminal.options import UsageError
from runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from pathlib import Path

    from orchestrator.runner.providers import Providers
    from orchestrator.runner.signals import SignalHandler

FIRST_PAUSE = 5.0
LONGEST_PAUSE = 300.0
"""Seconds until a broken repository is tried again; they double."""
DIGITS = 4
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


class RepositoryStatus(StrEnum):
    """How a repository does."""

    OPENING = "opening"
    OK = "ok"
    LOCKED = "locked"
    """Another runner has it."""
    FOLDER = "folder"
    """Its folder is gone."""
    SETTINGS = "settings"
    STORE = "store"
    """Its records cannot be read or written."""
    FAILED = "failed"
    """Anything else; the text says what."""
    ENDED = "ended"


FOR_A_PERSON = (StoreDamagedError, RecordsLostError, StateGoneError)
"""To open it after these may begin with empty records: only a person decides that."""
WELL = (RepositoryStatus.OPENING, RepositoryStatus.OK, RepositoryStatus.ENDED)


def names_of(folders: Iterable[Path]) -> dict[str, Path]:
    """Return the folders by the names under which they are addressed; one given twice counts once.

    A name is the folder's; of several alike the first keeps it, and the others bear digits of their
    paths. So a repository that is added renames none.
    """
    found: dict[str, Path] = {}
    for folder in dict.fromkeys(folders):
        name = plain = _UNFIT.sub("-", folder.name).strip(".-") or "repository"
        digits = DIGITS
        while name in found:
            mark = hashlib.sha256(str(folder).encode()).hexdigest()
            name, digits = f"{plain}-{mark[:digits]}", digits + 1
        found[name] = folder
    return found


@dataclass(slots=True)
class ServedRepository:
    """One repository of the process."""

    name: str
    folder: Path
    status: RepositoryStatus = RepositoryStatus.OPENING
    trouble: str = ""
    """What is wrong, and what to do; for people who are signed in."""
    since: float = 0.0
    again_at: float | None = None
    """When it is tried again; None where a person has to ask for it."""
    providers: Providers | None = None
    """The latest that were made: also one that is broken has a name at its forge."""
    mounted: Any = None
    """What serves it; None while nothing does."""
    anew: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by who wants it to be tried again at once."""

    @property
    def well(self) -> bool:
        """Whether nothing is wrong."""
        return self.status in WELL


class RepositoryKeeper:
    """Opens one repository, again and again, until a signal ends the process."""

    def __init__(
        self,
        repository: ServedRepository,
        run: Callable[[ServedRepository], Awaitable[object]],
        *,
        signals: SignalHandler,
        now: Callable[[], float],
        tell: Callable[[str], None],
    ) -> None:
        """`run` runs it to its end, and raises what breaks it."""
        self._repository, self._run = repository, run
        self._signals, self._now, self._tell = signals, now, tell

    async def keep(self, settled: Callable[[], object]) -> None:
        """Return when a signal came and its work is saved; `settled` is called after each try."""
        clock, pause = asyncio.get_running_loop().time, FIRST_PAUSE
        it, over = self._repository, self._signals.came
        while not over.is_set():
            said, began = it.trouble, clock()
            it.status, it.since, it.again_at = RepositoryStatus.OPENING, self._now(), None
            it.anew.clear()
            problem = await self._tried()
            settled()
            if problem is None and over.is_set():
                break
            problem = problem or OrchestratorError("its runner came to its end by itself")
            if clock() - began > LONGEST_PAUSE:
                pause = FIRST_PAUSE
            it.status, it.trouble = trouble_of(it.folder, problem)
            waits = isinstance(problem, FOR_A_PERSON) and it.status is RepositoryStatus.STORE
            it.since, it.again_at = self._now(), None if waits else self._now() + pause
            if it.trouble != said:
                self._tell(f"{it.name}: {it.trouble}; the others go on")
            await self._rest(None if waits else pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        it.status, it.trouble, it.again_at = RepositoryStatus.ENDED, "", None

    async def _tried(self) -> Exception | None:
        """Run it to its end; return what broke it."""
        try:
            await self._run(self._repository)
        except Exception as broken_by:  # noqa: BLE001  # whatever breaks one must not end the others
            return broken_by
        return None

    async def _rest(self, seconds: float | None) -> None:
        waits = [
            asyncio.ensure_future(each.wait())
            for each in (self._signals.came, self._repository.anew)
        ]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()


def trouble_of(folder: Path, problem: Exception) -> tuple[RepositoryStatus, str]:
    """Return what kind of trouble it is, and in words what to do."""
    said = str(problem) or type(problem).__name__
    if not folder.is_dir():
        return (
            RepositoryStatus.FOLDER,
            f"{folder} does not exist; bring it back, or start without it",
        )
    match problem:
        case RepositoryBusyError():
            return RepositoryStatus.LOCKED, said
        case ConfigError() | UsageError():
            return RepositoryStatus.SETTINGS, said
        case StoreError():
            return RepositoryStatus.STORE, said
        case LifecycleError() | OrchestratorError() | RuntimeFault() | CIError() | OSError():
            return RepositoryStatus.FAILED, said
        case _:
            where = traceback.extract_tb(problem.__traceback__)[-1]
            place = f"{where.filename}:{where.lineno}"
            said = f"internal error: {type(problem).__name__}: {said} ({place})"
            return RepositoryStatus.FAILED, f"{said}; this is a defect of loopwright, report it"
