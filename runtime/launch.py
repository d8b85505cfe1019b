"""Starting one process: its folder, its prompt, its log, its session, and why it cannot start.

It must not keep, watch or end what it has started.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from runtime import lineage
from runtime.errors import SpawnError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class SpawnOrder:
    """One process to start. `env` is added to what the allow-list lets through."""

    agent_id: str
    attempt: int
    spawn_id: str
    command: tuple[str, ...]
    cwd: Path
    stdin: Path
    log: Path
    env: Mapping[str, str]
    log_cap: int
    inherit: tuple[str, ...] = ()
    """Names of variables of the runner that it gets too, beside the allow-list."""


class Started(NamedTuple):
    """A started process and the lineage tag it hands down."""

    popen: subprocess.Popen[bytes]
    tag: int | None


def start(order: SpawnOrder, env: dict[str, str]) -> Started:
    """Start what is ordered; its exit is the caller's to notice. SpawnError says what to do."""
    if not order.command:
        raise SpawnError(f"Agent {order.agent_id} has no command. Give it one.")
    if not order.cwd.is_dir():
        raise SpawnError(
            f"{order.command[0]} cannot be started in {order.cwd}: there is no such folder. "
            "Restore or recreate the workspace."
        )
    try:
        order.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.ExitStack() as opened:
            prompt = os.open(order.stdin, os.O_RDONLY | os.O_CLOEXEC)
            opened.callback(os.close, prompt)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            log = os.open(order.log, flags, 0o600)
            opened.callback(os.close, log)
            with lineage.tagging() as tag:
                popen = subprocess.Popen(
                    order.command,
                    cwd=order.cwd,
                    env=env,
                    stdin=prompt,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
    except (OSError, ValueError) as error:
        raise SpawnError(_explain(order, error)) from error
    lineage.fasten(popen.pid, tag)
    return Started(popen, tag)


def _explain(order: SpawnOrder, error: OSError | ValueError) -> str:
    program = order.command[0]
    if isinstance(error, FileNotFoundError) and error.filename == program:
        return (
            f"{program} was not found from {order.cwd}. Install it, give its full path, or put "
            "its folder on the PATH of the runner."
        )
    if isinstance(error, PermissionError) and error.filename == program:
        return f"{program} may not be executed. Make it executable (chmod +x) or name another."
    if isinstance(error, OSError) and error.filename == program:
        return f"{program} cannot be executed: {error.strerror}. Does its first line name a shell?"
    return f"{program} cannot be started: {error}."
