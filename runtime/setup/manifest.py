"""Detects whether what the set-up made is unchanged.

Owns the list of files with their metadata, kept in the runner's own folder. Changes are detected by
the ctime, which no program can set. Contents are read only of small files and of files with hard
links, where a new name changes the ctime as well.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from runtime.private_files import make_private, write_whole
from runtime.remove_tree import remove_tree

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

TICK_NS = 20_000_000
"""Nanoseconds after which the file system certainly uses another ctime."""


NOTHING = -1
"""Instead of a number of bytes: read no content."""


class ManifestEntry(NamedTuple):
    """One file, link or folder. Of a folder only its type: its content is listed separately."""

    mode: int
    size: int = 0
    inode: int = 0
    changed_ns: int = 0
    content: str = ""
    """A hash, if the file has hard links or is small enough."""

    @property
    def is_folder(self) -> bool:
        """Tell whether it is a folder, not a link to one."""
        return stat.S_ISDIR(self.mode)


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that the set-up made, when it was finished."""

    taken_ns: int
    entries: dict[str, ManifestEntry]


@dataclass(frozen=True, slots=True)
class Damage:
    """How what is there differs from what was made."""

    new: tuple[str, ...]
    changed: tuple[str, ...]
    """Also what is missing."""


def take(
    folder: Path, made: Iterable[str], *, leaving_out: Collection[str] = (), hashed_to: int = 0
) -> Manifest:
    """List what was made; blocking. Returns only when any later change will be detected.

    Names in `leaving_out` are skipped in any folder. Files of up to `hashed_to` bytes count as
    unchanged if their content is the same.
    """
    while True:
        found = entries(folder, made, leaving_out=leaving_out, hashed_to=hashed_to)
        newest = max((entry.changed_ns for entry in found.values()), default=0)
        taken = time.time_ns()
        if taken - newest > TICK_NS:
            return Manifest(taken, found)
        time.sleep(TICK_NS / 1e9)


def entries(
    folder: Path, made: Iterable[str], *, leaving_out: Collection[str] = (), hashed_to: int = 0
) -> dict[str, ManifestEntry]:
    """List what exists now."""
    return dict(_walk(folder, made, frozenset(leaving_out), hashed_to))


def is_as_made(folder: Path, name: str, manifest: Manifest) -> bool:
    """Tell whether a file, or a folder with all its content, was made and is unchanged."""
    path = name.removesuffix("/")
    entry = manifest.entries.get(path)
    if entry is None:
        return False
    if not entry.is_folder:
        try:
            found = os.lstat(folder / path)
        except OSError:
            return False
        return _is_same(folder / path, entry, _entry(folder / path, found, NOTHING))
    within = {
        each: told for each, told in manifest.entries.items() if f"{each}/".startswith(f"{path}/")
    }
    damage = compare(folder, (path,), Manifest(manifest.taken_ns, within))
    # Git also writes the index of a repository on read-only commands.
    return not damage.new and all(each.endswith("/.git/index") for each in damage.changed)


def compare(folder: Path, made: Iterable[str], manifest: Manifest) -> Damage:
    """Return what differs now."""
    if time.time_ns() < manifest.taken_ns:
        return Damage((), ("(the clock was set back)",))
    before = manifest.entries
    try:
        now = dict(_walk(folder, made, frozenset(), NOTHING))
    except OSError as problem:
        return Damage((), (str(problem.filename),))
    changed = [
        path
        for path, entry in before.items()
        if (found := now.get(path)) is None or not _is_same(folder / path, entry, found)
    ]
    return Damage(tuple(path for path in now if path not in before), tuple(changed))


def remove_new(folder: Path, damage: Damage) -> None:
    """Remove what was added; folders first, with all their content."""
    gone: set[str] = set()
    for path in sorted(damage.new):
        if not any(path.startswith(f"{each}/") for each in gone):
            remove_tree(folder / path)
            gone.add(path)


def save(file: Path, manifest: Manifest) -> None:
    """Write it whole or not at all."""
    make_private(file.parent)
    write_whole(file, json.dumps([manifest.taken_ns, manifest.entries]).encode("ascii"))


def load(file: Path) -> Manifest | None:
    """Read it; None where it is missing or unreadable."""
    try:
        taken, entries = json.loads(file.read_bytes())
        return Manifest(
            int(taken), {path: ManifestEntry(*entry) for path, entry in entries.items()}
        )
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _walk(
    folder: Path, made: Iterable[str], out: frozenset[str], hashed_to: int
) -> Iterator[tuple[str, ManifestEntry]]:
    for name in made:
        path = name.removesuffix("/")
        try:
            found = os.lstat(folder / path)
        except OSError:
            continue
        if not out.isdisjoint(path.split("/")):
            continue
        yield path, _entry(folder / path, found, hashed_to)
        if stat.S_ISDIR(found.st_mode):
            yield from _inside(str(folder / path), path, out, hashed_to)


def _inside(
    folder: str, name: str, out: frozenset[str], hashed_to: int
) -> Iterator[tuple[str, ManifestEntry]]:
    waiting = [(folder, name)]
    while waiting:
        at, prefix = waiting.pop()
        with os.scandir(at) as listed:
            for each in listed:
                if each.name in out:
                    continue
                path = f"{prefix}/{each.name}"
                yield path, _entry(each.path, each.stat(follow_symlinks=False), hashed_to)
                if each.is_dir(follow_symlinks=False):
                    waiting.append((each.path, path))


def _entry(path: Path | str, found: os.stat_result, hashed_to: int) -> ManifestEntry:
    if stat.S_ISDIR(found.st_mode):
        return ManifestEntry(stat.S_IFDIR)
    wanted = found.st_size <= hashed_to or (found.st_nlink > 1 and hashed_to != NOTHING)
    hashed = wanted and stat.S_ISREG(found.st_mode)
    return ManifestEntry(
        found.st_mode,
        found.st_size,
        found.st_ino,
        found.st_ctime_ns,
        _hash(path) if hashed else "",
    )


def _is_same(path: Path, before: ManifestEntry, now: ManifestEntry) -> bool:
    if now[:4] == before[:4]:
        return True
    if now[:2] != before[:2]:
        return False
    # A hard link was added or removed, or it was rewritten: compare the content.
    return bool(before.content) and _hash(path) == before.content


def _hash(path: Path | str) -> str:
    try:
        with open(path, "rb") as file:  # noqa: PTH123  # thousands of entries
            return hashlib.file_digest(file, "blake2b").hexdigest()
    except OSError as problem:
        return f"unreadable: {problem.errno}"
