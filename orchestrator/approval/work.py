"""What the commits of agents did to files that hold agents.

Owns the reading of their work, and that it is recorded before anything of it can be merged.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lifecycle.paths import Paths
from lifecycle.settings import Settings
from orchestrator.approval.cells import (
    SETTINGS_TABLES,
    WHOLE,
    Proposal,
    cells_of,
    name_of,
    proposed,
)
from orchestrator.approval.records import APPROVED, keep_proposals
from orchestrator.sources import PLAN_FILES
from runtime.errors import RuntimeFault
from runtime.filehistory import file_changes, standing, works
from runtime.git import Git
from runtime.setup.copies import INCLUDE_FILE
from runtime.tree import some_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from lifecycle.parts import Report
    from lifecycle.store.port import LifecycleStore
    from runtime.filehistory import FileChange
    from runtime.masking import Masker

_ALWAYS = (*SETTINGS_TABLES, *PLAN_FILES, INCLUDE_FILE)
_LONGEST = 60
APPROVE = "`loopwright settings approve`"


def watched(document: dict[str, object] | None) -> tuple[str, ...]:
    """Return the files to look at: those that always count, and those that ever were approved."""
    cells = (document or {}).get("cells", {})
    known = (name_of(str(cell))[0] for cell in cells) if isinstance(cells, dict) else ()
    return tuple(dict.fromkeys((*_ALWAYS, *known)))


def proposals_in(  # noqa: PLR0913, PLR0917  # whose work, and where to look
    git: Git, repo: Path, base: str, tips: Sequence[str], files: Sequence[str], agent_id: str
) -> tuple[Proposal, ...]:
    """Return what commits between base and tips did to what holds agents."""
    led = _led_elsewhere(repo, files)
    paths = (*files, *led)
    known = {path.casefold(): led.get(path, path) for path in paths}
    found: list[Proposal] = []
    for change in file_changes(git, repo, base, tips, paths):
        # Some file systems do not tell Loopwright.toml from loopwright.toml.
        found += _of_change(known[change.path.casefold()], change, agent_id)
    return tuple(found)


def standing_proposals(git: Git, repo: Path, files: Sequence[str]) -> Iterator[Proposal]:
    """Return what the work of agents that is there now would do to what holds them."""
    led = _led_elsewhere(repo, files)
    for work, change in standing(git, repo, works(git, repo), (*files, *led)):
        yield from _of_change(led.get(change.path, change.path), change, work.agent_id)


def _of_change(file: str, change: FileChange, agent_id: str) -> tuple[Proposal, ...]:
    plan = file not in SETTINGS_TABLES and file.endswith((".toml", ".json"))
    sides = [cells_of(file, side, plan=plan) for side in (change.before, change.after)]
    before, after = sides
    if not change.is_plain or (change.after is None and "/" in file):
        after = None  # a folder that is gone may be a link by now
    return proposed(file, before, after, agent_id)


def _led_elsewhere(repo: Path, files: Iterable[str]) -> dict[str, str]:
    """Return the files that some of these are links to, by their paths in the repository."""
    top, found = repo.resolve(), dict[str, str]()
    for file in files:
        place = repo / file
        if place.is_symlink() and place.resolve().is_relative_to(top):
            found[place.resolve().relative_to(top).as_posix()] = file
    return found


class WorkWatch:
    """Notes what agents' commits would loosen, for the runner of a repository."""

    def __init__(self, repo: Path, masker: Masker, report: Report | None = None) -> None:
        self._repo = repo
        self._masker = masker
        self._report = report
        # Of its own: it is used in a thread, beside the one of the runner.
        self._git = Git(home=Paths.of(repo).root / "git-settings")
        self._alone = asyncio.Lock()

    async def captured(
        self, store: LifecycleStore, agent_id: str, base: str, tips: Sequence[str]
    ) -> None:
        """Record what the work of an agent does to settings that hold it."""
        found = await self._proposals(store, base, tips, agent_id)
        fresh = await keep_proposals(store, found, self._masker) if found else []
        if fresh and self._report is not None:
            reason = (
                f"its commits change what holds agents: {named(each.cell for each in fresh)}; "
                f"merged or not, that waits for {APPROVE}"
            )
            self._report("settings_proposed", agent_id=agent_id, reason=reason)

    async def against(self, store: LifecycleStore, base: str, head: str) -> str:
        """Say why nobody merges this unasked; nothing when it changes nothing that holds agents."""
        try:
            # By its whole name: a tag may have the same.
            found = await self._proposals(store, f"refs/heads/{base}", (head,), "")
        except RuntimeFault as problem:
            return f"nobody can tell whether it changes what holds agents: {problem}"
        if not found:
            return ""
        return (
            f"it changes what holds agents ({named(each.cell for each in found)}): "
            "a person merges it, or nobody"
        )

    async def _proposals(
        self, store: LifecycleStore, base: str, tips: Sequence[str], agent_id: str
    ) -> tuple[Proposal, ...]:
        files = watched((await store.all(APPROVED)).get(APPROVED))
        async with self._alone:
            return await asyncio.to_thread(
                proposals_in, self._git, self._repo, base, tips, files, agent_id
            )


def named(cells: Iterable[str]) -> str:
    """Name cells as people know them: settings by file, else the file."""
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
