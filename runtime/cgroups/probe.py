"""What control groups can enforce here, found out by doing it, each thing by itself.

It makes trial groups and takes them away again. It must not keep any, and must not change our own
group but for handing controllers of version 2 down to groups below it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from runtime.cgroups import places
from runtime.cgroups.files import read, write

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
    """Find out what can be enforced here; asked again, it remembers."""
    if sys.platform != "linux":
        return nothing("control groups exist on Linux only")
    return probe(standing())


@functools.cache
def standing() -> dict[str, places.Place]:
    """Tell where this process stands in the hierarchies; nowhere, where there are none."""
    try:
        return places.find(
            Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text()
        )
    except OSError:
        return {}


def tops() -> list[Path]:
    """List where the hierarchies begin; the first ones are those that every group has a part in."""
    found = standing()
    order = (places.UNIFIED, "freezer", "pids", "memory", "cpu")
    return list(dict.fromkeys(found[name].top for name in order if name in found))


def nothing(why_not: str) -> Capabilities:
    """Describe a machine on which nothing can be enforced."""
    none = Ability(why_not=why_not)
    return Capabilities(none, none, none, none, none)


def probe(found: dict[str, places.Place]) -> Capabilities:
    """Try everything below our own groups."""
    if not found:
        return nothing("no control groups are mounted")
    able = _unified(found[places.UNIFIED]) if places.UNIFIED in found else {}
    for control, controller in _OF_V1.items():
        if able.get(control, Ability()).base is None and controller in found:
            able[control] = _try(found[controller].own, 1, (control,))[control]
    missing = Ability(why_not="the kernel offers no such controller")
    return Capabilities(**{str(one): able.get(one, missing) for one in Control})


def _unified(place: places.Place) -> dict[Control, Ability]:
    """Try version 2 in our own group, and in the one above when that gives more.

    A group with processes in it cannot hand controllers down; so whoever delegates one puts its
    first process into a group below, and the place for ours is beside that.
    """
    tried = [_try(place.own, 2, tuple(_TRIAL_V2))]
    if place.own != place.top and any(one.base is None for one in tried[0].values()):
        tried.append(_try(place.own.parent, 2, tuple(_TRIAL_V2)))
    # All must be in one folder: a process is in one group of version 2 only.
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
    """Set one thing for real; say why it cannot be."""
    name, value = (_TRIAL_V1 if version == 1 else _TRIAL_V2)[control]
    controller = _OF_V2.get(control) if version == 2 else None  # noqa: PLR2004  # of the kernel
    try:
        if controller is not None and not (trial / name).exists():
            if controller not in read(base / "cgroup.controllers").split():
                return f"the controller {controller} is not handed down to {base}"
            write(base / "cgroup.subtree_control", f"+{controller}")
        write(trial / name, value)
    except OSError as error:
        return f"{trial.parent / '*' / name} cannot be set: {error.strerror}"
    return ""


def _join(trial: Path) -> str:
    """Have a process join for real; say why it cannot."""
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
