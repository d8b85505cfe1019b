"""How limits are applied to a process before it can start anything: a shell that then execs it.

A process that is moved into a group from outside may have children by then. Writing its pid after
the start takes 15 µs and is too late; moving the starting thread into the group and back takes
25 µs a group, is not possible in version 2, and leaves the runner limited if moving back fails.
The shell takes 0.8 ms of its own time and none of the runner's, and works with every version. It
adds PWD to the environment, as any shell does. It must not decide what the limits are.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shlex
import shutil
from typing import TYPE_CHECKING

from runtime.errors import SpawnError
from runtime.limits import LimitUnavailableError
from runtime.processes.cgroups import groups, names, probe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from runtime.limits import Limits
    from runtime.processes.cgroups.groups import Group
    from runtime.processes.cgroups.probe import Capabilities

_CONTROLS = {
    "memory_mb": probe.Control.MEMORY,
    "cpu_percent": probe.Control.CPU,
    "processes": probe.Control.PROCESSES,
}
_PATIENCE = 20.0
_MOST = 4096
_FAILED = "limits-not-taken-on"


def missing(limits: Limits, able: Capabilities | None = None) -> dict[str, str]:
    """Return the limits that cannot be enforced, by name, and why."""
    asked = {name: of for name, of in _CONTROLS.items() if getattr(limits, name) is not None}
    if not asked:
        return {}
    able = able or probe.capabilities()
    return {name: able.of(of).why_not for name, of in asked.items() if able.of(of).base is None}


def refusals(
    limits: Limits, able: Capabilities | None = None, *, allow_weaker: bool
) -> tuple[str, ...]:
    """Return what is not enforced as asked; LimitUnavailableError unless that is allowed.

    `able` is what limits can be enforced; if None, it is probed.
    """
    texts = []
    for name, why in missing(limits, able).items():
        text = limits.text(name)
        if not allow_weaker:
            raise LimitUnavailableError(
                f"The {text} cannot be enforced here: {why}. {probe.REMEDY}; or leave the limit "
                "out, or allow a weaker one."
            )
        how = "only watched, every few seconds" if name == "memory_mb" else "not enforced"
        texts.append(f"the {text} is {how}: {why}")
    return tuple(texts)


def group_for(limits: Limits, able: Capabilities | None, mark: str) -> Group | None:
    """Create the group that enforces what can be enforced; None if none is needed."""
    short = missing(limits, able)
    if all(getattr(limits, name) is None or name in short for name in _CONTROLS):
        return None
    able = able or probe.capabilities()
    try:
        return groups.make(names.fresh(mark), limits, able)
    except OSError as error:
        raise SpawnError(
            f"No control group could be made for the limits of {mark}: {error}. Raise the limit "
            "on control groups, or leave the limits out."
        ) from error


def discard(group: Group) -> None:
    """Remove the group of a process that did not start."""
    group.kill()
    group.remove()


def command_line(command: Sequence[str], limits: Limits, group: Group | None) -> tuple[str, ...]:
    """Build the command that applies the limits and then execs the real one.

    Until then its standard error is read by `entered`.
    """
    steps = []
    if limits.open_files is not None:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        most = limits.open_files if hard == resource.RLIM_INFINITY else min(limits.open_files, hard)
        steps.append(f"ulimit -n {most}")
    joins = group.joins if group is not None else ()
    steps += [f"echo 0 > {shlex.quote(os.fspath(path))}" for path in joins]
    script = " && ".join((*steps, 'exec "$@" 2>&1'))
    return ("/bin/sh", "-c", f"{script}; echo {_FAILED} >&2; exit 126", "sh", *command)


def check_program(program: str, cwd: Path, env: Mapping[str, str]) -> None:
    """Raise what starting it directly would raise: the shell would only report it in the log."""
    path = os.path.join(cwd, program) if os.sep in program else None  # noqa: PTH118  # as execve does
    if path is None:
        path = shutil.which(program, mode=os.F_OK, path=env.get("PATH", os.defpath))
    if path is None or not os.path.exists(path):  # noqa: PTH110  # may be a relative path
        raise FileNotFoundError(2, os.strerror(2), program)
    if not os.access(path, os.X_OK) or os.path.isdir(path):  # noqa: PTH112  # as above
        raise PermissionError(13, os.strerror(13), program)


async def entered(report: int) -> str:
    """Wait until the limits are applied; return why that failed, else nothing."""
    loop = asyncio.get_running_loop()
    said = bytearray()
    done = asyncio.Event()

    def read() -> None:
        with contextlib.suppress(BlockingIOError):
            data = os.read(report, _MOST)
            said.extend(data)
            if not data or len(said) > _MOST:
                loop.remove_reader(report)
                done.set()

    os.set_blocking(report, False)
    loop.add_reader(report, read)
    try:
        async with asyncio.timeout(_PATIENCE):
            await done.wait()
    except TimeoutError:
        return "it took too long"
    finally:
        loop.remove_reader(report)
    text = said.decode(errors="replace").strip()
    # Other output is ignored: a loader may print warnings and continue.
    return text.removesuffix(_FAILED).strip() or "it was refused" if text.endswith(_FAILED) else ""
