"""The diff of a lifecycle's work, as people read it: flagged files first, long ones folded.

Owns the order, the limits, and what is said of each file. It must not decide what follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from lifecycle.base_commits import bring_work
from lifecycle.judging.flagged_files import reason_of
from lifecycle.machine.states import Completed
from orchestrator.review.own_work import OWN, ReviewError, span_of
from runtime.errors import RuntimeFault
from runtime.git.diff_parsing import pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lifecycle.ports import Bring
    from lifecycle.record import AgentLifecycle
    from lifecycle.settings import Settings
    from lifecycle.store.sqlite.store import SqliteStore
    from runtime.branches import BranchManager
    from runtime.git.diff_parsing import FileChange, Hunk, PatchLine

LONG = 400
"""Changed lines from which a file is folded."""
MOST_LINES = 6000
"""Changed lines that are shown at once; the rest by file."""
MOST_BYTES = 1 << 20
"""Size from which a file is folded, however few its lines."""
MOST_AT_ALL = 16 << 20
"""Size from which git is not asked for the lines of a file."""
MOST_OF_FILE = 20_000
"""Changed lines from which a file is not shown even by itself."""
MOST_KEPT = 32
"""Pairs of commits whose files are remembered."""
STAT, UNIFIED, SPLIT, WORDS = "stat", "unified", "split", "words"
VIEWS = (STAT, UNIFIED, SPLIT, WORDS)
UNREAD = "its lines could not be told from those of other files; look with `git diff`"
_LOCKS = frozenset({
    "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "uv.lock",
    "poetry.lock", "Pipfile.lock", "pdm.lock", "Cargo.lock", "go.sum", "go.work.sum", "bun.lock",
    "bun.lockb", "composer.lock", "Gemfile.lock", "flake.lock", "mix.lock", "pubspec.lock",
    "Package.resolved", "packages.lock.json", "gradle.lockfile", "deno.lock",
})  # fmt: skip
_GENERATED = (
    ".min.js", ".min.css", ".map", "_pb2.py", "_pb2_grpc.py", "_pb2.pyi", ".pb.go", ".pb.cc",
    ".pb.h", ".g.dart", ".freezed.dart", ".designer.cs", ".snap",
)  # fmt: skip


class LineForm(TypedDict):
    """One line of a diff."""

    kind: str
    """a blank, `+`, `-`, or a backslash for a remark of git; `~` if only parts of it changed"""
    text: str
    old: int | None
    """its number before; null where it was not there"""
    new: int | None
    parts: list[list[str]]
    """in the view `words`: kind and text of each part"""


class SideBySideForm(TypedDict):
    """What stands side by side in the view `split`."""

    left: LineForm | None
    right: LineForm | None


class HunkForm(TypedDict):
    """Lines that follow each other."""

    old_start: int
    new_start: int
    heading: str
    lines: list[LineForm]
    """empty in the view `split`"""
    pairs: list[SideBySideForm]
    """only in the view `split`"""


class FileForm(TypedDict):
    """One changed file."""

    path: str
    old_path: str | None
    kind: str
    """added, modified, deleted, renamed, copied or type changed"""
    mode: str
    """what changed of its kind or permissions, in words"""
    added: int
    removed: int
    size: int
    """bytes of it as it is now, or was"""
    binary: bool
    flagged: str
    """why it belongs to the tests or gates; empty if it does not"""
    made: str
    """lock or generated; else empty"""
    folded: str
    """why its lines are left out: ask for it by `file`; empty if they are here, or it has none"""
    hunks: list[HunkForm]


class DiffForm(TypedDict):
    """The diff of a lifecycle's work."""

    agent_id: str
    task_id: str
    of: str
    against: str
    """what it is compared with, in words"""
    base: str
    head: str
    files: list[FileForm]
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A changed file and what a reader should know of it."""

    change: FileChange
    flagged: str = ""
    """Why it belongs to the tests or gates."""
    made: str = ""
    """lock or generated."""
    folded: str = ""
    """Why its lines are left out."""
    size: int = 0

    @property
    def path(self) -> str:
        """Its name as text."""
        return self.change.path


@dataclass(frozen=True, slots=True)
class WorkDiff:
    """What a lifecycle changed."""

    agent_id: str
    task_id: str
    of: str
    against: str
    base: str
    head: str
    files: tuple[ShownFile, ...]

    @property
    def added(self) -> int:
        """Lines that came."""
        return sum(each.change.added for each in self.files)

    @property
    def removed(self) -> int:
        """Lines that went."""
        return sum(each.change.removed for each in self.files)


@dataclass(frozen=True, slots=True)
class DiffWish:
    """What is asked for."""

    of: str = OWN
    view: str = UNIFIED
    file: str = ""
    """Only this file, however long."""
    whole: bool = False
    """Fold nothing but what is far too long."""


class _Listing(NamedTuple):
    """What differs between two commits."""

    changes: tuple[FileChange, ...]
    sizes: Mapping[str, int]


class WorkReader:
    """Reads the work of lifecycles of one repository."""

    def __init__(
        self,
        branches: BranchManager,
        store: SqliteStore,
        settings: Callable[[], Settings],
        *,
        cleaned: Callable[[bytes], bytes] = bytes,
        bring: Bring | None = None,
    ) -> None:
        """`cleaned` takes secrets out of git's text; `bring` fetches what workers pushed."""
        self._bring = bring
        self.branches, self.store, self.settings = branches, store, settings
        self._cleaned = cleaned
        self._listed: dict[tuple[str, str], _Listing] = {}
        """By the two commits, which never change: a page asks for the same several times."""

    async def diff(self, record: AgentLifecycle, wish: DiffWish | None = None) -> WorkDiff:
        """Return the diff; ReviewError if there is nothing to look at."""
        wish = wish or DiffWish()
        await self.bring(record)
        span = await span_of(self.branches, self.store, record, wish.of)
        changes, sizes = await self._files(span.old, span.new)
        if wish.file:
            changes = tuple(each for each in changes if each.path == wish.file)
            if not changes:
                raise ReviewError(f"{record.agent_id} did not change {wish.file!r}")
        files = self._described(record, changes, sizes, wish)
        if wish.view != STAT:
            files = await self._with_lines(span.old, span.new, files, words=wish.view == WORDS)
        return WorkDiff(
            agent_id=record.agent_id,
            task_id=record.task_id,
            of=wish.of,
            against=span.against,
            base=span.old,
            head=span.new,
            files=tuple(files),
        )

    async def bring(self, record: AgentLifecycle) -> None:
        """Have the work here that a worker pushed; ReviewError says where it is, and what to do."""
        try:
            await bring_work(self.store, record, self._bring)
        except RuntimeFault as fault:
            raise ReviewError(str(fault)) from fault

    async def _files(self, old: str, new: str) -> _Listing:
        """Return the files and the sizes of their contents."""
        known = self._listed.pop((old, new), None)
        if known is None:
            asked = self.branches.diff
            changes = await asked.files(old, new)
            blobs = [blob for each in changes for blob in _blobs(each)]
            known = _Listing(changes, await asked.sizes(blobs))
        self._listed[old, new] = known
        while len(self._listed) > MOST_KEPT:
            del self._listed[next(iter(self._listed))]
        return known

    def _described(
        self,
        record: AgentLifecycle,
        changes: Iterable[FileChange],
        sizes: Mapping[str, int],
        wish: DiffWish,
    ) -> list[ShownFile]:
        commands = _commands(record, self.settings())
        named = record.work.flagged if isinstance(record.work, Completed) else ()
        found = []
        for change in changes:
            flagged = reason_of(change.path, commands) or reason_of(change.old_path, commands)
            if not flagged and change.path in named:
                flagged = "it belonged to the tests or gates when they ran"
            size = max((sizes.get(blob, 0) for blob in _blobs(change)), default=0)
            found.append(ShownFile(change, flagged, made_by(change.path), size=size))
        found.sort(key=lambda each: (not each.flagged, each.path))
        return _folded(found, wish)

    async def _with_lines(
        self, old: str, new: str, files: Sequence[ShownFile], *, words: bool
    ) -> list[ShownFile]:
        wanted = [each.change for each in files if not each.folded]
        found = await self.branches.diff.hunks(old, new, wanted, words=words, cleaned=self._cleaned)
        read = {each.path: each for each in found}
        return [_with_lines(each, read.get(each.path, each.change)) for each in files]


