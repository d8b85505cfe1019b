"""How many agents the machine lets one runner have at once: descriptors, processes and threads.

Raises the runner's own limit of descriptors, and gives what it starts the limit as it was. It must
not decide what happens where there is less room than was asked for.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import NamedTuple

from runtime import proctable
from runtime.errors import RuntimeFault

LEAST_FILES = 36
"""Open files without which no runner can do anything: itself and one agent."""
_OWN_FILES = 27
"""Descriptors that a runner uses for a moment beside its agents: git, SQLite, its server."""
_FILES_EACH = 4
"""Descriptors per live agent: its end, its log, and both ends of a pipe before it."""
_OWN_TASKS = 10
"""Processes and threads of a runner beside those of its agents: threads, watcher, watchdog, git."""
_TASKS_EACH = 4
"""Processes and threads that the smallest agent needs, with what it starts."""
_PLENTY = 10_000
"""Processes of a user that are more than any runner needs."""
_STARTS = 8
"""Descriptors that one start of a process takes for a moment."""
_before: list[int] = []
"""The limit as it was, once it has been raised."""


class TooSmallError(RuntimeFault):
    """No runner can work here, however long it waits."""


class Room(NamedTuple):
    """How many agents there is room for, and what they are held to it by."""

    agents: int
    why: str = ""
    tight: bool = False
    """There is hardly room for one: what can be done without should be."""


def raise_files() -> None:
    """Let this process open as many files as it may; TooSmallError where that is too few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard and not _before:
        _before.append(soft)
        for wanted in (hard, 10240):  # macOS refuses what it does not have
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
    """Return the limit that a child is given back, None where there is no need or no room to."""
    if not _before:
        return None
    try:
        probe = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    os.close(probe)
    return _before[0] if probe + _STARTS < _before[0] else None


def room_for_agents() -> Room:
    """Say how many agents fit in; one always may try."""
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
    """List the control groups, of either version, whose limit on processes holds for us."""
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
    # Root is held to none; to count all processes of a user takes time.
    if not os.geteuid() or not 0 <= most < _PLENTY:
        return None
    used = proctable.tasks_of(os.getuid())
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
