"""What every test must leave as it found it: processes, tasks, threads, handles, home, checkout.

A pytest plugin, loaded for the whole suite by `conftest.py`. It judges only this worker process, so
that tests beside it are never blamed.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from runtime import proc_table
from runtime.processes.watchdog import client as watchdog
from runtime.remove_tree import remove_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PATIENCE = 20.0
"""Seconds that something which is just ending may take to be gone."""
CHECKOUT = Path(__file__).resolve().parents[1]
REAL_HOME = Path(os.path.expanduser("~")).resolve()  # noqa: PTH111  # before HOME is replaced
CACHES = ("/__pycache__", "/.hypothesis", "/.pytest_cache/", "/.mypy_cache/", "/.coverage")
HANDLES = Path("/dev/fd")
KEPT_OPEN = ("/dev/null", "/dev/urandom", "/proc")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
CHANGES = {
    "os.mkdir": ((0, 2),),
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
}
"""Of each event: where its changed paths are, and where the open folder each is relative to."""
NO_FOLDER = -1


class _Trespass:
    """What was written where no test may write; an audit hook cannot be taken off again."""

    def __init__(self) -> None:
        self.watching = False
        self.found: list[str] = []
        self.protected: tuple[str, ...] = ()
        self.allowed: tuple[str, ...] = ()

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.watching:
            return
        if event == "open":
            path, mode, flags = args
            if flags & WRITES if isinstance(flags, int) else set(str(mode)) & set("wax+"):
                self.consider(path)
        elif event in CHANGES:
            for path, folder in CHANGES[event]:
                if args[folder] == NO_FOLDER:
                    self.consider(args[path])

    def consider(self, path: object) -> None:
        if not isinstance(path, (str, bytes, os.PathLike)):
            return
        full = os.path.abspath(os.fsdecode(path))  # noqa: PTH100  # called for every file opened
        if (
            full.startswith(self.protected)
            and not full.startswith(self.allowed)
            and not any(cache in full for cache in CACHES)
        ):
            self.found.append(full)


_trespass = _Trespass()
_unfinished: list[str] = []
"""Tasks that an event loop found alive when it was closed."""


def pytest_configure(config: pytest.Config) -> None:
    """Watch from the start: what is written, and what a closing event loop has to cancel."""
    del config
    # As images of containers have it: then each of a thousand processes compiles what it imports.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    gc.disable()  # until all is collected: nothing of that is garbage
    sys.addaudithook(_trespass.hook)
    cancel_all: Callable[[asyncio.AbstractEventLoop], None] = asyncio.runners._cancel_all_tasks  # type: ignore[attr-defined]  # the one place all loops end in

    def noticed(loop: asyncio.AbstractEventLoop) -> None:
        _unfinished.extend(task.get_name() for task in asyncio.all_tasks(loop))
        cancel_all(loop)

    asyncio.runners._cancel_all_tasks = noticed  # type: ignore[attr-defined]  # as above
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Begun in the background by a script, where nobody hears Ctrl-C: what we start would not.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Spare what is there for good from the garbage collector: all tests, and what they import."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def clean_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with nothing in it but a git user; all tests share it, none may write there."""
    home = tmp_path_factory.mktemp("home")
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Test\n\temail = test@example.org\n[init]\n\tdefaultBranch = main\n"
    )
    folders = [str(CHECKOUT) + os.sep, str(REAL_HOME) + os.sep]
    _trespass.protected = tuple(folder for folder in folders if folder != os.sep * 2)
    scratch = Path(tempfile.gettempdir()).resolve()
    # A checkout below the temporary folder is not scratch space for that.
    anywhere = () if CHECKOUT.is_relative_to(scratch) else (str(scratch),)
    # Python compiles what is imported for the first time, beside the installed source.
    installed = str(Path(sys.prefix)) + os.sep
    _trespass.allowed = (str(tmp_path_factory.getbasetemp()), installed, *anywhere)
    # It stays with this process to its end, so no test is to be blamed for it.
    watchdog.begin()
    return home


