"""The command line that starts a process inside a box.

Pure: same arguments, same answer. It must not look at the disk or the environment of this process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from runtime.isolation import bubblewrap, containers
from runtime.isolation.box import Engine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from runtime.isolation.box import Box
    from runtime.limits import Limits


class Wrapped(NamedTuple):
    """What to start instead, and with which environment."""

    command: tuple[str, ...]
    env: dict[str, str]
    cleanup: tuple[str, ...] = ()
    """What to run once the process has ended or was killed; empty when nothing can be left."""


def wrapped(
    command: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    box: Box,
    limits: Limits | None = None,
) -> Wrapped:
    """Wrap a command so that it runs in the box, with that environment and no other.

    No value of the environment becomes part of the command, where everybody could read it. `limits`
    are passed on to podman and docker; bubblewrap's processes are limited by whoever starts them.
    """
    if box.engine is Engine.BUBBLEWRAP:
        line = bubblewrap.command_line(command, cwd, env, box)
        return Wrapped(line, bubblewrap.environment(env, box))
    line = containers.command_line(command, cwd, env, box, limits)
    return Wrapped(line, dict(env), containers.removal(env, box))
