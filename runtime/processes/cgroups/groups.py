"""The control groups of one agent: create, configure, read, freeze, kill, remove.

It must not know why an agent runs or ends, nor wait: freezing and killing are only requested, the
caller polls until they are done.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.processes.cgroups.files import read, write
from runtime.processes.cgroups.probe import Capabilities, Control

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from runtime.limits import Limits

_PERIOD = 100_000
"""Microseconds over which processor time is shared out."""
_UNIFIED = 2
_AT_ONCE = 64
"""Handles opened at the same time."""


@dataclass(frozen=True, slots=True)
class Folder:
    """One group in one hierarchy, and what it is used for."""

    path: Path
    version: int
    controls: frozenset[Control]


class Group:
    """One agent and all it starts, in one folder per hierarchy."""

    def __init__(self, folders: Iterable[Folder]) -> None:
        self.folders = tuple(folders)
        self._by_control = {
            control: folder for folder in self.folders for control in folder.controls
        }

    @property
    def joins(self) -> tuple[Path, ...]:
        """The files that a process writes 0 into to become a member."""
        return tuple(folder.path / "cgroup.procs" for folder in self.folders)

    @property
    def freezes(self) -> bool:
        """It can be frozen."""
        return Control.FREEZE in self._by_control

    def members(self) -> set[int]:
        """List the processes in it. A new one may be missing: see `empty`."""
        found: set[int] = set()
        for folder in self.folders:
            found.update(map(int, read(folder.path / "cgroup.procs").split()))
        # A process of another namespace has no pid here.
        return found - {0}

    def empty(self) -> bool:
        """Tell whether it is empty; version 2 has a reliable flag for that."""
        return all(self._is_empty(folder) for folder in self.folders)

    @staticmethod
    def _is_empty(folder: Folder) -> bool:
        if folder.version == _UNIFIED and (events := read(folder.path / "cgroup.events")):
            return "populated 0" in events
        return not read(folder.path / "cgroup.procs")

    def memory_bytes(self) -> int | None:
        """Return the memory it uses; None if its memory is not counted."""
        folder = self._by_control.get(Control.MEMORY)
        if folder is None:
            return None
        name = "memory.current" if folder.version == _UNIFIED else "memory.usage_in_bytes"
        return int(read(folder.path / name) or 0)

    def out_of_memory(self) -> bool:
        """Tell whether the kernel killed a member because of the memory limit."""
        folder = self._by_control.get(Control.MEMORY)
        if folder is None:
            return False
        name = "memory.events" if folder.version == _UNIFIED else "memory.oom_control"
        return _count(read(folder.path / name), "oom_kill") > 0

    def refused_processes(self) -> bool:
        """Tell whether a fork was refused because of the process limit."""
        folder = self._by_control.get(Control.PROCESSES)
        return folder is not None and _count(read(folder.path / "pids.events"), "max") > 0

    def memory_alarm(self) -> int | None:
        """Open an eventfd that becomes readable when memory runs out; None if not needed.

        Version 2 then kills the whole group by itself; version 1 only one process.
        """
        folder = self._by_control.get(Control.MEMORY)
        if sys.platform != "linux" or folder is None or folder.version == _UNIFIED:
            return None
        alarm = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            watched = os.open(folder.path / "memory.oom_control", os.O_RDONLY | os.O_CLOEXEC)
            try:
                write(folder.path / "cgroup.event_control", f"{alarm} {watched}")
            finally:
                os.close(watched)
        except OSError:
            os.close(alarm)
            return None
        return alarm

    def freeze(self, *, frozen: bool) -> None:
        """Request freezing or thawing all of it."""
        folder = self._by_control[Control.FREEZE]
        if folder.version == _UNIFIED:
            write(folder.path / "cgroup.freeze", str(int(frozen)))
        else:
            write(folder.path / "freezer.state", "FROZEN" if frozen else "THAWED")

    def frozen(self) -> bool:
        """Tell whether all of it is frozen by now."""
        folder = self._by_control[Control.FREEZE]
        if folder.version == _UNIFIED:
            return "frozen 1" in read(folder.path / "cgroup.events")
        return read(folder.path / "freezer.state").strip() == "FROZEN"

    def kill(self) -> None:
        """Kill all of it. Without kernel support, call it repeatedly until it is empty."""
        folder = self._by_control.get(Control.KILL)
        with contextlib.suppress(OSError):
            if folder is not None and folder.version == _UNIFIED:
                write(folder.path / "cgroup.kill", "1")
            elif folder is not None:
                self.freeze(frozen=True)
            elif Control.PROCESSES in self._by_control:
                # No member can fork any more.
                write(self._by_control[Control.PROCESSES].path / "pids.max", "0")
        self._kill_each()
        if folder is not None:
            with contextlib.suppress(OSError):
                self.freeze(frozen=False)

    def _kill_each(self) -> None:
        """Kill its members one by one; a pid that was reused is not a member."""
        listed = sorted(self.members())
        for first in range(0, len(listed), _AT_ONCE):
            with contextlib.ExitStack() as opened:
                handles = {}
                for pid in listed[first : first + _AT_ONCE]:
                    with contextlib.suppress(OSError):
                        handles[pid] = os.pidfd_open(pid)
                        opened.callback(os.close, handles[pid])
                for pid in handles.keys() & self.members():
                    with contextlib.suppress(OSError):
                        signal.pidfd_send_signal(handles[pid], signal.SIGKILL)

    def remove(self) -> bool:
        """Remove it with the groups its members made below it; False while it is not empty."""
        left = [folder for folder in self.folders if not _remove(folder.path)]
        return not left


def make(name: str, limits: Limits, able: Capabilities) -> Group:
    """Create a group that enforces what it can of these limits; OSError if that fails."""
    wanted = [control for control in Control if _is_wanted(control, limits)]
    by_path: dict[tuple[Path, int], set[Control]] = {}
    for control in wanted:
        ability = able.of(control)
        if ability.base is not None:
            by_path.setdefault((ability.base / name, ability.version), set()).add(control)
    group = Group(Folder(path, version, frozenset(of)) for (path, version), of in by_path.items())
    try:
        for folder in group.folders:
            folder.path.mkdir()
            _apply(folder, limits)
    except OSError:
        group.remove()
        raise
    return group


def _is_wanted(control: Control, limits: Limits) -> bool:
    asked = {
        Control.MEMORY: limits.memory_mb,
        Control.CPU: limits.cpu_percent,
        Control.PROCESSES: limits.processes,
    }
    return control not in asked or asked[control] is not None


def _apply(folder: Folder, limits: Limits) -> None:
    unified, path = folder.version == _UNIFIED, folder.path
    if Control.MEMORY in folder.controls and limits.memory_mb is not None:
        size = str(limits.memory_mb << 20)
        write(path / ("memory.max" if unified else "memory.limit_in_bytes"), size)
        # Else memory over the limit would be swapped out instead.
        swap, most = ("memory.swap.max", "0") if unified else ("memory.memsw.limit_in_bytes", size)
        with contextlib.suppress(FileNotFoundError):
            write(path / swap, most)
        if unified:
            write(path / "memory.oom.group", "1")
    if Control.CPU in folder.controls and limits.cpu_percent is not None:
        quota = limits.cpu_percent * _PERIOD // 100
        if unified:
            write(path / "cpu.max", f"{quota} {_PERIOD}")
        else:
            write(path / "cpu.cfs_period_us", str(_PERIOD))
            write(path / "cpu.cfs_quota_us", str(quota))
    if Control.PROCESSES in folder.controls and limits.processes is not None:
        write(path / "pids.max", str(limits.processes))


def _remove(path: Path) -> bool:
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        below = [entry for entry in _folders(path) if not _remove(entry)]
        if below:
            return False
        try:
            path.rmdir()
        except OSError:
            return False
    return True


def _folders(path: Path) -> list[Path]:
    try:
        return [entry for entry in path.iterdir() if entry.is_dir()]
    except OSError:
        return []


def _count(text: str, name: str) -> int:
    found = re.search(rf"^{name} (\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else 0
