"""What some commits changed in a few files: the content before and after each change.

Blocking, for those who ask rarely and outside of any workspace. Must not judge what it finds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.ownership import BASE_REFS, BRANCH_REFS, SAVED_REFS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from runtime.git import Git

MOST_BYTES = 1 << 20
MOST_CHANGES = 200
_NOTHING = "0"
_FILE = "100"
"""How the mode of an ordinary file begins: not that of a link or of a submodule."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """One change of one file; a side is None where the file was not there."""

    path: str
    before: bytes | None
    after: bytes | None
    is_plain: bool = True
    """Both sides were read: files, not links, and not too many or too large."""


@dataclass(frozen=True, slots=True)
class Work:
    """The commits of one agent: those of its tips that its base has not."""

    agent_id: str
    base: str
    tips: tuple[str, ...]


def file_changes(
    git: Git, repo: Path, base: str, tips: Sequence[str], paths: Sequence[str]
) -> tuple[FileChange, ...]:
    """Return what commits between base and tips did to these files, each change and all together.

    A merge counts as a change against each of its parents: it may hold what neither of them has.
    The trees are compared, too, because what git knows of parents can be tampered with.
    """
    asked = ("--raw", "-z", "--no-abbrev", "--no-renames")
    where = ("--", *(f":(top,icase,literal){path}" for path in paths))
    most = f"--max-count={MOST_CHANGES + 1}"
    each = ("log", "--format=", *asked, "-m", "--full-history", most, "--end-of-options")
    found = list(_read_raw(git.run_blocking(*each, *tips, f"^{base}", *where, cwd=repo).stdout))
    for tip in tips:
        whole = ("diff", *asked, "--merge-base", "--end-of-options", base, tip)
        found += _read_raw(git.run_blocking(*whole, *where, cwd=repo).stdout)
    found = list(dict.fromkeys(found))
    if len(found) > MOST_CHANGES:
        # Whoever makes so many of them wants nobody to read them.
        named = dict.fromkeys(path for path, *_ in found)
        return tuple(FileChange(path, None, None, is_plain=False) for path in named)
    blobs = _Blobs(git, repo)
    return tuple(blobs.change(*each) for each in found)


def works(git: Git, repo: Path) -> tuple[Work, ...]:
    """Return the work of all agents that have a base: their branches, and what was saved."""
    listing = git.run_blocking(
        "for-each-ref", "--format=%(objectname) %(refname)", BASE_REFS, BRANCH_REFS, SAVED_REFS,
        cwd=repo,
    ).text.splitlines()  # fmt: skip
    refs = {name: commit for commit, _, name in (line.partition(" ") for line in listing)}
    found = []
    for ref, base in refs.items():
        if ref.startswith(BASE_REFS):
            agent_id = ref.removeprefix(BASE_REFS)
            saved = f"{SAVED_REFS}{agent_id}/"
            ours = [
                each for each in refs if each.startswith(saved) or each == BRANCH_REFS + agent_id
            ]
            tips = dict.fromkeys(refs[each] for each in ours if refs[each] != base)
            if tips:
                found.append(Work(agent_id, base, tuple(tips)))
    return tuple(found)


def standing(
    git: Git, repo: Path, found: Sequence[Work], paths: Sequence[str]
) -> Iterator[tuple[Work, FileChange]]:
    """Return how these files stand in each work, where that is not as in its base; cheaply."""
    asked = [
        (work, path, f"{work.base}:{path}", f"{tip}:{path}")
        for work in found
        for tip in work.tips
        for path in paths
    ]
    names = "".join(f"{old}\n{new}\n" for _, _, old, new in asked).encode(errors="surrogateescape")
    told = git.run_blocking("cat-file", "--batch-check", cwd=repo, input=names).stdout
    lines = iter(told.decode(errors="replace").splitlines())
    blobs = _Blobs(git, repo)
    for work, path, _, _ in asked:
        old, new = (_blob(next(lines)) for _ in range(2))
        if old != new:
            yield work, blobs.change(path, _FILE, _FILE, old, new)


def _blob(line: str) -> str:
    name, kind, *_ = (*line.rsplit(" ", 2), "")
    return name if kind == "blob" else _NOTHING


def _read_raw(listing: bytes) -> Iterator[tuple[str, str, str, str, str]]:
    """Read path, modes and blobs of `--raw -z`; between commits there may be empty fields."""
    fields = iter(listing.split(b"\0"))
    for field in fields:
        head = field.lstrip(b"\n").decode("ascii", "replace")
        if head.startswith(":"):
            old_mode, new_mode, old, new, _ = head[1:].split(" ")
            yield next(fields).decode(errors="surrogateescape"), old_mode, new_mode, old, new


class _Blobs:
    """Reads the contents of files, each once."""

    def __init__(self, git: Git, repo: Path) -> None:
        self._git, self._repo = git, repo
        self._known: dict[str, bytes | None] = {}

    def change(self, path: str, old_mode: str, new_mode: str, old: str, new: str) -> FileChange:
        """Return one change with its contents."""
        sides = [self._side(old_mode, old), self._side(new_mode, new)]
        plain = all(read for read, _ in sides)
        before, after = (content for _, content in sides)
        return FileChange(path, before, after, is_plain=plain)

    def _side(self, mode: str, blob: str) -> tuple[bool, bytes | None]:
        """Return whether a side could be read, and its content."""
        if not blob.strip(_NOTHING):
            return True, None
        if not mode.startswith(_FILE):
            return False, None
        if blob not in self._known:
            size = int(self._git.run_blocking("cat-file", "-s", blob, cwd=self._repo).text)
            small = size <= MOST_BYTES
            self._known[blob] = (
                self._git.run_blocking("cat-file", "blob", blob, cwd=self._repo).stdout
                if small
                else None
            )
        return self._known[blob] is not None, self._known[blob]
