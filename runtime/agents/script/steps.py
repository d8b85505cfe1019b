"""The verbs of the scripted agent's scripts, one function each.

A verb's parameters are its options, their annotations their types, its docstring its help. It
must not import at the top what only some verbs need.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    Step = Callable[..., None]

_CHUNK = 1 << 16
_POLL = 0.01
_NOBODY = ("-c", "user.name=Scripted Agent", "-c", "user.email=agent@localhost")


class ScriptError(Exception):
    """The script asks for something that makes no sense."""


class Leave(Exception):  # noqa: N818  # not an error: the script's way to end the agent
    """The script ends here, with this exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def say(text: str) -> None:
    """Print text and a newline to standard output."""
    _write_all(1, text.encode() + b"\n")


def err(text: str) -> None:
    """Print text and a newline to standard error."""
    _write_all(2, text.encode() + b"\n")


def flood(bytes: int, *, newlines: bool = True) -> None:  # noqa: A002  # a script's word
    """Print that many bytes, in lines of 80 or in a single one."""
    line = (b"x" * 79 + b"\n") if newlines else b"x" * 80
    chunk = line * (_CHUNK // len(line))
    while bytes > 0:
        _write_all(1, chunk[:bytes])
        bytes -= len(chunk)  # noqa: A001  # as above


def write(path: str, text: str = "") -> None:
    """Write a file, making its folders; what it held before is gone."""
    _put(path, text, "w")


def append(path: str, text: str = "") -> None:
    """Add text to the end of a file."""
    _put(path, text, "a")


def delete(path: str) -> None:
    """Remove a file; a missing one is not an error."""
    try:
        os.unlink(path)  # noqa: PTH108  # pathlib costs start-up time
    except FileNotFoundError:
        return


def commit(message: str = "Work") -> None:
    """Commit everything in the working folder with plain git, also when nothing changed."""
    quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    who = () if _run(["git", "var", "GIT_COMMITTER_IDENT"], quiet) == 0 else _NOBODY
    for arguments in (["add", "-A"], ["commit", "-q", "--allow-empty", "-m", message]):
        if code := _run(["git", *who, *arguments]):
            raise Leave(code)


def run(argv: list, *, may_fail: bool = False) -> None:  # type: ignore[type-arg]  # a name _TYPES knows
    """Run a program and wait; when it fails the agent ends with its code, unless it may fail."""
    if not argv or not all(isinstance(word, str) for word in argv):
        raise ScriptError("argv must be a list of texts, the program first")
    code = _run(argv)
    if code and not may_fail:
        raise Leave(code)


def sleep(s: float) -> None:
    """Wait that many seconds."""
    time.sleep(s)


def hang() -> NoReturn:
    """Do nothing forever, silently."""
    import signal  # noqa: PLC0415  # costs start-up time

    while True:
        signal.pause()


def spin(s: float) -> None:
    """Use that many seconds of processor time."""
    end = time.process_time() + s
    while time.process_time() < end:
        pass


def wait_file(path: str, s: float = 30.0) -> None:
    """Wait until a file exists; after that many seconds the agent ends with code 1."""
    end = time.monotonic() + s
    while not os.path.lexists(path):
        if time.monotonic() > end:
            err(f"{path} did not appear within {s} s")
            raise Leave(1)
        time.sleep(_POLL)


def read_prompt(path: str) -> None:
    """Copy standard input, to its end, to a file."""
    with open(path, "wb") as stream:  # noqa: PTH123  # as above
        while data := os.read(0, _CHUNK):
            stream.write(data)


def env(path: str, prefix: str = "LOOPWRIGHT_") -> None:
    """Write the environment variables with a prefix to a JSON file."""
    import json  # noqa: PLC0415  # loaded already, needed here only

    found = {name: value for name, value in os.environ.items() if name.startswith(prefix)}
    _put(path, json.dumps(found, indent=2, sort_keys=True), "w")


def ignore_term() -> None:
    """Ignore SIGTERM from now on; so will programs started later."""
    import signal  # noqa: PLC0415  # costs start-up time

    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def child(s: float) -> None:
    """Leave a program running in the background, in the same session, that sleeps s seconds."""
    os.posix_spawnp("sleep", ["sleep", str(s)], os.environ)


def daemon(s: float, *, path: str = "", clear_env: bool = False) -> None:
    """Start a daemon in its own session that sleeps s seconds and then makes the file path."""
    words = ["sh", "-c", 'sleep "$1"; [ -z "$2" ] || : > "$2"', "sh", str(s), path]
    between = os.fork()
    if between == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve("/bin/sh", words, {} if clear_env else os.environ)  # noqa: S606  # a shell it is
        os._exit(0)
    os.waitpid(between, 0)


def exit(code: int) -> None:  # noqa: A001  # a script's word
    """End with an exit code."""
    raise Leave(code)


def crash(signal: str = "SIGSEGV") -> None:
    """End by a signal, leaving no core file."""
    import resource  # noqa: PLC0415  # costs start-up time
    import signal as signals  # noqa: PLC0415  # as above

    name = signal if signal.startswith("SIG") else f"SIG{signal}"
    if name not in signals.Signals.__members__:
        raise ScriptError(f"there is no signal {signal!r}")
    number = signals.Signals[name]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number not in (signals.SIGKILL, signals.SIGSTOP):
        signals.signal(number, signals.SIG_DFL)
    os.kill(os.getpid(), number)


def lie(summary: str = "Everything is done and all tests pass.") -> None:
    """Report task_complete without having done anything."""
    breakpoint("task_complete", summary)


def breakpoint(  # noqa: A001, PLR0913  # a script's word; one parameter per field
    type: str,  # noqa: A002  # as above
    summary: str = "",
    *,
    blocked_on: list | str | None = None,  # type: ignore[type-arg]  # as above
    reason: str = "",
    pr_url: str = "",
    question: str = "",
    how: str = "rename",
    agent_id: str | None = None,
    spawn_id: str | None = None,
    task_id: str | None = None,
    lifecycle_state: str | None = None,
    seq: int | None = None,
    pause: float = 0.2,
    bytes: int = 1 << 26,  # noqa: A002  # as above
) -> None:
    """Write a breakpoint into LOOPWRIGHT_COMM_FILE, whole or broken in the way `how` names."""
    from runtime.agents.script import mailbox_faults  # noqa: PLC0415  # not every script signals

    said = {
        "type": type,
        "task_id": os.environ.get("LOOPWRIGHT_TASK_ID", "") if task_id is None else task_id,
        "summary": summary,
        "blocked_on": [blocked_on] if isinstance(blocked_on, str) else blocked_on,
        "reason": reason,
        "pr_url": pr_url,
        "question": question,
        "spawn_id": os.environ.get("LOOPWRIGHT_SPAWN_ID", "") if spawn_id is None else spawn_id,
        "seq": seq,
    }
    path = os.environ.get("LOOPWRIGHT_COMM_FILE", "")
    owner = os.environ.get("LOOPWRIGHT_AGENT_ID", "") if agent_id is None else agent_id
    if how not in mailbox_faults.WAYS:
        raise ScriptError(f"how must be one of {', '.join(mailbox_faults.WAYS)}, not {how!r}")
    if not path or not owner:
        raise ScriptError("LOOPWRIGHT_COMM_FILE and LOOPWRIGHT_AGENT_ID must be set")
    mailbox_faults.signal(
        path,
        owner,
        lifecycle_state,
        {key: value for key, value in said.items() if value not in ("", None)},
        mailbox_faults.MailboxFault(how, pause, bytes),
    )


def _put(path: str, text: str, mode: str) -> None:
    if folder := os.path.dirname(path):  # noqa: PTH120  # pathlib costs start-up time
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103  # as above
    with open(path, mode, encoding="utf-8") as stream:  # noqa: PTH123  # as above
        stream.write(text)


def _run(argv: list[str], actions: list[tuple[int, int, str, int, int]] | None = None) -> int:
    pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=actions or [])
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return 128 - code if code < 0 else code


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


_ALL = (
    *(breakpoint, lie, write, append, delete, commit, run, say, err, flood, read_prompt, env),
    *(sleep, wait_file, hang, spin, child, daemon, ignore_term, exit, crash),
)
VERBS: dict[str, Step] = {verb.__name__: verb for verb in _ALL}
