"""How many agents one runner can run at once here: descriptors, processes and threads.

Raises the runner's own limit of descriptors, and restores the original limit for what it starts. It
must not decide what happens if there is less capacity than asked for.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import NamedTuple

from runtime import proc_table
from runtime.errors import RuntimeFault

LEAST_FILES = 36
"""Open files that a runner needs at least: for itself and one agent."""
_OWN_FILES = 27
"""Descriptors that a runner itself uses at peak: git, SQLite, its server."""
_FILES_EACH = 4
"""Descriptors per live agent: its pidfd, its log, and both ends of a pipe."""
_OWN_TASKS = 10
"""Processes and threads of a runner itself: threads, watcher, watchdog, git."""
_TASKS_EACH = 4
"""Processes and threads that a small agent needs, with its children."""
_PLENTY = 10_000
"""A limit on the processes of a user that never matters to a runner."""
_STARTS = 8
"""Descriptors used during the start of a process."""
_before: list[int] = []
"""The original limit, once it has been raised."""


class TooSmallError(RuntimeFault):
    """No runner can work here, and waiting does not help."""


class Room(NamedTuple):
    """How many agents can run, and which limit decides that."""

    agents: int
    why: str = ""
    tight: bool = False
    """There is barely room for one: skip everything optional."""


def raise_files() -> None:
    """Raise the limit on open files to the maximum; TooSmallError if that is too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard and not _before:
        _before.append(soft)
        for wanted in (hard, 10240):  # macOS refuses values above its real limit
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            except (OSError, ValueError):
                continue
            break
    most = _files()
    if most is not None and most < LEAST_FILES:
        raise TooSmallError(
            f"a process may open {most} files here, and a runner needs {LEAST_FILES} at least; "
            "raise the limit first: `ulimit -n 1024`"
        )


def files_before() -> int | None:
    """Return the limit to restore in a child; None if not needed or not possible."""
    if not _before:
        return None
    try:
        probe = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    os.close(probe)
    return _before[0] if probe + _STARTS < _before[0] else None


def room_for_agents() -> Room:
    """Return how many agents can run; at least one may always try."""
    rooms = [_by_files(), *map(_of_group, _pids_groups()), _of_user(), _of_machine()]
    least = min((room for room in rooms if room is not None), default=Room(sys.maxsize))
    return least._replace(agents=max(1, least.agents), tight=least.agents < 1)


def _by_files() -> Room | None:
    most = _files()
    if most is None:
        return None
    free = most - _open_files() - _OWN_FILES
    return Room(free // _FILES_EACH, f"a process may open {most} files here (`ulimit -n`)")


def _files() -> int | None:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def _open_files() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # names only
    except OSError:
        return len(os.listdir("/dev/fd"))  # noqa: PTH208  # as above


def _room(most: int, used: int, why: str) -> Room:
    return Room((most - used - _OWN_TASKS) // _TASKS_EACH, why)


def _pids_groups() -> list[Path]:
    """List the control groups, of either version, whose process limit applies to us."""
    found = []
    for line in _text("/proc/self/cgroup").splitlines():
        number, controllers, name = line.split(":", 2)
        tops = ["/sys/fs/cgroup/pids"] if "pids" in controllers.split(",") else []
        for top in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] if number == "0" else tops:
            folder = Path(top, name.strip("/"))
            found += [each for each in (folder, *folder.parents) if each.is_relative_to(top)]
    return found


def _of_group(folder: Path) -> Room | None:
    most, used = _text(folder / "pids.max").strip(), _text(folder / "pids.current").strip()
    if not most.isdigit() or not used.isdigit():
        return None
    why = f"the control group {folder} may have {most} processes and threads (pids.max)"
    return _room(int(most), int(used), why)


def _of_user() -> Room | None:
    most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    # No limit applies to root; counting all processes of a user takes time.
    if not os.geteuid() or not 0 <= most < _PLENTY:
        return None
    used = proc_table.tasks_of(os.getuid())
    return _room(most, used, f"a user may have {most} processes and threads here (`ulimit -u`)")


def _of_machine() -> Room | None:
    told = [_text(f"/proc/sys/kernel/{name}").strip() for name in ("threads-max", "pid_max")]
    most = min((int(each) for each in told if each.isdigit()), default=0)
    load = _text("/proc/loadavg").split()
    if not most or not load:
        return None
    used = int(load[3].split("/")[1])
    return _room(most, used, f"this machine may have {most} processes and threads")


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
