"""Which values count: those in the files, or, where an agent changed one, the approved one.

Owns the decision for one repository, at each reading. A change that nobody but a person can have
made counts at once and is recorded as approved; one that stands in the work of an agent waits.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lifecycle.errors import StoreError
from lifecycle.heldsettings import NAME_FILES
from lifecycle.paths import Paths
from orchestrator.approval.cells import (
    MARK,
    SETTINGS_TABLES,
    Cells,
    author_of,
    cells_of,
    differing,
    name_of,
    plan_cells,
    plan_with,
)
from orchestrator.approval.records import (
    APPROVED,
    Document,
    approved_cells,
    read_approved,
    read_proposed,
    with_approved,
)
from orchestrator.approval.work import standing_proposals, watched
from runtime.git import Git
from runtime.setup.copies import INCLUDE_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lifecycle.store.port import LifecycleStore
    from orchestrator.approval.cells import Proposal
    from runtime.masking import Masker


@dataclass(frozen=True, slots=True)
class Held:
    """One value that waits for a person."""

    cell: str
    value: Any
    """What the file says now; None if it says nothing any more."""
    approved: Any
    """What counts instead."""
    agent_id: str

    @property
    def name(self) -> str:
        """The setting, or the file where all of it is meant."""
        file, name = name_of(self.cell)
        return name or file

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        file, name = name_of(self.cell)
        content = not name  # digests of lines tell nobody anything
        return {
            "name": self.name,
            "file": file,
            "value": None if content else self.value,
            "approved": None if content else self.approved,
            "agent_id": self.agent_id,
        }


class Approvals:
    """The approved values of one repository, and what of the present ones waits."""

    def __init__(self, repo: Path) -> None:
        self._repo = repo
        self._database = Paths.of(repo).database
        self._git = Git(home=Paths.of(repo).root / "git")
        self._document: Document | None = None
        self._plans: dict[str, Cells] = {}
        self.held: dict[str, Held] = {}
        self.present: Cells = {}
        """All cells of this reading, those that wait among them."""
        self._judged: Cells = {}
        self.named: tuple[str, ...] = ()
        """Files that settings name, relative to the repository."""

    @property
    def first(self) -> bool:
        """Whether nothing was recorded here yet."""
        return self._document is None

    def begin(self) -> None:
        """Begin a reading: what was approved is read anew."""
        try:
            self._document = read_approved(self._database)
        except StoreError:
            if self._document is None:
                raise
        self.held, self.present, self._judged, self.named = {}, {}, {}, (INCLUDE_FILE,)
        # No setting names it, and it says what is copied to agents all the same.
        self._judge({INCLUDE_FILE + MARK: content_of(self._repo / INCLUDE_FILE)}, (INCLUDE_FILE,))
        for file, cells in self._plans.items():
            self._judge(cells, (file,))

    def stale(self) -> bool:
        """Tell whether something waits of which a person may have decided by now."""
        waits = bool(self.held) or self._document is None
        return waits and read_approved(self._database) != self._document

    def settings(self, cells: Mapping[str, Any], files: Iterable[str]) -> dict[str, Any]:
        """Judge the settings of these files; returns what counts instead, by cell."""
        return self._judge(cells, files)

    def approved(self, file: str, name: str) -> Any:
        """Return the approved value of a setting in a file; None where there is none."""
        return approved_cells(self._document or {}, self.present).get(f"{file}{MARK}{name}")

    def plan(self, path: Path, data: dict[str, Any]) -> dict[str, Any]:
        """Return a plan as far as it counts; one outside of the repository is a person's."""
        file = self._inside(path.absolute())
        if file is None:
            return data
        cells = self._plans[file] = plan_cells(file, data)
        replaced = self._judge(cells, (file,))
        return plan_with(data, replaced) if replaced else data

    def plans_known(self) -> tuple[str, ...]:
        """Return the files of plans of which something was approved."""
        named = (name_of(cell) for cell in (self._document or {}).get("cells", {}))
        return tuple(
            dict.fromkeys(file for file, name in named if name and file not in SETTINGS_TABLES)
        )

    def files_named(self, name: str, value: Any) -> str:
        """Judge the files that a setting names; returns one that waits, if one does."""
        if name not in NAME_FILES or not value:
            return ""
        waiting = ""
        for file in filter(None, map(self._inside, _words(value))):
            self.named = (*self.named, file)
            if self._judge({file + MARK: content_of(self._repo / file)}, (file,)):
                waiting = file
        return waiting

    async def keep(
        self, store: LifecycleStore, *, by: str, at: float, masker: Masker, waiting: bool = False
    ) -> Cells:
        """Record as approved what counts, and with `waiting` also what waits; returns the news."""
        document = (await store.all(APPROVED)).get(APPROVED)
        if document is not None and self._document is None:
            return {}  # recorded meanwhile: what counts is judged by that at the next reading
        taken = {cell: value for cell, value in self._judged.items() if cell not in self.held}
        if waiting:
            taken |= {cell: each.value for cell, each in self.held.items()}
        made = with_approved(document, taken, by, at, masker)
        if made == document:
            return {}
        known = {} if document is None else approved_cells(document, self.present)
        await store.put(APPROVED, APPROVED, made)
        self._document = made
        return {cell: taken[cell] for cell in differing(known, {**known, **taken})}

    def _judge(self, present: Mapping[str, Any], files: Iterable[str]) -> dict[str, Any]:
        named = set(files)
        self.present.update(present)
        approved: Cells = {}
        if self._document is not None:
            every = approved_cells(self._document, present)
            approved = {cell: value for cell, value in every.items() if name_of(cell)[0] in named}
        self._judged.update({**dict.fromkeys(approved), **present})
        changed = differing(approved, present)
        if self._document is None or not changed:
            return {}
        proposals = self._proposals(present, sorted(named))
        replaced = {}
        for cell in changed:
            before, now = approved.get(cell), present.get(cell)
            agent_id = author_of(cell, before, now, proposals)
            if agent_id is not None:
                self.held[cell] = Held(cell, now, before, agent_id)
                replaced[cell] = before
        return replaced

    def _proposals(self, present: Mapping[str, Any], files: Sequence[str]) -> list[Proposal]:
        found = read_proposed(self._database, present)
        paths = tuple(dict.fromkeys((*watched(self._document), *files)))
        # Work that is under way, or that no runner has recorded.
        return [*found, *standing_proposals(self._git, self._repo, paths)]

    def _inside(self, path: Path | str) -> str | None:
        """Return the path of a file relative to the repository, if it is one of its own.

        Links below the repository are no way out: what git knows is the path, not where it leads.
        """
        place = Path(os.path.abspath(self._repo / path))  # noqa: PTH100  # links kept
        led = place.parent.resolve() / place.name
        for found, top in ((place, self._repo), (place, self._repo.resolve()), (led, self._repo)):
            if found.is_relative_to(top) and found.is_file():
                file = found.relative_to(top).as_posix()
                return None if file.split("/")[0] in (".loopwright", ".git") else file
        return None


def content_of(path: Path) -> Any:
    """Return a file as its cell holds it; of a link also where it leads."""
    try:
        content = path.read_bytes()
        where = [str(path.readlink())] if path.is_symlink() else []
    except OSError:
        return None
    lines = cells_of(path.name, content) if path.name not in SETTINGS_TABLES else None
    said = next(iter((lines or {}).values()), None)
    return [*where, *said] if where and isinstance(said, list) else said


def _words(value: Any) -> list[str]:
    texts = value if isinstance(value, list | tuple) else [value]
    words: list[str] = []
    for text in texts:
        try:
            words += shlex.split(str(text))
        except ValueError:
            words += str(text).split()
    return [word for word in words if "\0" not in word]
