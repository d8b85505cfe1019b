"""Names of control groups, and finding those that an earlier runner left.

It must not end anything.
"""

from __future__ import annotations

import functools
import os
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from runtime import proc_table
from runtime.processes import lineage_tag
from runtime.processes.cgroups.groups import Folder, Group
from runtime.processes.cgroups.probe import Control

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NAME = re.compile(r"loopwright\.(\d+)-(\d+)\.(.*)\.[0-9a-f]{12}")
_DEEPEST = 12
_LONGEST_MARK = 160


def fresh(mark: str) -> str:
    """Name a new group after its spawn and the runner that makes it."""
    return f"loopwright.{_runner(os.getpid())}.{_written(mark)}.{secrets.token_hex(6)}"


@functools.cache
def _runner(pid: int) -> str:
    row = proc_table.read_row(pid)
    return f"{pid}-{row.start if row else 0}"


def left(tops: Iterable[Path], mark: str | None = None) -> dict[str, list[Group]]:
    """Find the groups with this mark, or all, by mark; including this runner's own."""
    wanted = None if mark is None else _written(mark)
    found: dict[str, list[Group]] = {}
    for top in tops:
        for path in _named(os.fspath(top), _DEEPEST):
            written = _NAME.fullmatch(path.name)
            if written and wanted in (None, written[3]):
                found.setdefault(unquote(written[3]), []).append(_known(path))
    return found


def is_orphaned(group: Group) -> bool:
    """Tell whether the runner that made it is gone."""
    written = _NAME.fullmatch(group.folders[0].path.name)
    if written is None:
        return False
    row = proc_table.read_row(int(written[1]))
    return row is None or row.dead or row.start != int(written[2])


def _written(mark: str) -> str:
    written = quote(mark, safe="")
    if len(written) > _LONGEST_MARK:
        # Names are limited in length; the fingerprint keeps them distinct.
        return f"{written[:_LONGEST_MARK]}~{lineage_tag.fingerprint(mark):x}"
    return written


def _named(path: str, depth: int) -> Iterator[Path]:
    """Walk the groups; ours are not descended into."""
    try:
        entries = [entry for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith("loopwright."):
            yield Path(entry.path)
        elif depth:
            yield from _named(entry.path, depth - 1)


def _known(path: Path) -> Group:
    """Open a group made by another runner, with the controls it has."""
    if (path / "cgroup.events").exists():
        return Group([Folder(path, 2, frozenset({Control.FREEZE, Control.KILL}))])
    controls = set()
    if (path / "freezer.state").exists():
        controls = {Control.FREEZE, Control.KILL}
    elif (path / "pids.max").exists():
        controls = {Control.PROCESSES}
    return Group([Folder(path, 1, frozenset(controls))])
