"""Starting one process: its folder, its prompt, its log, its session, and why it cannot start.

It must not keep, watch or end what it has started.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from runtime import lineage, orphans, proctable
from runtime.errors import RuntimeFault, ShortageError, SpawnError
from runtime.limits import NO_LIMITS, Limits
from runtime.ownership import make_private
from runtime.shortage import shortage_of
from runtime.watchdog import client as watchdog

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from runtime.cgroups.groups import Group
    from runtime.cgroups.probe import Capabilities
    from runtime.isolation.box import Box
    from runtime.logpump import LogPump
    from runtime.masking import Masker
    from runtime.watchdog.client import Entry

_LOG_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class SpawnOrder:
    """One process to start. `env` is added to what the allow-list lets through."""

    agent_id: str
    attempt: int
    spawn_id: str
    command: tuple[str, ...]
    cwd: Path
    stdin: Path | int
    """A file, or one that is open for this process alone."""
    log: Path
    env: Mapping[str, str]
    log_cap: int
    inherit: tuple[str, ...] = ()
    """Names of variables of the runner that it gets too, beside the allow-list."""
    last_on_path: str = ""
    """A folder of programs that are found where no other has the name."""
    forbids: tuple[str, ...] = ()
    """Names of variables that must not reach it unless they are in `env`."""
    limits: Limits = NO_LIMITS
    box: Box | None = None
    """What it is shut into; None is nothing but its own session."""
    allow_weaker: bool = False
    """Start it also where a limit cannot be enforced as asked; `AgentProcess.weaker` tells."""
    contained: str = ""
    """What it is shut into and held to, in words, for whoever records it."""
    weaker: tuple[str, ...] = ()
    """What was given weaker than asked before it came to this order."""
    made: tuple[str, ...] | None = None
    """What a set-up made in its folder: only programs among it are found by their names. None
    where all that lies there may be."""
    masker: Masker | None = None
    """Takes secrets out of its log. Only with secrets to take out its output comes through us."""


class Cleanup(NamedTuple):
    """What ends for good what is not in our processes, and in which environment it is run."""

    command: tuple[str, ...]
    env: dict[str, str]


class Started(NamedTuple):
    """A started process, what it hands down, and what confines it."""

    popen: subprocess.Popen[bytes]
    tag: int | None
    start_time: int
    entry: Entry
    """What the watchdog knows it by; to be left once nothing of it is left."""
    group: Group | None = None
    weaker: tuple[str, ...] = ()
    cleanup: Cleanup | None = None
    pump: LogPump | None = None
    """What carries its output to its log; None where it writes there by itself."""


class _Program(NamedTuple):
    """What is really started for an order: shut into its box, if it has one."""

    command: tuple[str, ...]
    env: dict[str, str]
    cleanup: Cleanup | None = None


class _Files(NamedTuple):
    prompt: int
    log: int
    """Where the process writes."""
    pump: LogPump | None


async def start(
    order: SpawnOrder, env: dict[str, str], able: Capabilities | None = None
) -> Started:
    """Start what is ordered; its exit is the caller's to notice. SpawnError says what to do.

    ShortageError where it could be started if the machine had room.

    `able` is what limits can be enforced by; left out, it is found out where there are limits.
    """
    if not order.command:
        raise SpawnError(f"Agent {order.agent_id} has no command. Give it one.")
    program, limits = _Program(order.command, env), order.limits
    if order.box is not None:
        program, limits = _boxed(order, order.box, env)
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


def _boxed(order: SpawnOrder, box: Box, env: dict[str, str]) -> tuple[_Program, Limits]:
    from runtime.isolation.box import Engine  # noqa: PLC0415  # most agents are not boxed
    from runtime.isolation.wrap import wrapped  # noqa: PLC0415  # as above

    inside = wrapped(order.command, order.cwd, env, box, order.limits)
    cleanup = Cleanup(inside.cleanup, inside.env) if inside.cleanup else None
    # Whoever makes containers holds them to their limits: they are not in our processes.
    ours = order.limits if box.engine is Engine.BUBBLEWRAP else NO_LIMITS
    return _Program(inside.command, inside.env, cleanup), ours


async def _start_limited(
    order: SpawnOrder,
    program: _Program,
    limits: Limits,
    able: Capabilities | None,
) -> Started:
    from runtime import entry  # noqa: PLC0415  # most agents have no limits

    weaker = entry.refusals(limits, able, allow_weaker=order.allow_weaker)
    entry.check_program(program.command[0], order.cwd, program.env)
    with contextlib.ExitStack() as undo:
        group = entry.group_for(limits, able, order.spawn_id)
        if group is not None:
            undo.callback(entry.discard, group)
            watchdog.told_of(group)
        report, words = os.pipe2(os.O_CLOEXEC) if hasattr(os, "pipe2") else os.pipe()
        with os.fdopen(report, "rb", buffering=0) as heard:
            with os.fdopen(words, "wb", buffering=0), _files(order) as files:
                line = entry.command_line(program.command, limits, group)
                started = _start(order, program._replace(command=line), files, words)
            undo.callback(started.entry.leave)
            if started.pump is not None:
                undo.callback(started.pump.close)
            undo.callback(started.popen.wait)
            undo.callback(started.popen.kill)
            with orphans.starting(started.popen.pid, started.tag):
                failed = await entry.entered(heard.fileno())
            if failed:
                raise SpawnError(
                    f"{order.command[0]} could not take its limits on, so it was not started: "
                    f"{failed}. Look at `loopwright doctor --isolation`, or leave the limits out."
                )
        undo.pop_all()
    return started._replace(group=group, weaker=weaker)


def _drop_empty(log: Path) -> None:
    """A log shows that a process began; it must not stay of one that did not."""
    with contextlib.suppress(OSError):
        if not log.lstat().st_size:
            log.unlink()


@contextlib.contextmanager
def _files(order: SpawnOrder) -> Iterator[_Files]:
    """Open the prompt and the log; their folder is made where it is not there yet."""
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
    """Put a pipe before the log, which stays open with it if the start succeeds."""
    from runtime.logpump import LogPump  # noqa: PLC0415  # only where there are secrets

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
    program: _Program,
    files: _Files,
    stderr: int | None = None,
) -> Started:
    with (
        lineage.tagging(order.spawn_id) as tag,
        watchdog.entered(lineage.fingerprint(order.spawn_id), tag, program.cleanup) as entry,
    ):
        before = proctable.instant()
        popen = subprocess.Popen(
            program.command,
            cwd=order.cwd,
            env=program.env,
            stdin=files.prompt,
            stdout=files.log,
            stderr=files.log if stderr is None else stderr,
            start_new_session=True,
        )
        after = proctable.instant()
    try:
        lineage.fasten(popen.pid, tag)
        start_time = proctable.start_of(popen.pid, before, after)
        entry.identify(popen.pid, start_time)
    except BaseException:
        # Nobody would know of it, and it may be started once more. Its entry stays: the watchdog
        # ends whatever it may have sent off already.
        os.killpg(popen.pid, signal.SIGKILL)
        popen.wait()
        raise
    return Started(popen, tag, start_time, entry, pump=files.pump, cleanup=program.cleanup)


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
        return f"{program} may not be executed. Make it executable (chmod +x) or name another."
    if isinstance(error, OSError) and error.filename == program:
        return f"{program} cannot be executed: {error.strerror}. Does its first line name a shell?"
    return f"{program} cannot be started: {error}."