def _with_lines(file: ShownFile, read: FileChange) -> ShownFile:
    lost = read.lines and not read.hunks and not file.folded and not read.binary
    return replace(file, change=read, folded=UNREAD if lost else file.folded)


def _blobs(change: FileChange) -> tuple[str, str]:
    return change.new_blob, change.old_blob


def _commands(record: AgentLifecycle, settings: Settings) -> tuple[str, ...]:
    own = record.facts.get("task", {}).get("verify", ())
    return (*own, *settings.verify)


def made_by(path: str) -> str:
    """Tell whether a program writes such a file: `lock`, `generated` or nothing."""
    name = path.rpartition("/")[2]
    if name in _LOCKS:
        return "lock"
    return "generated" if name.lower().endswith(_GENERATED) else ""


def _folded(files: Iterable[ShownFile], wish: DiffWish) -> list[ShownFile]:
    """Leave out the lines of what is too long to be shown with the others."""
    found, left = [], MOST_LINES
    for each in files:
        why = _too_long(each) if wish.file or wish.whole else _long(each, left)
        if not why:
            left -= each.change.lines
        found.append(replace(each, folded=why))
    return found


def _too_long(file: ShownFile) -> str:
    if file.change.binary:
        return ""
    if file.size > MOST_AT_ALL:
        return f"it is {file.size >> 20} MiB long"
    return f"{file.change.lines:,} lines changed" if file.change.lines > MOST_OF_FILE else ""


