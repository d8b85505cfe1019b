"""What `doctor` finds out about the machine: each check says what it found and how to mend it.

Changes nothing. Checks of a repository are in `repochecks`.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.programs import PROGRAMS, installed
from lifecycle.store import sqlite_file
from orchestrator import guard
from runtime.containment import open_pidfd
from runtime.errors import RuntimeFault
from runtime.git import OLDEST_FOR_MERGE, Git

if TYPE_CHECKING:
    from collections.abc import Iterator

OK, WARN, BAD = "ok", "warn", "bad"
OLDEST_PYTHON = (3, 11)
SANE_FROM, SANE_TO = 1_704_067_200.0, 4_102_444_800.0
"""2024 and 2100; a clock outside of these was never set."""
LITTLE_DISK, NO_DISK = 1 << 30, 100 << 20
_INOTIFY = Path("/proc/sys/fs/inotify")
_INOTIFY_WANTED = {"max_user_instances": 64, "max_user_watches": 8192}


@dataclass(frozen=True, slots=True)
class Check:
    """One finding."""

    level: str
    what: str
    found: str
    mend: str = ""


def machine(now: float, folder: Path) -> Iterator[Check]:
    """Check everything that does not depend on a repository."""
    yield _python()
    yield from _packages()
    yield from _git(folder)
    yield _agents()
    yield _sqlite()
    yield _processes()
    yield from _inotify()
    yield _clock(now)
    yield disk(folder)


def disk(folder: Path) -> Check:
    """Check the room on the disk of a folder."""
    free = shutil.disk_usage(folder).free
    found = f"{free / (1 << 30):.1f} GiB free at {folder}"
    if free < NO_DISK:
        return Check(BAD, "disk", found, "make room: records and logs need it")
    if free < LITTLE_DISK:
        return Check(WARN, "disk", found, "make room; records and logs need it")
    return Check(OK, "disk", found)


def _python() -> Check:
    found = f"{'.'.join(map(str, sys.version_info[:3]))} at {sys.executable}"
    if sys.version_info < OLDEST_PYTHON:
        return Check(BAD, "python", found, "use Python 3.11 or newer")
    return Check(OK, "python", found)


def _packages() -> Iterator[Check]:
    problems = []
    for name in guard.PACKAGES:
        found = guard.origin(name)
        if found is None or guard.home(found) != guard.ROOT:
            problems.append(guard.explain(name, found))
        elif _is_overwritten(name, found):
            problems.append(
                f"{found} was overwritten by another distribution with a package {name}; "
                "install loopwright in an environment of its own: `uv tool install loopwright`"
            )
    for problem in problems:
        found, _, mend = problem.rpartition("; ")
        yield Check(BAD, "packages", found, mend)
    if not problems:
        yield Check(OK, "packages", f"all {len(guard.PACKAGES)} are ours, in {guard.ROOT}")


def _is_overwritten(name: str, path: str) -> bool:
    """Compare a package's first file with what was installed; an editable one is never compared."""
    try:
        files = importlib.metadata.files("loopwright") or []
    except importlib.metadata.PackageNotFoundError:
        return False
    for file in files:
        if file.as_posix() == f"{name}/__init__.py" and file.hash is not None:
            digest = hashlib.new(file.hash.mode, Path(path).read_bytes()).digest()
            return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value
    return False


def _git(folder: Path) -> Iterator[Check]:
    program = shutil.which("git")
    if program is None:
        yield Check(BAD, "git", "not found on PATH", "install git 2.38 or newer")
        return
    git = Git()
    try:
        text = git.run_blocking("--version", cwd=folder).text
        name = git.run_blocking("var", "GIT_COMMITTER_IDENT", cwd=folder, check=False)
    except RuntimeFault as problem:
        yield Check(BAD, "git", str(problem), "repair or reinstall git")
        return
    digits = text.removeprefix("git version ").split(".")
    version = tuple(int(part) for part in digits[:2] if part.isdigit())
    if version < OLDEST_FOR_MERGE:
        wanted = ".".join(map(str, OLDEST_FOR_MERGE))
        yield Check(BAD, "git", f"{text} at {program}", f"install git {wanted} or newer")
    else:
        yield Check(OK, "git", f"{text} at {program}")
    if name.code:
        yield Check(
            WARN,
            "git identity",
            "git does not know who commits",
            "git config --global user.name 'YOU'; git config --global user.email 'you@example.org'",
        )
    else:
        yield Check(OK, "git identity", name.text.rpartition(">")[0] + ">")


def _agents() -> Check:
    found = installed()
    if not found:
        return Check(
            WARN,
            "agents",
            "no known agent program is on PATH",
            f"install one ({', '.join(PROGRAMS)}), or give --command 'PROGRAM ARG'",
        )
    return Check(OK, "agents", ", ".join(f"{name} at {path}" for name, path in found.items()))


def _sqlite() -> Check:
    version = vars(sqlite_file)["sqlite3"].sqlite_version_info
    found = ".".join(map(str, version))
    if version < sqlite_file.OLDEST_SQLITE:
        wanted = ".".join(map(str, sqlite_file.OLDEST_SQLITE))
        return Check(BAD, "sqlite", found, f"use a Python with SQLite {wanted} or newer")
    return Check(OK, "sqlite", found)


def _processes() -> Check:
    if sys.platform != "linux":
        return Check(
            WARN,
            "processes",
            "this system has neither pidfd nor subreaper",
            "nothing to mend; daemons that an agent starts are found by their environment only",
        )
    handle = open_pidfd(os.getpid())
    if handle is None:
        return Check(
            WARN,
            "processes",
            "pidfd_open is refused",
            "allow it in the container's profile; until then a thread waits for each agent",
        )
    os.close(handle)
    return Check(OK, "processes", "pidfd and subreaper are there")


def _inotify() -> Iterator[Check]:
    """Only of Linux; elsewhere there are no such limits."""
    for name, wanted in _INOTIFY_WANTED.items():
        try:
            limit = int((_INOTIFY / name).read_text())
        except (OSError, ValueError):
            continue
        if limit < wanted:
            yield Check(
                WARN,
                "inotify",
                f"{name} is {limit}",
                f"sysctl fs.inotify.{name}={wanted}; until then signals may be found by polling",
            )
        else:
            yield Check(OK, "inotify", f"{name} is {limit}")


def _clock(now: float) -> Check:
    if not SANE_FROM < now < SANE_TO:
        return Check(BAD, "clock", f"it stands at {now:.0f} seconds", "set the system's clock")
    return Check(OK, "clock", "set")
