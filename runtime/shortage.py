"""Temporary shortages of a machine, and how they are reported.

Owns which errors mean a shortage: descriptors, processes and threads, memory. Nothing is broken,
and the same start succeeds later. It must not wait: the caller decides when to retry.
"""

from __future__ import annotations

import errno
import re

from runtime.errors import ShortageError

FILES = "raise `ulimit -n` or lower max_live_agents"
PROCESSES = (
    "end other programs, raise `ulimit -u` or the limit of the container or service on processes "
    "(pids.max, TasksMax), or lower max_live_agents"
)
_SHORT = {
    errno.EMFILE: f"file descriptors (EMFILE): {FILES}",
    errno.ENFILE: (
        "file descriptors (ENFILE): end other programs, raise fs.file-max or lower max_live_agents"
    ),
    errno.EAGAIN: f"processes or threads (EAGAIN): {PROCESSES}",
    errno.ENOMEM: (
        "memory (ENOMEM): end other programs, add memory or swap, or lower max_live_agents"
    ),
}
_NO_THREAD = "can't start new thread"
_SAID = (
    (errno.EMFILE, re.compile("too many open files(?! in system)")),
    (errno.ENFILE, re.compile("too many open files in system")),
    (errno.EAGAIN, re.compile("resource temporarily unavailable|(?:create|start).{0,20} thread")),
    (errno.ENOMEM, re.compile("cannot allocate memory|out of memory")),
)
_FROM_AFAR = "remote:"
"""The prefix of lines that another machine wrote."""


def shortage_of(error: BaseException) -> str:
    """Say what the machine is short of if that caused the error; else nothing.

    The causes of the error count, too.
    """
    cause: BaseException | None = error
    seen: list[BaseException] = []  # causes may form a cycle
    while cause is not None and not any(cause is each for each in seen):
        if isinstance(cause, ShortageError):
            return str(cause)
        if number := _number(cause):
            return told(number)
        seen.append(cause)
        cause = cause.__cause__
    return ""


def told(number: int) -> str:
    """Describe the shortage behind an error number, and what to do."""
    return f"this machine is short of {_SHORT[number]}"


def said_by_program(stderr: str) -> str:
    """Say what the machine is short of, from a program's error output; else nothing."""
    lines = stderr.lower().splitlines()
    own = "\n".join(line for line in lines if not line.startswith(_FROM_AFAR))
    return next((told(number) for number, words in _SAID if words.search(own)), "")


def _number(error: BaseException) -> int:
    if isinstance(error, OSError):
        return error.errno if error.errno in _SHORT else 0
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    no_thread = isinstance(error, RuntimeError) and _NO_THREAD in str(error)
    return errno.EAGAIN if no_thread else 0
