"""What some commits changed in a few files: the content before and after each change.

Blocking, for rare use outside of any workspace. Must not judge what it finds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from runtime.git.ownership import BASE_REFS, BRANCH_REFS, SAVED_REFS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from runtime.git.git import Git

MOST_BYTES = 1 << 20
MOST_CHANGES = 200
_NOTHING = "0"
_FILE = "100"
"""How the mode of an ordinary file begins: not that of a link or of a submodule."""
_RAW = ("--raw", "-z", "--no-abbrev", "--no-renames")


@dataclass(frozen=True, slots=True)
class ContentChange:
    """One change of one file; a side is None if the file did not exist."""

    path: str
    before: bytes | None
    after: bytes | None
    is_plain: bool = True
    """Both sides were read: files, not links, and not too many or too large."""
    blob: str = ""
    """The id of the content after the change."""


@dataclass(frozen=True, slots=True)
class CommitRange:
    """The commits of an agent: from where its work started to the newest."""

    agent_id: str
    start: str
    tip: str


class _Raw(NamedTuple):
    """One line of git's raw form of differences."""

    path: str
    old_mode: str
    new_mode: str
    old: str
    new: str


class FileHistory:
    """The history of one repository."""

    def __init__(self, git: Git, repo: Path) -> None:
        self._git, self._repo = git, repo
        self._between: dict[tuple[str, str], tuple[_Raw, ...]] = {}
        """Cache: what differs between two commits, which never changes."""
        self._own: tuple[object, tuple[_Raw, ...]] = ((), ())
        """The last question and its answer: the same commits are often read several times."""

    def changes(
        self, since: Sequence[str], tips: Sequence[str], wanted: Callable[[str], bool]
    ) -> tuple[ContentChange, ...]:
        """Return what the tips' own commits did to files: each change, and all together.

        Their own commits are those not reachable from `since`. Of a merge only what is in none of
        its parents counts. Also the trees at the merge base and the tip are compared, because the
        recorded parents can be tampered with.
        """
        commits = self._commits(*since, *tips)
        starts = tuple(filter(None, (commits[each] for each in since))) or (since[-1],)
        ends = tuple(commits[each] or each for each in tips)
        if self._own[0] != (starts, ends):
            out = (*ends, *(f"^{start}" for start in starts))
            each = ("log", "--format=", *_RAW, "-c", "--end-of-options")
            found = [*_read_raw(self._asked(*each, *out))]
            for end in ends:
                found += self._differing(self._parting(starts[-1], end) or starts[-1], end)
            self._own = (starts, ends), tuple(dict.fromkeys(found))
        return self._read([raw for raw in self._own[1] if wanted(raw.path)])

    def standing(
        self, works: Sequence[CommitRange], wanted: Callable[[str], bool]
    ) -> Iterator[tuple[CommitRange, ContentChange]]:
        """Return how files differ between start and tip of each range; cheap."""
        for work in works:
            found = [raw for raw in self._differing(work.start, work.tip) if wanted(raw.path)]
            for change in self._read(found):
                yield work, change

    def works(self) -> tuple[CommitRange, ...]:
        """Return the ranges of all agents: their branches, and their saved work."""
        refs = {
            name: commit
            for line in self._asked(
                "for-each-ref", "--format=%(objectname) %(refname)",
                BASE_REFS, BRANCH_REFS, SAVED_REFS,
            ).decode(errors="surrogateescape").splitlines()
            for commit, _, name in (line.partition(" "),)
        }  # fmt: skip
        head = self._commits("HEAD")["HEAD"]
        found = []
        for ref, tip in refs.items():
            if ref.startswith(BASE_REFS):
                continue
            agent_id = ref.removeprefix(BRANCH_REFS)
            if ref.startswith(SAVED_REFS):
                agent_id = ref.removeprefix(SAVED_REFS).partition("/")[0]
            base = refs.get(BASE_REFS + agent_id, "")
            if tip != base:
                found.append(CommitRange(agent_id, self._start(head, base, tip), tip))
        return tuple(found)

    def _start(self, head: str, base: str, tip: str) -> str:
        """Return the merge base with the checkout; of merged work, where it started."""
        parting = self._parting(head, tip)
        return parting if parting and (parting != tip or not base) else base or head

    def _parting(self, one: str, other: str) -> str:
        """Return the merge base of two commits; empty if there is none."""
        told = self._git.run_blocking(
            "merge-base", "--end-of-options", one, other, cwd=self._repo, check=False
        )
        return told.text.strip()

    def _commits(self, *names: str) -> dict[str, str]:
        """Return the commit of each name; empty if there is none."""
        asked = "".join(f"{name}^{{commit}}\n" for name in names).encode()
        told = self._git.run_blocking("cat-file", "--batch-check", cwd=self._repo, input=asked)
        found = (line.split(" ") for line in told.text.splitlines())
        return {
            name: words[0] if words[1:2] == ["commit"] else ""
            for name, words in zip(names, found, strict=True)
        }

    def _differing(self, old: str, new: str) -> tuple[_Raw, ...]:
        if (old, new) not in self._between:
            told = self._asked("diff", *_RAW, "--end-of-options", old, new)
            self._between[old, new] = tuple(_read_raw(told))
        return self._between[old, new]

    def _asked(self, *args: str) -> bytes:
        return self._git.run_blocking(*args, cwd=self._repo).stdout

    def _read(self, found: Sequence[_Raw]) -> tuple[ContentChange, ...]:
        if len(found) > MOST_CHANGES:
            # So many changes may be an attempt to hide one.
            last = {raw.path: raw.new for raw in found}
            return tuple(ContentChange(path, None, None, False, new) for path, new in last.items())  # noqa: FBT003  # not plain
        return tuple(self._change(raw) for raw in found)

    def _change(self, raw: _Raw) -> ContentChange:
        sides = [self._side(raw.old_mode, raw.old), self._side(raw.new_mode, raw.new)]
        plain = all(read for read, _ in sides)
        before, after = (content for _, content in sides)
        return ContentChange(raw.path, before, after, is_plain=plain, blob=raw.new)

    def _side(self, mode: str, blob: str) -> tuple[bool, bytes | None]:
        """Return whether a side could be read, and its content."""
        if not blob.strip(_NOTHING):
            return True, None
        if not mode.startswith(_FILE) or int(self._asked("cat-file", "-s", blob)) > MOST_BYTES:
            return False, None
        return True, self._asked("cat-file", "blob", blob)


def _read_raw(listing: bytes) -> Iterator[_Raw]:
    """Parse `--raw -z`; a merge is listed once, with a mode and an id for each parent."""
    fields = iter(listing.split(b"\0"))
    for field in fields:
        head = field.lstrip(b"\n").decode("ascii", "replace")
        if head.startswith(":"):
            *told, _ = head.lstrip(":").split(" ")
            path = next(fields).decode(errors="surrogateescape")
            half = len(told) // 2
            modes, ids = told[:half], told[half:]
            for old_mode, old in zip(modes[:-1], ids[:-1], strict=True):
                yield _Raw(path, old_mode, modes[-1], old, ids[-1])
