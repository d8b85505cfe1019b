"""Parses the machine-readable output of git: status, log, changed files.

It must not start a process nor decide anything.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from runtime.git.ownership import is_own_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

STATUS = ("status", "--porcelain=v2", "--branch", "-z", "--no-ahead-behind", "--no-renames")
LOG_FORMAT = "--format=%H%x1f%ct%x1f%an%x1f%s"
NO_COMMIT_YET = b"(initial)"
SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
"""The full id of a commit."""

LINK_MODE = b"160000"
"""The mode of a nested repository, of which only a commit id is stored."""
_KINDS = {b"A": "added", b"M": "modified", b"D": "deleted", b"T": "type changed"}
_FIELDS_BEFORE_PATH = {b"1": 8, b"?": 1}


@dataclass(frozen=True, slots=True)
class TreeStatus:
    """The state of a checkout; every file is in at most one of the lists."""

    head: str
    """The commit; empty on a branch without one."""
    branch: str | None
    changed: tuple[str, ...]
    untracked: tuple[str, ...]
    fingerprint: str
    """Equal as long as neither the commit nor any uncommitted file changed."""
    hidden: tuple[str, ...] = ()
    """Files that only the agent's own rules ignore; not part of its work."""
    unreadable: str = ""
    """Git's message about the agent's own index; empty if it is fine."""

    @property
    def dirty(self) -> tuple[str, ...]:
        """Every file that is not as in the commit."""
        return (*self.changed, *self.untracked)


@dataclass(frozen=True, slots=True)
class GitCommit:
    """One commit, as shown to people."""

    sha: str
    subject: str
    author: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Link:
    """A nested repository in a commit: its path, and the id of its commit."""

    name: str
    """As the file system has it."""
    commit: str


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """One file that differs between two commits."""

    path: str
    kind: str
    """added, modified, deleted or type changed."""
    link: Link | None = None
    """Set if it is now a nested repository."""


def shown(name: bytes) -> str:
    r"""Bytes as text that can be stored anywhere: invalid UTF-8 appears as \xNN."""
    return name.decode("utf-8", "backslashreplace")


def names_in(listing: bytes) -> list[str]:
    """Return the names in a list of git's, each ended by NUL, as the file system has them."""
    return [os.fsdecode(name) for name in listing.split(b"\0") if name]


def shown_names(listing: bytes) -> tuple[str, ...]:
    """Return the names in a list of git's, each ended by NUL, as text for people."""
    return tuple(shown(name) for name in listing.split(b"\0") if name)


def listing_of(names: Iterable[str]) -> bytes:
    """Return names as a list for git, each ended by NUL."""
    return b"".join(os.fsencode(name) + b"\0" for name in names)


def parse_status(
    raw: bytes, folder: Path, *, hidden: bytes = b"", sparse: bool = False
) -> TreeStatus:
    """Read the output of STATUS for the checkout in this folder.

    `hidden` lists files that only the agent's rules ignore; in a sparse checkout absent files do
    not count as deleted.
    """
    head, branch = b"", b""
    lists: dict[bytes, list[str]] = {b"1": [], b"?": []}
    digest = hashlib.blake2b(digest_size=16)
    top = os.fsencode(folder) + b"/"
    for record in raw.split(b"\0"):
        if record.startswith(b"# branch.oid "):
            head = record.removeprefix(b"# branch.oid ")
            digest.update(head)
        elif record.startswith(b"# branch.head "):
            branch = record.removeprefix(b"# branch.head ")
        elif (kind := record[:1]) in lists:
            path = record.split(b" ", _FIELDS_BEFORE_PATH[kind])[-1]
            if is_own_file(path) or (sparse and record.startswith(b"1 .D")):
                continue
            lists[kind].append(shown(path))
            digest.update(b"\0" + record)
            # For a file that only the index changed, the record itself holds the content's hash.
            if kind != b"1" or record[3:4] != b".":
                digest.update(_stamp(top + path))
    unknown = set(shown_names(hidden))
    return TreeStatus(
        head="" if head == NO_COMMIT_YET else head.decode(),
        branch=None if branch == b"(detached)" else shown(branch),
        changed=tuple(lists[b"1"]),
        untracked=tuple(lists[b"?"]),
        fingerprint=digest.hexdigest(),
        hidden=tuple(sorted(unknown.difference(lists[b"?"]))),
    )


def _stamp(path: bytes) -> bytes:
    try:
        stat = os.lstat(path)
    except OSError:
        return b"\0gone"
    return b"\0%d %d" % (stat.st_size, stat.st_mtime_ns)


def parse_log(raw: bytes) -> tuple[GitCommit, ...]:
    """Read the output of `git log -z` with LOG_FORMAT."""
    commits = []
    for record in raw.split(b"\0"):
        if record:
            sha, seconds, author, subject = record.split(b"\x1f", 3)
            at = datetime.fromtimestamp(int(seconds), UTC)
            commits.append(GitCommit(sha.decode(), shown(subject), shown(author), at))
    return tuple(commits)


def parse_changes(raw: bytes) -> tuple[ChangedFile, ...]:
    """Read the output of `git diff-tree -r -z --no-renames --raw --no-abbrev`."""
    fields = raw.split(b"\0")[:-1]
    changes = []
    for told, path in zip(fields[::2], fields[1::2], strict=True):
        _, mode, _, sha, kind = told.split(b" ")
        link = Link(os.fsdecode(path), sha.decode()) if mode == LINK_MODE else None
        changes.append(ChangedFile(shown(path), _KINDS.get(kind, shown(kind)), link))
    return tuple(changes)


def some_of(names: Iterable[str], at_most: int = 5) -> str:
    """Return a few of the names, and how many more there are."""
    listed = list(names)
    rest = len(listed) - at_most
    return ", ".join(listed[:at_most]) + (f" and {rest} more" if rest > 0 else "")
