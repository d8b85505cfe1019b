"""What an attempt leaves for people, by the names under which it travels to the coordinator.

Owns the names, and their places on either side; no name leads anywhere else. What people write in
the place of a summary is the coordinator's own and does not travel. Reads nothing but folders.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lifecycle.plan import checked_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lifecycle.paths import Paths

MOST_ATTEMPT = 1_000_000_000
_RAN = re.compile(r"(gate|merge|setup)-([1-9][0-9]{0,3})", re.ASCII)
"""What commands around the attempt printed."""
_ONE: dict[str, Callable[[Paths, str, int], Path]] = {
    "log": lambda paths, agent_id, attempt: paths.log(agent_id, attempt),
    "summary": lambda paths, agent_id, attempt: paths.summary(agent_id, attempt),
    "prompt": lambda paths, agent_id, attempt: paths.prompt(agent_id, attempt),
    "snapshot": lambda paths, agent_id, attempt: paths.snapshot(agent_id, attempt),
}


class AttemptFile(NamedTuple):
    """One file of one attempt."""

    agent_id: str
    attempt: int
    name: str


def place_of(paths: Paths, file: AttemptFile) -> Path | None:
    """Return where a file belongs; None for a name that no attempt leaves."""
    agent_id, attempt, name = file
    checked_name(agent_id)
    if not 0 <= attempt <= MOST_ATTEMPT:
        return None
    if (one := _ONE.get(name)) is not None:
        return one(paths, agent_id, attempt)
    if (ran := _RAN.fullmatch(name)) is None:
        return None
    return paths.gate_log(agent_id, attempt, int(ran[2]), ran[1])


def files_of(paths: Paths, agent_id: str, attempt: int) -> dict[str, Path]:
    """Return the files that an attempt left on this machine, by name."""
    found = {name: place(paths, agent_id, attempt) for name, place in _ONE.items()}
    log = found["log"]
    for path in sorted(log.parent.glob(f"{attempt}.*-*.log")):
        name = path.name.removeprefix(f"{attempt}.").removesuffix(".log")
        if place_of(paths, AttemptFile(agent_id, attempt, name)) == path:
            found[name] = path
    return {name: path for name, path in found.items() if path.is_file()}
