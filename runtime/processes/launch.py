"""Starting one process: its folder, prompt, log and session, and why it cannot start.

It must not keep, watch or end what it has started.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from runtime import proc_table
from runtime.errors import RuntimeFault, ShortageError, SpawnError
from runtime.isolation.command_line import CommandLine, wrapped
from runtime.isolation.sandbox import SandboxEngine
from runtime.limits import NO_LIMITS, Limits
from runtime.logs.masking_pump import LogPump
from runtime.private_files import make_private
from runtime.processes import limit_shell, lineage_tag, orphans
from runtime.processes.watchdog import client as watchdog
from runtime.shortage import shortage_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from runtime.isolation.sandbox import Sandbox
    from runtime.masking.masker import Masker
    from runtime.processes.cgroups.groups import Group
    from runtime.processes.cgroups.probe import Capabilities
    from runtime.processes.watchdog.client import RegisteredTree

_LOG_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class SpawnOrder:
    """One process to start. `env` is added to the inherited variables of the allow-list."""

    agent_id: str
    attempt: int
    spawn_id: str
    command: tuple[str, ...]
    cwd: Path
    stdin: Path | int
    """A path, or a file descriptor for this process alone."""
    log: Path
    env: Mapping[str, str]
    log_cap: int
    inherit: tuple[str, ...] = ()
    """Names of variables of the runner that it also gets, besides the allow-list."""
    last_on_path: str = ""
    """A folder to append to its PATH."""
    forbids: tuple[str, ...] = ()
    """Names of variables that must not reach it unless they are in `env`."""
    limits: Limits = NO_LIMITS
    sandbox: Sandbox | None = None
    """Its sandbox; None is nothing but its own session."""
    allow_weaker: bool = False
    """Start it even if a limit cannot be enforced as asked; see `AgentProcess.weaker`."""
    contained: str = ""
    """A description of its sandbox and limits, for the records."""
    weaker: tuple[str, ...] = ()
    """What was already weakened before this order was made."""
    made: tuple[str, ...] | None = None
    """What a set-up made in its folder: only programs among it are put on the PATH. None: all
    programs of the folder are."""
    masker: Masker | None = None
    """Redacts secrets in its log. Output is piped through the runner only if there are secrets."""


class StartedProcess(NamedTuple):
    """A started process, its lineage tag, and what confines it."""

    popen: subprocess.Popen[bytes]
    tag: int | None
    start_time: int
    entry: RegisteredTree
    """Its entry in the watchdog's register; to be removed once nothing of it is left."""
    group: Group | None = None
    weaker: tuple[str, ...] = ()
    cleanup: watchdog.Cleanup | None = None
    pump: LogPump | None = None
    """Copies its output to its log; None if it writes there directly."""


class _Files(NamedTuple):
    prompt: int
    log: int
    """Where the process writes."""
    pump: LogPump | None


async def start(
    order: SpawnOrder, env: dict[str, str], able: Capabilities | None = None
) -> StartedProcess:
    """Start what is ordered; the caller watches its exit. SpawnError says what to do.

    ShortageError if the machine is short of something for the moment.

    `able` is what limits can be enforced; if None, it is probed when there are limits.
    """
    if not order.command:
        raise SpawnError(f"Agent {order.agent_id} has no command. Give it one.")
    program, limits = CommandLine(order.command, env), order.limits
    if order.sandbox is not None:
        program, limits = _sandboxed(order, order.sandbox, env)
    try:
        await watchdog.ready()
        if limits:
            return await _start_limited(order, program, limits, able)
        with _files(order) as files:
            return _start(order, program, files)
    except (RuntimeFault, OSError, ValueError, MemoryError) as error:
        _drop_empty(order.log)
        if short := shortage_of(error):
            raise ShortageError(f"{order.command[0]} cannot be started: {short}") from error
        if isinstance(error, (RuntimeFault, MemoryError)):
            raise
        raise SpawnError(_explain(order, program.command[0], error)) from error


def _sandboxed(
    order: SpawnOrder, sandbox: Sandbox, env: dict[str, str]
) -> tuple[CommandLine, Limits]:
    # The container engine enforces the limits of its containers: they are not our processes.
    ours = order.limits if sandbox.engine is SandboxEngine.BUBBLEWRAP else NO_LIMITS
    return wrapped(order.command, order.cwd, env, sandbox, order.limits), ours


