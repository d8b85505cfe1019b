"""Where our control groups are and what they can enforce, found out by trying each control.

It creates trial groups and removes them again. It must not keep any, nor change our own group,
except for enabling controllers of version 2 for groups below it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import secrets
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from runtime.processes.cgroups.files import read, write

_CONTROLLERS = ("memory", "cpu", "pids", "freezer")
UNIFIED = ""
"""The name under which version 2 is listed."""
_OCTAL = re.compile(r"\\([0-7]{3})")
_SEPARATOR = " - "


@dataclass(frozen=True, slots=True)
class CgroupLocation:
    """Our own group in one hierarchy, and the mount point of that hierarchy."""

    own: Path
    top: Path


def locate(mountinfo: str, membership: str) -> dict[str, CgroupLocation]:
    """Parse `/proc/self/mountinfo` and `/proc/self/cgroup`: controller of version 1, or UNIFIED."""
    paths = _paths(membership)
    places: dict[str, CgroupLocation] = {}
    for line in mountinfo.splitlines():
        before, found, after = line.partition(_SEPARATOR)
        fields, kind = before.split(), after.split()
        if not found or not kind or kind[0] not in {"cgroup", "cgroup2"}:
            continue
        root, top = _plain(fields[3]), Path(_plain(fields[4]))
        names = [UNIFIED] if kind[0] == "cgroup2" else kind[-1].split(",")
        for name in names:
            if name in {UNIFIED, *_CONTROLLERS} and name in paths:
                places.setdefault(name, CgroupLocation(_below(top, root, paths[name]), top))
    return places


def _paths(membership: str) -> dict[str, str]:
    paths = {}
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    return paths


def _below(top: Path, root: str, path: str) -> Path:
    """Find our group below a mount that may show only a part of the hierarchy."""
    inside = (
        path.removeprefix(root) if root != "/" and (path + "/").startswith(root + "/") else path
    )
    if ".." in inside.split("/"):
        # Our group is outside of our namespace; use the top of what it shows.
        return top
    return top / inside.lstrip("/")


def _plain(field: str) -> str:
    return _OCTAL.sub(lambda code: chr(int(code[1], 8)), field)


_TRIAL = "loopwright-trial-"
_JOIN_PATIENCE = 10.0
REMEDY = (
    "Run it where it may make control groups: under "
    "`systemd-run --user -p Delegate=yes -p DelegateSubgroup=runner --pty`, as root, or in a "
    "container with a writable /sys/fs/cgroup"
)


class Control(StrEnum):
    """What a group can do to all its members at once."""

    MEMORY = "memory"
    CPU = "cpu"
    PROCESSES = "processes"
    FREEZE = "freeze"
    KILL = "kill"


_OF_V1 = {
    Control.MEMORY: "memory",
    Control.CPU: "cpu",
    Control.PROCESSES: "pids",
    Control.FREEZE: "freezer",
    Control.KILL: "freezer",
}
_OF_V2 = {Control.MEMORY: "memory", Control.CPU: "cpu", Control.PROCESSES: "pids"}
_TRIAL_V1 = {
    Control.MEMORY: ("memory.limit_in_bytes", str(1 << 30)),
    Control.CPU: ("cpu.cfs_quota_us", "50000"),
    Control.PROCESSES: ("pids.max", "1000"),
    Control.FREEZE: ("freezer.state", "THAWED"),
    Control.KILL: ("freezer.state", "THAWED"),
}
_TRIAL_V2 = {
    Control.MEMORY: ("memory.max", str(1 << 30)),
    Control.CPU: ("cpu.max", "50000 100000"),
    Control.PROCESSES: ("pids.max", "1000"),
    Control.FREEZE: ("cgroup.freeze", "0"),
    Control.KILL: ("cgroup.kill", "1"),
}


@dataclass(frozen=True, slots=True)
class Ability:
    """Whether one thing can be done here: below which folder, else why not."""

    base: Path | None = None
    version: int = 0
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What can be enforced on a whole tree here."""

    memory: Ability
    cpu: Ability
    processes: Ability
    freeze: Ability
    kill: Ability

    def of(self, control: Control) -> Ability:
        """Return what is known about one thing."""
        ability: Ability = getattr(self, control.value)
        return ability