@pytest.fixture(autouse=True)
def _own_surroundings(clean_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Cut the test off from the settings of the user who runs it."""
    for name in tuple(os.environ):
        if name.startswith(("GIT_", "XDG_", "LOOPWRIGHT_", "OTEL_", "TRACEPARENT")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(clean_home))
    # A runner that serves keeps its token there; made only where one does.
    own = clean_home.parent / f"config-{uuid.uuid4().hex[:12]}"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(own))
    # Agents work there; whatever a test leaves in it goes with the test.
    state = clean_home.parent / f"state-{uuid.uuid4().hex[:12]}"
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(clean_home / ".gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    yield
    remove_tree(state)


@pytest.fixture(autouse=True)
def _leaves_nothing_behind(clean_home: Path, _own_surroundings: None) -> Iterator[None]:
    """Fail the test that leaves a process, a task, a thread, a handle or a file behind."""
    children = set(proc_table.own_children())
    threads = set(threading.enumerate())
    handles = _handles()
    _trespass.found.clear()
    _unfinished.clear()
    _trespass.watching = True
    yield
    _trespass.watching = False
    left = [f"task {name!r} was still running when its event loop closed" for name in _unfinished]
    left += [f"{path} was written, outside of tmp_path" for path in _trespass.found]
    left += [f"~/{name} was written" for name in _strangers(clean_home)]
    left += _still(lambda: _alive(set(proc_table.own_children()) - children))
    left += _still(lambda: [f"thread {each.name!r}" for each in _running(threads)])
    left += _still(lambda: _grown(handles))
    if left:
        pytest.fail("the test left something behind:\n  " + "\n  ".join(left), pytrace=False)


def _strangers(home: Path) -> list[str]:
    names = [each.name for each in home.iterdir() if each.name != ".gitconfig"]
    for name in names:
        _clear(home / name)
    return names


def _clear(path: Path) -> None:
    """Take it away, so that only one test is blamed."""
    if path.is_dir() and not path.is_symlink():
        for inner in path.iterdir():
            _clear(inner)
        path.rmdir()
    else:
        path.unlink()


def _still(look: Callable[[], list[str]]) -> list[str]:
    """Return what is there and does not go away soon."""
    found = look()
    if not found:
        return []
    gc.collect()
    deadline = time.monotonic() + PATIENCE
    while (found := look()) and time.monotonic() < deadline:
        time.sleep(0.005)
    return found


def _alive(pids: Iterable[int]) -> list[str]:
    found = []
    for pid in sorted(pids):
        row = proc_table.read_row(pid)
        if row is not None and row.dead:
            # Orphans of a child that a test killed come to this process, once it is a subreaper.
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        elif row is not None:
            found.append(f"process {pid}: {_command(pid)}")
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except (OSError, UnicodeError):
        return "its command cannot be read"


def _running(before: set[threading.Thread]) -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each not in before]


def _handles() -> dict[str, str]:
    found = {}
    for name in os.listdir(HANDLES):  # noqa: PTH208  # names only
        try:
            found[name] = os.readlink(HANDLES / name)  # noqa: PTH115  # as above
        except OSError:
            continue
    return found


def _grown(before: dict[str, str]) -> list[str]:
    """Name the handles that are more than before; the same number may mean another file."""
    now = _handles()
    if len(now) <= len(before):
        return []
    return [
        f"handle {name} of {target}{_ends_of(target)}"
        for name, target in now.items()
        if name not in before and not target.startswith(KEPT_OPEN)
    ]


def _ends_of(target: str) -> str:
    """Tell what a socket leads to, as the kernel's tables have it; nothing for other files."""
    inode = target.removeprefix("socket:[").removesuffix("]")
    rows = [
        f" ({table}: {row.strip()})"
        for table in ("tcp", "tcp6", "udp", "unix")
        for row in _lines_of(Path("/proc/net") / table)
        if target.startswith("socket:") and inode in row.split()
    ]
    return "".join(rows)


def _lines_of(table: Path) -> list[str]:
    try:
        return table.read_text(errors="replace").splitlines()
    except OSError:
        return []
