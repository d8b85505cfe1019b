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
    commits: tuple[str, ...]
    """What base and tips are at, to tell whether that is known already."""


def file_changes(
    git: Git, repo: Path, base: str, tips: Sequence[str], paths: Sequence[str]
) -> tuple[FileChange, ...]:
    """Return each change that commits between base and tips made to these files.

    A merge counts as a change against each of its parents: it may hold what neither of them has.
    """
    listing = git.run_blocking(
        "log", "--format=", "--raw", "-z", "--no-abbrev", "--no-renames", "-m", "--full-history",
        f"--max-count={MOST_CHANGES + 1}", "--end-of-options", *tips, f"^{base}", "--",
        *(f":(top,literal){path}" for path in paths), cwd=repo,
    ).stdout  # fmt: skip
    found = list(dict.fromkeys(_read_raw(listing)))
    if len(found) > MOST_CHANGES:
        # Whoever makes so many of them wants nobody to read them.
        named = dict.fromkeys(path for path, *_ in found)
        return tuple(FileChange(path, None, None, is_plain=False) for path in named)
    blobs = _Blobs(git, repo)
    return tuple(blobs.change(*each) for each in found)


def works(git: Git, repo: Path) -> tuple[Work, ...]:
    """Return the work of all agents that have a base: their branches, and what was saved."""
    listing = git.run_blocking(
        "for-each-ref", "--format=%(refname) %(objectname)", BASE_REFS, BRANCH_REFS, SAVED_REFS,
        cwd=repo,
    ).text.splitlines()  # fmt: skip
    refs = dict(line.split(" ") for line in listing)
    found = []
    for ref in refs:
        if ref.startswith(BASE_REFS):
            agent_id = ref.removeprefix(BASE_REFS)
            ours = (BRANCH_REFS + agent_id, f"{SAVED_REFS}{agent_id}/")
            tips = tuple(each for each in refs if each == ours[0] or each.startswith(ours[1]))
            if tips:
                commits = tuple(refs[each] for each in (ref, *tips))
                found.append(Work(agent_id, ref, tips, commits))
    return tuple(found)


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
