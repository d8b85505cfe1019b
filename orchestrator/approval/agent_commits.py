"""What the commits of agents changed in files that restrict agents.

Owns the reading of their work, and that it is recorded before anything of it can be merged.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lifecycle.paths import Paths
from lifecycle.settings import Settings
from orchestrator.approval.records import APPROVED, cells_in, keep_proposals
from orchestrator.approval.restricting_values import (
    PLAN_FILES,
    SETTINGS_TABLES,
    WHOLE,
    ProposedChange,
    cells_of,
    content_cells,
    name_of,
    proposed,
    whole,
)
from runtime.errors import RuntimeFault, ShortageError
from runtime.git.file_history import FileHistory
from runtime.git.git import Git
from runtime.git.porcelain import some_of
from runtime.setup.globs import INCLUDE_FILE
from runtime.shortage import shortage_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from lifecycle.reporting import Report
    from lifecycle.store.sqlite.store import SqliteStore
    from runtime.git.file_history import ContentChange
    from runtime.masking.masker import Masker

_ALWAYS = (*SETTINGS_TABLES, *PLAN_FILES, INCLUDE_FILE)
_PLANS = (".toml", ".json")
_LONGEST = 60
APPROVE = "`loopwright settings approve`"


@dataclass(frozen=True, slots=True)
class WatchedFiles:
    """The files to check, and where their content is."""

    files: Mapping[str, tuple[str, ...]]
    """Each with the paths by which git knows it: its own, and those that links lead to."""
    named: frozenset[str]
    """Those that settings name: all of their content counts."""

    @classmethod
    def of(cls, repo: Path, cells: Iterable[str], files: Iterable[str] = ()) -> WatchedFiles:
        """Watch what always counts, what these cells are of, and more files."""
        known = [name_of(cell) for cell in cells]
        named = frozenset([INCLUDE_FILE, *(file for file, name in known if not name)])
        files = dict.fromkeys((*_ALWAYS, *(file for file, _ in known), *files))
        return cls({file: _places(repo, file) for file in files}, named)

    def concerned(self, path: str) -> list[str]:
        """Return the files that a change at a path is about.

        A folder that is replaced takes along what lies in it, and what lies in a folder that is
        watched belongs to it. Some file systems do not tell Loopwright.toml from loopwright.toml.
        """
        at = path.casefold()
        return [
            file
            for file, places in self.files.items()
            if any(_overlap(at, place.casefold()) for place in places)
        ]

    def proposals(self, change: ContentChange, agent_id: str) -> Iterator[ProposedChange]:
        """Return what a change did to what holds agents."""
        for file in self.concerned(change.path):
            yield from self._of_file(file, change, agent_id)

    def _of_file(self, file: str, change: ContentChange, agent_id: str) -> Iterable[ProposedChange]:
        itself = change.path.casefold() in (place.casefold() for place in self.files[file])
        # A folder that is gone may be a link by now.
        gone = change.after is None and "/" in file
        all_of_it = (whole(file, change.blob, agent_id),)
        if not itself or not change.is_plain or gone:
            return all_of_it
        sides = (change.before, change.after)
        found: list[ProposedChange] = []
        if file in self.named:
            old, new = (
                {} if side is None else content_cells(file, [(file, side)]) for side in sides
            )
            found += proposed(old, new, agent_id) or ()
        if file in SETTINGS_TABLES or (file.endswith(_PLANS) and file not in self.named):
            try:
                before, after = (cells_of(file, side) for side in sides)
            except RecursionError:
                return all_of_it
            told = proposed(before, after, agent_id)
            return all_of_it if told is None else (*found, *told)
        return found


def _overlap(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def _places(repo: Path, file: str) -> tuple[str, ...]:
    """Return the path of a file and those that links on its way lead to, as far as in here."""
    top, found = repo.resolve(), [file]
    place = repo / file
    for _ in range(_LONGEST):
        real = place.parent.resolve() / place.name
        found.append(real.relative_to(top).as_posix() if real.is_relative_to(top) else file)
        if not real.is_symlink():
            break
        place = real.parent / real.readlink()
    return tuple(dict.fromkeys(found))


def proposals_in(
    history: FileHistory,
    since: Sequence[str],
    tips: Sequence[str],
    watch: WatchedFiles,
    agent_id: str,
) -> tuple[ProposedChange, ...]:
    """Return what the tips' own commits did to what holds agents."""
    return tuple(
        each
        for change in history.changes(since, tips, lambda path: bool(watch.concerned(path)))
        for each in watch.proposals(change, agent_id)
    )


