"""Records of finished set-ups, which distinguish unchanged files they made from an agent's work.

Owns these small files, kept in the runner's own folder, which no agent in a sandbox can write. A
missing or unreadable one only means that the set-up is repeated. Installed packages are recognized
by their folder. It must not change the workspace.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from runtime.private_files import make_private, write_whole
from runtime.setup import manifest
from runtime.setup.copies import INSTALLED
from runtime.setup.manifest import Manifest, ManifestEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

WORKSPACE, JUDGING = "workspace", "judging"
"""The two folders that are set up for an agent."""


@dataclass(frozen=True, slots=True)
class SetupStamp:
    """One finished set-up."""

    key: str
    """The cache key of its inputs and commands."""
    made: tuple[str, ...]
    """What it made, relative to the top folder; a folder ends with `/`."""


def read_stamp(folder: Path, place: str) -> SetupStamp | None:
    """Return what was set up; None if nothing was, or the record is unreadable."""
    try:
        found = json.loads(_file(folder, place).read_bytes())
        return SetupStamp(str(found["key"]), tuple(str(name) for name in found["made"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_stamp(folder: Path, place: str, stamp: SetupStamp) -> None:
    """Write it whole or not at all."""
    make_private(folder)
    # Names that are not valid UTF-8 survive: JSON escapes them.
    write_whole(_file(folder, place), json.dumps(asdict(stamp)).encode("ascii"))


def drop_stamp(folder: Path, place: str) -> None:
    """Delete the record: nothing counts as set up any more."""
    with suppress(FileNotFoundError):
        os.unlink(_file(folder, place))  # noqa: PTH108  # beside each start of an attempt


def _file(folder: Path, place: str) -> Path:
    return folder / f"{place}.json"


LIST = f"{WORKSPACE}.manifest"
SMALL = 1 << 18
"""Bytes up to which a file counts as unchanged if its content is the same."""


@dataclass(frozen=True, slots=True)
class Made:
    """What one set-up made in a workspace."""

    own: Path
    """The runner's own folder for it."""
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
    """Return what was made in the workspace that this folder of the runner belongs to."""
    stamp = read_stamp(own, WORKSPACE)
    return None if stamp is None else Made(own, stamp.made)


def before(own: Path, folder: Path, names: Iterable[str]) -> dict[str, ManifestEntry]:
    """Return the work of agents among what an earlier set-up made; blocking."""
    known = manifest.load(own / LIST) or Manifest(0, {})
    return {
        path: entry
        for path, entry in manifest.entries(
            folder, names, leaving_out=INSTALLED, hashed_to=SMALL
        ).items()
        if path not in known.entries
        or not (entry.is_folder or manifest.is_as_made(folder, path, known))
    }


def note(own: Path, folder: Path, stamp: SetupStamp, theirs: Mapping[str, ManifestEntry]) -> None:
    """Record what was made, without unchanged work of agents; blocking."""
    taken = manifest.take(folder, stamp.made, leaving_out=INSTALLED, hashed_to=SMALL)
    made = {path: entry for path, entry in taken.entries.items() if theirs.get(path) != entry}
    manifest.save(own / LIST, Manifest(taken.taken_ns, made))
    write_stamp(own, WORKSPACE, stamp)


def _is_installed(name: str, folders: tuple[str, ...]) -> bool:
    path = name.removesuffix("/")
    return f"{path}/".startswith(folders) and not INSTALLED.isdisjoint(path.split("/"))
