"""Sandboxes made by podman or docker from an image, with every limit and right named.

Pure. It must not start anything or look at the disk.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from runtime.errors import IsolationError
from runtime.isolation.mounts import TEMPORARY, MountKind, mounts
from runtime.isolation.sandbox import SandboxEngine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from runtime.isolation.sandbox import Sandbox
    from runtime.limits import Limits

NAME_VARIABLE = "LOOPWRIGHT_SPAWN_ID"
"""The variable whose value names the container, so that it is found again."""
_UNASKED = 4096
"""Default limit on open files and processes: podman's own default, unlimited, needs a privilege
that a runner seldom has."""
_CLIENTS_OWN = frozenset({"HOME", "PATH", "XDG_RUNTIME_DIR", "TMPDIR", "TMP", "TEMP"})
"""Variables that the engine's program reads itself; inside, the image's own are used."""
_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]")


def command_line(
    command: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    sandbox: Sandbox,
    limits: Limits | None = None,
) -> tuple[str, ...]:
    """Build the whole command line."""
    podman = sandbox.engine is SandboxEngine.PODMAN
    rootfs = podman and sandbox.image.startswith("/")
    return (
        sandbox.program or sandbox.engine.command,
        *sandbox.options,
        *("run", "--rm", "--init", "--interactive", "--name", name(env)),
        # The output is logged from the standard streams; a second copy would have no cap.
        *("--log-driver=none", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges"),
        f"--network={'host' if sandbox.network else 'none'}",
        *_identity(sandbox),
        *((f"--ulimit=nproc={_UNASKED}:{_UNASKED}",) if podman else ()),
        *_limits(limits),
        *_mounts(sandbox, env),
        # Only the names: the values are passed in the environment of the program itself.
        *(f"--env={each}" for each in sorted(env) if each not in _CLIENTS_OWN),
        *((f"--env=HOME={env['HOME']}",) if "HOME" in env else ()),
        f"--env=TMPDIR={TEMPORARY}",
        *("--workdir", str(cwd)),
        *(("--rootfs", sandbox.image) if rootfs else ("--pull=never", sandbox.image)),
        *_with_own_programs(cwd, env),
        *command,
    )


def _with_own_programs(cwd: Path, env: Mapping[str, str]) -> tuple[str, ...]:
    """Put the programs of the folder itself before those of the image."""
    own = [each for each in env.get("PATH", "").split(os.pathsep) if each.startswith(f"{cwd}/")]
    if not own:
        return ()
    return ("/bin/sh", "-c", 'PATH="$0:$PATH" exec "$@"', os.pathsep.join(own))


def removal(env: Mapping[str, str], sandbox: Sandbox) -> tuple[str, ...]:
    """Build the command that ends and removes the container, even if its client is gone."""
    quietly = ("--time=0", "--ignore") if sandbox.engine is SandboxEngine.PODMAN else ()
    program = sandbox.program or sandbox.engine.command
    return (program, *sandbox.options, "rm", "--force", *quietly, name(env))


def name(env: Mapping[str, str]) -> str:
    """Name the container of a spawn."""
    return "loopwright-" + _FOREIGN.sub("-", env.get(NAME_VARIABLE, "unnamed"))


def _identity(sandbox: Sandbox) -> Iterator[str]:
    """Make files in the workspace belong to the user of the runner."""
    yield f"--user={os.getuid()}:{os.getgid()}"
    if sandbox.engine is SandboxEngine.PODMAN and os.getuid():
        yield "--userns=keep-id"


def _limits(limits: Limits | None) -> Iterator[str]:
    open_files = (limits.open_files if limits else None) or _UNASKED
    yield f"--ulimit=nofile={open_files}:{open_files}"
    yield "--ulimit=core=0:0"
    if limits is None:
        return
    if limits.memory_mb is not None:
        # Without the second, as much again may be swapped.
        yield f"--memory={limits.memory_mb}m"
        yield f"--memory-swap={limits.memory_mb}m"
    if limits.cpu_percent is not None:
        yield f"--cpus={limits.cpu_percent / 100:g}"
    if limits.processes is not None:
        yield f"--pids-limit={limits.processes}"


def _mounts(sandbox: Sandbox, env: Mapping[str, str]) -> Iterator[str]:
    for path, kind in mounts(sandbox, env):
        if ":" in str(path):
            raise IsolationError(f"{sandbox.engine} cannot show {path}: it has a colon. Rename it.")
        if kind is MountKind.EMPTY:
            yield f"--tmpfs={path}:rw,exec,mode=1777"
        elif kind is MountKind.NOTHING:
            yield f"--volume=/dev/null:{path}:ro"
        else:
            yield f"--volume={path}:{path}:{'ro' if kind is MountKind.READ else 'rw'}"
