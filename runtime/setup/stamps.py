"""What was set up where, written down in the runner's own folder.

Owns these small files. No agent in a sandbox can write them. They say what the set-up was made
from and what it made; a file that is missing or unreadable only means that it is made again.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from runtime.ownership import make_private

if TYPE_CHECKING:
    from pathlib import Path

WORKSPACE, JUDGING = "workspace", "judging"
"""The two places that are set up for an agent."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """One finished set-up."""

    key: str
    """Of the inputs and commands that it was made from."""
    made: tuple[str, ...]
    """What it made, relative to the top folder; a folder ends with `/`."""


def read_stamp(folder: Path, place: str) -> Stamp | None:
    """Return what was set up, or None when nothing was, as far as it can be read."""
    try:
        found = json.loads(_file(folder, place).read_bytes())
        return Stamp(str(found["key"]), tuple(str(name) for name in found["made"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_stamp(folder: Path, place: str, stamp: Stamp) -> None:
    """Write it whole or not at all."""
    make_private(folder)
    target = _file(folder, place)
    fresh = target.with_name(f"{target.name}.new")
    # Names that are no UTF-8 come back as they were: JSON escapes them.
    fresh.write_text(json.dumps(asdict(stamp)), "ascii")
    fresh.replace(target)


def drop_stamp(folder: Path, place: str) -> None:
    """Forget it: from here on nothing counts as set up."""
    with suppress(FileNotFoundError):
        os.unlink(_file(folder, place))  # noqa: PTH108  # beside each start of an attempt


def _file(folder: Path, place: str) -> Path:
    return folder / f"{place}.json"
