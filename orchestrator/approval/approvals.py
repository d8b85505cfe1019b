"""Which values count: those in the files, or, where an agent changed one, the approved one.

Owns the decision for one repository, at each reading. A change that nobody but a person can have
made counts at once and is recorded as approved; one that stands in the work of an agent waits.
"""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lifecycle.errors import StoreError
from lifecycle.paths import Paths
from orchestrator.approval.held_settings import NAME_FILES, ONE_CHOICE
from orchestrator.approval.records import (
    APPROVED,
    Document,
    approved_cells,
    cells_in,
    keep_proposals,
    read_approved,
    read_proposed,
    with_approved,
)
from orchestrator.approval.restricting_values import (
    MARK,
    PLAN_FILES,
    SETTINGS_TABLES,
    Cells,
    content_cells,
    differing,
    name_of,
    origins_of,
    plan_cells,
    plan_with,
    same,
)
from runtime.setup.globs import INCLUDE_FILE
from runtime.setup.inputs import words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from lifecycle.store.sqlite.store import SqliteStore
    from orchestrator.approval.restricting_values import ProposedChange
    from runtime.git.file_history import FileHistory
    from runtime.git.git import Git
    from runtime.masking.masker import Masker


@dataclass(frozen=True, slots=True)
class HeldValue:
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
        content = not name  # digests of lines mean nothing to a reader
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
        self._document: Document | None = None
        self._plans: dict[str, Cells] = {}
        self.held: dict[str, HeldValue] = {}
        self.present: Cells = {}
        """All cells of this reading, those that wait among them."""
        self._judged: Cells = {}
        self._origins: list[ProposedChange] = []
        """Why something waits: kept, because branches and records of agents come to an end."""
        self.named: tuple[str, ...] = ()
        """Files that settings name, relative to the repository."""

    @property
    def first(self) -> bool:
        """Whether nothing was recorded here yet."""
        return self._document is None

    def begin(self) -> None:
        """Begin a reading: what was approved is read again."""
        try:
            self._document = read_approved(self._database)
        except StoreError:
            if self._document is None:
                raise
        self.held, self.present, self._judged, self.named = {}, {}, {}, (INCLUDE_FILE,)
        self._origins = []
        # No setting names it, and it says what is copied to agents all the same.
        contents = [(INCLUDE_FILE, each) for each in _content(self._repo / INCLUDE_FILE)]
        self._judge(content_cells(INCLUDE_FILE, contents) if contents else {}, (INCLUDE_FILE,))
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
        return self._approved_cell(f"{file}{MARK}{name}")

    def plan(self, path: Path, data: dict[str, Any]) -> dict[str, Any]:
        """Return a plan as far as it counts; one outside of the repository is a person's."""
        file = self._inside(path.absolute())
        if file is None:
            return data
        cells = self._plans[file] = plan_cells(file, data)
        replaced = self._judge(cells, (file,))
        for cell in list(replaced):
            table, _, name = cell.rpartition(".")
            if name in ONE_CHOICE:
                replaced |= {
                    f"{table}.{each}": self._approved_cell(f"{table}.{each}") for each in ONE_CHOICE
                }
        return plan_with(data, replaced) if replaced else data

    def plans_known(self) -> tuple[str, ...]:
        """Return the files of plans of which something was approved, or waits."""
        cells = (*cells_in(self._document), *(self._document or {}).get("waiting", ()))
        named = map(name_of, cells)
        return tuple(
            dict.fromkeys(file for file, name in named if name and file not in SETTINGS_TABLES)
        )

    def files_named(self, name: str, value: Any) -> str:
        """Judge the files that a setting names; returns one that waits, if one does."""
        if name not in NAME_FILES or not value:
            return ""
        waiting = ""
        for file in self._files_in(_texts(value)):
            below = [file] if (self._repo / file).is_file() else self._tracked(file)
            contents = [(each, said) for each in below for said in _content(self._repo / each)]
            self.named = (*self.named, *below)
            if contents and self._judge(content_cells(file, contents), (file,)):
                waiting = file
        return waiting

    async def keep(
        self,
        store: SqliteStore,
        *,
        by: str,
        at: float,
        masker: Masker,
        waiting: Collection[str] = (),
    ) -> Cells:
        """Record as approved what counts, and of what waits these cells; returns the news."""
        await keep_proposals(store, self._origins, masker)
        document = (await store.all(APPROVED)).get(APPROVED)
        if document is not None and self._document is None:
            return {}  # recorded meanwhile: what counts is judged by that at the next reading
        taken = {cell: value for cell, value in self._judged.items() if cell not in self.held}
        if document is None:
            # What agents have done before anybody noted it.
            now = self._standing(self.present)
            await keep_proposals(store, now, masker)
            taken |= {cell: each.approved for cell, each in self.held.items()}
        taken |= {cell: each.value for cell, each in self.held.items() if cell in waiting}
        made = with_approved(document, taken, by, at, masker)
        # Of plans: which of them somebody wanted to run shows in no other place.
        waits = {cell for cell in self.held if name_of(cell)[0] in self._plans}
        made["waiting"] = sorted(waits.union((document or {}).get("waiting", ())))
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
        if not changed or not (self._document or self._database.exists()):
            return {}
        proposals = self._proposals(named)
        if self._document is None:
            # The first time all counts, but for what the work of an agent still shows as its own.
            approved = {
                each.cell: each.before
                for each in proposals
                if name_of(each.cell)[0] in named and same(present.get(each.cell), each.after)
            }
            changed = differing(approved, {cell: present.get(cell) for cell in approved})
        replaced = {}
        for cell in changed:
            before, now = approved.get(cell), present.get(cell)
            origins = origins_of(cell, before, now, proposals)
            if origins:
                self.held[cell] = HeldValue(cell, now, before, origins[0].agent_id)
                self._origins += origins
                replaced[cell] = before
        return replaced

    def _approved_cell(self, cell: str) -> Any:
        return approved_cells(self._document or {}, self.present).get(cell)

    def _proposals(self, files: Iterable[str]) -> list[ProposedChange]:
        found = read_proposed(self._database, self.present)
        settled = [(each.cell, each.after, each.agent_id) for each in found if each.settled]
        now = self._standing({**dict.fromkeys(cells_in(self._document)), **self.present}, files)
        return found + [
            each for each in now if (each.cell, each.after, each.agent_id) not in settled
        ]

    def _standing(
        self, cells: Iterable[str], files: Iterable[str] = ()
    ) -> Iterable[ProposedChange]:
        """Return what work would change that is under way, or that no runner has recorded."""
        from orchestrator.approval import agent_commits  # noqa: PLC0415  # it loads git

        watch = agent_commits.WatchedFiles.of(self._repo, cells, files)
        return agent_commits.standing_proposals(self._history, watch)

    @cached_property
    def _history(self) -> FileHistory:
        from runtime.git.file_history import FileHistory  # noqa: PLC0415  # most commands need none

        return FileHistory(self._git, self._repo)

    @cached_property
    def _git(self) -> Git:
        from runtime.git.git import Git  # noqa: PLC0415  # as above

        return Git(home=Paths.of(self._repo).root / "git")

    def _files_in(self, commands: Iterable[str]) -> list[str]:
        """Return the files and folders of the repository that commands name, in whatever form."""
        texts = list(commands)
        words = [*texts, *words_of(texts)]
        for text in texts:
            with suppress(ValueError):  # a quote that is not closed: no shell would run it
                words += shlex.split(text)
        # $PWD/ci/poll.sh and the like: what stands before is not known.
        ends = [word.split("/", cut)[-1] for word in words for cut in range(word.count("/") + 1)]
        paths = (word for word in (*words, *ends) if word.strip("./") and "\0" not in word)
        return list(dict.fromkeys(filter(None, map(self._inside, paths))))

    def _tracked(self, folder: str) -> list[str]:
        asked = ("ls-files", "-z", "--", f":(top,literal){folder}")
        listed = self._git.run_blocking(*asked, cwd=self._repo).stdout
        return [os.fsdecode(path) for path in listed.split(b"\0") if path]

    def _inside(self, path: Path | str) -> str | None:
        """Return the path of a file relative to the repository, if it is one of its own.

        Links below the repository do not lead out of it: git knows the path, not its target.
        """
        place = Path(os.path.abspath(self._repo / path))  # noqa: PTH100  # links kept
        led = place.parent.resolve() / place.name
        for found, top in ((place, self._repo), (place, self._repo.resolve()), (led, self._repo)):
            if found.is_relative_to(top) and found != top and os.path.exists(found):  # noqa: PTH110  # also of what can be no path
                file = found.relative_to(top).as_posix()
                return None if file.split("/")[0] in (".loopwright", ".git") else file
        return None


def _texts(value: Any) -> list[str]:
    """Return all texts of a value, however deep."""
    if isinstance(value, str):
        return [value, value.removeprefix("file:")] if value.startswith("file:") else [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [text for each in value for text in _texts(each)] if _is_list(value) else []


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def held_files(repo: Path) -> Callable[[], frozenset[str]]:
    """Return what names the files that wait for a person at the moment of each call."""
    approvals = Approvals(repo)

    def names() -> frozenset[str]:
        approvals.begin()
        return frozenset(name_of(cell)[0] for cell in approvals.held)

    return names


def own_files(repo: Path) -> Callable[[], frozenset[str]]:
    """Return what names the files of ours in the user's checkout: settings and plans."""
    approvals = Approvals(repo)

    def names() -> frozenset[str]:
        approvals.begin()
        return frozenset(("loopwright.toml", *PLAN_FILES, *approvals.plans_known()))

    return names


def _content(path: Path) -> list[bytes]:
    with suppress(OSError):
        return [path.read_bytes()]
    return []