def _long(file: ShownFile, left: int) -> str:
    change = file.change
    if change.binary:
        return ""
    if file.size > MOST_BYTES:
        return f"it is {file.size >> 10:,} KiB long"
    if file.made and change.lines:
        return f"{'a lock file' if file.made == 'lock' else 'generated'}, {change.lines:,} lines"
    if change.lines > LONG:
        return f"{change.lines:,} lines changed"
    return "there are too many files to show all at once" if change.lines > left else ""


def diff_form(diff: WorkDiff, view: str = UNIFIED) -> DiffForm:
    """Return it as `--json` and the API give it."""
    return {
        "agent_id": diff.agent_id,
        "task_id": diff.task_id,
        "of": diff.of,
        "against": diff.against,
        "base": diff.base,
        "head": diff.head,
        "files": [_file_form(each, view) for each in diff.files],
        "added": diff.added,
        "removed": diff.removed,
    }


def _file_form(file: ShownFile, view: str) -> FileForm:
    change = file.change
    return {
        "path": change.path,
        "old_path": change.old_path or None,
        "kind": change.kind,
        "mode": change.mode,
        "added": change.added,
        "removed": change.removed,
        "size": file.size,
        "binary": change.binary,
        "flagged": file.flagged,
        "made": file.made,
        "folded": file.folded,
        "hunks": [_hunk_form(hunk, view) for hunk in change.hunks],
    }


def _hunk_form(hunk: Hunk, view: str) -> HunkForm:
    split = view == SPLIT
    return {
        "old_start": hunk.old_start,
        "new_start": hunk.new_start,
        "heading": hunk.heading,
        "lines": [] if split else [_line_form(line) for line in hunk.lines],
        "pairs": [
            {"left": _side(left), "right": _side(right)} for left, right in pairs(hunk)
        ] if split else [],
    }  # fmt: skip


def _side(line: PatchLine | None) -> LineForm | None:
    return None if line is None else _line_form(line)


def _line_form(line: PatchLine) -> LineForm:
    return {
        "kind": line.kind,
        "text": line.text,
        "old": line.old or None,
        "new": line.new or None,
        "parts": [list(part) for part in line.parts],
    }
