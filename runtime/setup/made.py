"""Tells in a workspace what the set-up made, and nobody changed since, from an agent's work.

Owns the list of it, kept in the runner's own folder. What is installed packages goes by its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.setup import manifest
from runtime.setup.copies import INSTALLED
from runtime.setup.manifest import Entry, Manifest
from runtime.setup.stamps import WORKSPACE, Stamp, read_stamp, write_stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

LIST = f"{WORKSPACE}.manifest"
SMALL = 1 << 18
"""Bytes up to which a file counts as unchanged when a tool wrote the same again."""


@dataclass(frozen=True, slots=True)
class Made:
    """What one set-up made in a workspace."""

    own: Path
    """The runner's own folder about it."""
    names: tuple[str, ...]

    def others(self, folder: Path, names: Iterable[str]) -> list[str]:
        """Return those of the names that are not as the set-up made them."""
        folders = tuple(name for name in self.names if name.endswith("/"))
        rest = [name for name in names if not _is_installed(name, folders)]
        known = manifest.load(self.own / LIST) if rest else None
        if known is None:
            return rest
        return [name for name in rest if not manifest.is_as_made(folder, name, known)]


def made_in(own: Path) -> Made | None:
    """Return what was made in the workspace that this folder of the runner's is about."""
    stamp = read_stamp(own, WORKSPACE)
    return None if stamp is None else Made(own, stamp.made)


def before(own: Path, folder: Path, names: Iterable[str]) -> dict[str, Entry]:
    """Return the work of agents among what an earlier set-up made; for a thread."""
    known = manifest.load(own / LIST) or Manifest(0, {})
    return {
        path: entry
        for path, entry in manifest.entries(
            folder, names, leaving_out=INSTALLED, hashed_to=SMALL
        ).items()
        if path not in known.entries
        or not (entry.is_folder or manifest.is_as_made(folder, path, known))
    }


def note(own: Path, folder: Path, stamp: Stamp, theirs: Mapping[str, Entry]) -> None:
    """Write down what was made, without work of agents that is still as it was; for a thread."""
    taken = manifest.take(folder, stamp.made, leaving_out=INSTALLED, hashed_to=SMALL)
    made = {path: entry for path, entry in taken.entries.items() if theirs.get(path) != entry}
    manifest.save(own / LIST, Manifest(taken.taken_ns, made))
    write_stamp(own, WORKSPACE, stamp)


def _is_installed(name: str, folders: tuple[str, ...]) -> bool:
    path = name.removesuffix("/")
    return f"{path}/".startswith(folders) and not INSTALLED.isdisjoint(path.split("/"))