def plans_in(
    history: FileHistory,
    since: Sequence[str],
    tips: Sequence[str],
    watch: WatchedFiles,
    agent_id: str,
) -> tuple[ProposedChange, ...]:
    """Return other files that may be run as a plan some day, each as a whole."""

    def wanted(path: str) -> bool:
        return path.endswith(_PLANS) and not watch.concerned(path)

    found = history.changes(since, tips, wanted)
    plans = (each for each in found if not each.is_plain or b"tasks" in (each.after or b""))
    return tuple(whole(each.path, each.blob, agent_id) for each in plans)


def standing_proposals(history: FileHistory, watch: WatchedFiles) -> Iterator[ProposedChange]:
    """Return what the work of agents that is there now would do to what holds them."""
    for work, change in history.standing(history.works(), lambda path: bool(watch.concerned(path))):
        yield from watch.proposals(change, work.agent_id)


class AgentCommitWatch:
    """Records which restrictions agents' commits would loosen, for the runner of a repository."""

    def __init__(self, repo: Path, masker: Masker, report: Report | None = None) -> None:
        self._repo = repo
        self._masker = masker
        self._report = report
        # Of its own: it is used in a thread, beside the one of the runner.
        self._history = FileHistory(Git(home=Paths.of(repo).root / "git-settings"), repo)
        self._alone = asyncio.Lock()

    async def captured(
        self, store: SqliteStore, agent_id: str, since: Sequence[str], tips: Sequence[str]
    ) -> None:
        """Record what the work of an agent does to settings that hold it.

        What the machine has no room for is raised: the work was not read, not unreadable.
        """
        watch = await self._watch(store)
        try:
            found = await self._asked(proposals_in, since, tips, watch, agent_id)
            plans = await self._asked(plans_in, since, tips, watch, agent_id)
        except (RuntimeFault, OSError) as problem:
            if shortage_of(problem):
                raise
            # What it did is unknown, and the attempt must end all the same.
            found = plans = tuple(whole(file, tips[0], agent_id) for file in watch.files)
        fresh = await keep_proposals(store, found, self._masker)
        await keep_proposals(store, plans, self._masker)
        if fresh and self._report is not None:
            reason = (
                f"its commits change what restricts agents: {named(each.cell for each in fresh)}; "
                f"merged or not, that waits for {APPROVE}"
            )
            self._report("settings_proposed", agent_id=agent_id, reason=reason)

    async def against(self, store: SqliteStore, base: str, head: str) -> str:
        """Return why only a person may merge this; empty if nothing that restricts agents changes.

        ShortageError where it cannot be checked just now.
        """
        try:
            # By its whole name: a tag may have the same.
            since, watch = (f"refs/heads/{base}",), await self._watch(store)
            found = await self._asked(proposals_in, since, (head,), watch, "")
        except ShortageError:
            raise
        except RuntimeFault as problem:
            return f"it cannot be checked whether it changes what restricts agents: {problem}"
        if not found:
            return ""
        return (
            f"it changes what restricts agents ({named(each.cell for each in found)}): "
            "only a person may merge it"
        )

    async def _watch(self, store: SqliteStore) -> WatchedFiles:
        document = (await store.all(APPROVED)).get(APPROVED)
        return WatchedFiles.of(self._repo, cells_in(document))

    async def _asked(
        self, ask: Callable[..., tuple[ProposedChange, ...]], *about: object
    ) -> tuple[ProposedChange, ...]:
        async with self._alone:
            return await asyncio.to_thread(ask, self._history, *about)


def named(cells: Iterable[str]) -> str:
    """Name cells for people: settings by file, else the file."""
    by_file: dict[str, list[str]] = {}
    for cell in cells:
        file, name = name_of(cell)
        by_file.setdefault(file, [])
        if name and name != WHOLE:
            by_file[file].append(name if name in Settings.model_fields else f"`{name[:_LONGEST]}`")
    return "; ".join(
        f"{some_of(list(dict.fromkeys(names)))} in {file}" if names else file
        for file, names in by_file.items()
    )
