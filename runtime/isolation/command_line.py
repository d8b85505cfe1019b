"""The command line that starts a process inside a sandbox.

Pure. It must not read the disk or the environment of this process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from runtime.isolation import bubblewrap, containers
from runtime.isolation.sandbox import SandboxEngine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from runtime.isolation.sandbox import Sandbox
    from runtime.limits import Limits


class CommandLine(NamedTuple):
    """What to start, and with which environment."""

    command: tuple[str, ...]
    env: dict[str, str]
    cleanup: tuple[str, ...] = ()
    """The cleanup command to run after the process has ended; empty if none is needed."""


def wrapped(
    command: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    sandbox: Sandbox,
    limits: Limits | None = None,
) -> CommandLine:
    """Wrap a command so that it runs in the sandbox, with that environment and no other.

    No value of the environment becomes part of the command, which every user could read. `limits`
    are passed to podman and docker; the caller limits the processes of bubblewrap.
    """
    if sandbox.engine is SandboxEngine.BUBBLEWRAP:
        line = bubblewrap.command_line(command, cwd, env, sandbox)
        return CommandLine(line, bubblewrap.environment(env, sandbox))
    line = containers.command_line(command, cwd, env, sandbox, limits)
    return CommandLine(line, dict(env), containers.removal(env, sandbox))