async def _start_limited(
    order: SpawnOrder,
    program: CommandLine,
    limits: Limits,
    able: Capabilities | None,
) -> StartedProcess:
    weaker = limit_shell.refusals(limits, able, allow_weaker=order.allow_weaker)
    limit_shell.check_program(program.command[0], order.cwd, program.env)
    with contextlib.ExitStack() as undo:
        group = limit_shell.group_for(limits, able, order.spawn_id)
        if group is not None:
            undo.callback(limit_shell.discard, group)
            watchdog.told_of(group)
        report, words = os.pipe2(os.O_CLOEXEC) if hasattr(os, "pipe2") else os.pipe()
        with os.fdopen(report, "rb", buffering=0) as heard:
            with os.fdopen(words, "wb", buffering=0), _files(order) as files:
                line = limit_shell.command_line(program.command, limits, group)
                started = _start(order, program._replace(command=line), files, words)
            undo.callback(started.entry.leave)
            if started.pump is not None:
                undo.callback(started.pump.close)
            undo.callback(started.popen.wait)
            undo.callback(started.popen.kill)
            with orphans.starting(started.popen.pid, started.tag):
                failed = await limit_shell.entered(heard.fileno())
            if failed:
                raise SpawnError(
                    f"{order.command[0]} could not apply its limits, so it was not started: "
                    f"{failed}. Look at `loopwright doctor --isolation`, or leave the limits out."
                )
        undo.pop_all()
    return started._replace(group=group, weaker=weaker)


def _drop_empty(log: Path) -> None:
    """Remove the log of a process that did not start: a log shows that one did."""
    with contextlib.suppress(OSError):
        if not log.lstat().st_size:
            log.unlink()


@contextlib.contextmanager
def _files(order: SpawnOrder) -> Iterator[_Files]:
    """Open the prompt and the log, creating the log's folder."""
    prompt = order.stdin
    if not isinstance(prompt, int):
        prompt = os.open(prompt, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            log = os.open(order.log, _LOG_FLAGS, 0o600)
        except FileNotFoundError:
            make_private(order.log.parent)
            log = os.open(order.log, _LOG_FLAGS, 0o600)
        if order.masker:
            with _piped(log, order.masker) as pump:
                yield _Files(prompt, pump.sink, pump)
            return
        try:
            yield _Files(prompt, log, None)
        finally:
            os.close(log)
    finally:
        if prompt is not order.stdin:
            os.close(prompt)


@contextlib.contextmanager
def _piped(log: int, masker: Masker) -> Iterator[LogPump]:
    """Put a pipe before the log; both stay open if the start succeeds."""
    with contextlib.ExitStack() as undo:
        undo.callback(os.close, log)
        pump = LogPump(log, masker)
        undo.pop_all()
        undo.callback(pump.close)
        yield pump
        undo.pop_all()
        pump.started()


def _start(
    order: SpawnOrder,
    program: CommandLine,
    files: _Files,
    stderr: int | None = None,
) -> StartedProcess:
    cleanup = watchdog.Cleanup(program.cleanup, program.env) if program.cleanup else None
    mark = order.spawn_id
    with (
        lineage_tag.tagging(mark) as tag,
        watchdog.entered(mark, lineage_tag.fingerprint(mark), tag, cleanup) as entry,
    ):
        before = proc_table.instant()
        popen = subprocess.Popen(
            program.command,
            cwd=order.cwd,
            env=program.env,
            stdin=files.prompt,
            stdout=files.log,
            stderr=files.log if stderr is None else stderr,
            start_new_session=True,
        )
        after = proc_table.instant()
    try:
        lineage_tag.fasten(popen.pid, tag)
        start_time = proc_table.start_of(popen.pid, before, after)
        entry.identify(popen.pid, start_time)
    except BaseException:
        # It is not registered anywhere else and may be started again. Its entry stays: the
        # watchdog ends what it may have started already.
        os.killpg(popen.pid, signal.SIGKILL)
        popen.wait()
        raise
    return StartedProcess(popen, tag, start_time, entry, pump=files.pump, cleanup=cleanup)


def _explain(order: SpawnOrder, program: str, error: OSError | ValueError) -> str:
    if not order.cwd.is_dir():
        return (
            f"{order.command[0]} cannot be started in {order.cwd}: there is no such folder. "
            "Restore or recreate the workspace."
        )
    if isinstance(error, FileNotFoundError) and error.filename == program:
        return (
            f"{program} was not found from {order.cwd}. Install it, give its full path, or put "
            "its folder on the PATH of the runner."
        )
    if isinstance(error, PermissionError) and error.filename == program:
        return f"{program} is not executable. Make it executable (chmod +x) or use another program."
    if isinstance(error, OSError) and error.filename == program:
        return f"{program} cannot be executed: {error.strerror}. Check its first line (#!)."
    return f"{program} cannot be started: {error}."