@functools.cache
def capabilities() -> Capabilities:
    """Find out what can be enforced here; cached."""
    if sys.platform != "linux":
        return nothing("control groups exist on Linux only")
    return probe(standing())


@functools.cache
def standing() -> dict[str, CgroupLocation]:
    """Return where this process is in the hierarchies; empty if there are none."""
    try:
        return locate(
            Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text()
        )
    except OSError:
        return {}


def tops() -> list[Path]:
    """List the mount points of the hierarchies; those that every group uses come first."""
    found = standing()
    order = (UNIFIED, "freezer", "pids", "memory", "cpu")
    return list(dict.fromkeys(found[name].top for name in order if name in found))


def nothing(why_not: str) -> Capabilities:
    """Describe a machine on which nothing can be enforced."""
    none = Ability(why_not=why_not)
    return Capabilities(none, none, none, none, none)


def probe(found: dict[str, CgroupLocation]) -> Capabilities:
    """Try everything below our own groups."""
    if not found:
        return nothing("no control groups are mounted")
    able = _unified(found[UNIFIED]) if UNIFIED in found else {}
    for control, controller in _OF_V1.items():
        if able.get(control, Ability()).base is None and controller in found:
            able[control] = _try(found[controller].own, 1, (control,))[control]
    missing = Ability(why_not="the kernel offers no such controller")
    return Capabilities(**{str(one): able.get(one, missing) for one in Control})


def _unified(place: CgroupLocation) -> dict[Control, Ability]:
    """Try version 2 in our own group, and in the one above when that gives more.

    A group with processes in it cannot enable controllers for its children; so a delegated group
    has its first process in a child group, and ours belong next to that.
    """
    tried = [_try(place.own, 2, tuple(_TRIAL_V2))]
    if place.own != place.top and any(one.base is None for one in tried[0].values()):
        tried.append(_try(place.own.parent, 2, tuple(_TRIAL_V2)))
    # All must be in one folder: a process is in only one group of version 2.
    return max(tried, key=lambda able: sum(one.base is not None for one in able.values()))


def _try(base: Path, version: int, controls: tuple[Control, ...]) -> dict[Control, Ability]:
    trial = base / f"{_TRIAL}{secrets.token_hex(6)}"
    if not os.access(base, os.W_OK):
        return dict.fromkeys(controls, Ability(why_not=f"{base} is not writable"))
    try:
        trial.mkdir()
    except OSError as error:
        why = f"no group can be made in {base}: {error.strerror}"
        return dict.fromkeys(controls, Ability(why_not=why))
    try:
        able = {}
        for control in controls:
            why = _set(base, trial, version, control)
            able[control] = Ability(why_not=why) if why else Ability(base, version)
        if any(one.base for one in able.values()) and (why := _join(trial)):
            return dict.fromkeys(controls, Ability(why_not=why))
        return able
    finally:
        with contextlib.suppress(OSError):
            trial.rmdir()


def _set(base: Path, trial: Path, version: int, control: Control) -> str:
    """Set one control for real; return why it cannot be set."""
    name, value = (_TRIAL_V1 if version == 1 else _TRIAL_V2)[control]
    controller = _OF_V2.get(control) if version == 2 else None  # noqa: PLR2004  # of the kernel
    try:
        if controller is not None and not (trial / name).exists():
            if controller not in read(base / "cgroup.controllers").split():
                return f"the controller {controller} is not enabled in {base}"
            write(base / "cgroup.subtree_control", f"+{controller}")
        write(trial / name, value)
    except OSError as error:
        return f"{trial.parent / '*' / name} cannot be set: {error.strerror}"
    return ""


def _join(trial: Path) -> str:
    """Have a process join for real; return why it cannot."""
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", 'echo 0 > "$0"', str(trial / "cgroup.procs")],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_JOIN_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"no process can join a group in {trial.parent}: {error}"
    if done.returncode:
        return f"no process can join a group in {trial.parent}: {done.stderr.decode().strip()}"
    return ""
