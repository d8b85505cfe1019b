"""What `doctor` finds out about the machine: each check says what it found and how to fix it.

Changes nothing. Checks of a repository are in `repository`.
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

from lifecycle.launch.programs import PROGRAMS, installed
from lifecycle.store.sqlite import file as sqlite_file
from orchestrator.runner import shadowing
from runtime.errors import RuntimeFault
from runtime.git.git import OLDEST_FOR_MERGE, Git
from runtime.processes.termination import open_pidfd

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
class Diagnosis:
    """One finding."""

    level: str
    what: str
    found: str
    mend: str = ""


def machine(now: float, folder: Path, *, named: bool = False) -> Iterator[Diagnosis]:
    """Check everything that does not depend on a repository.

    `named`: its settings say which program works, so a known one is not needed.
    """
    yield _python()
    yield from _packages()
    yield from _git(folder)
    yield _agents(named=named)
    yield _sqlite()
    yield _processes()
    yield from _inotify()
    yield _clock(now)
    yield disk(folder)


def disk(folder: Path) -> Diagnosis:
    """Check the room on the disk of a folder."""
    free = shutil.disk_usage(folder).free
    found = f"{free / (1 << 30):.1f} GiB free at {folder}"
    if free < NO_DISK:
        return Diagnosis(BAD, "disk", found, "make room: records and logs need it")
    if free < LITTLE_DISK:
        return Diagnosis(WARN, "disk", found, "make room; records and logs need it")
    return Diagnosis(OK, "disk", found)


def _python() -> Diagnosis:
    found = f"{'.'.join(map(str, sys.version_info[:3]))} at {sys.executable}"
    if sys.version_info < OLDEST_PYTHON:
        return Diagnosis(BAD, "python", found, "use Python 3.11 or newer")
    return Diagnosis(OK, "python", found)


def _packages() -> Iterator[Diagnosis]:
    problems = []
    for name in shadowing.PACKAGES:
        found = shadowing.origin(name)
        if found is None or shadowing.home(found) != shadowing.ROOT:
            problems.append(shadowing.explain(name, found))
        elif _is_overwritten(name, found):
            problems.append(
                f"{found} was overwritten by another distribution with a package {name}; "
                "install loopwright in an environment of its own: `uv tool install loopwright`"
            )
    for problem in problems:
        found, _, mend = problem.rpartition("; ")
        yield Diagnosis(BAD, "packages", found, mend)
    if not problems:
        yield Diagnosis(
            OK, "packages", f"all {len(shadowing.PACKAGES)} are ours, in {shadowing.ROOT}"
        )


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


def _git(folder: Path) -> Iterator[Diagnosis]:
    program = shutil.which("git")
    if program is None:
        yield Diagnosis(BAD, "git", "not found on PATH", "install git 2.38 or newer")
        return
    git = Git()
    try:
        text = git.run_blocking("--version", cwd=folder).text
        name = git.run_blocking("var", "GIT_COMMITTER_IDENT", cwd=folder, check=False)
    except RuntimeFault as problem:
        yield Diagnosis(BAD, "git", str(problem), "repair or reinstall git")
        return
    digits = text.removeprefix("git version ").split(".")
    version = tuple(int(part) for part in digits[:2] if part.isdigit())
    if version < OLDEST_FOR_MERGE:
        wanted = ".".join(map(str, OLDEST_FOR_MERGE))
        yield Diagnosis(BAD, "git", f"{text} at {program}", f"install git {wanted} or newer")
    else:
        yield Diagnosis(OK, "git", f"{text} at {program}")
    if name.code:
        yield Diagnosis(
            WARN,
            "git identity",
            "git does not know who commits",
            "git config --global user.name 'YOU'; git config --global user.email 'you@example.org'",
        )
    else:
        yield Diagnosis(OK, "git identity", name.text.rpartition(">")[0] + ">")


def _agents(*, named: bool = False) -> Diagnosis:
    found = installed()
    if not found and named:
        return Diagnosis(OK, "agents", "no known agent program is on PATH; the settings name one")
    if not found:
        return Diagnosis(
            WARN,
            "agents",
            "no known agent program is on PATH",
            f"install one ({', '.join(PROGRAMS)}), or give --command 'PROGRAM ARG'",
        )
    return Diagnosis(OK, "agents", ", ".join(f"{name} at {path}" for name, path in found.items()))


def _sqlite() -> Diagnosis:
    version = vars(sqlite_file)["sqlite3"].sqlite_version_info
    found = ".".join(map(str, version))
    if version < sqlite_file.OLDEST_SQLITE:
        wanted = ".".join(map(str, sqlite_file.OLDEST_SQLITE))
        return Diagnosis(BAD, "sqlite", found, f"use a Python with SQLite {wanted} or newer")
    return Diagnosis(OK, "sqlite", found)


def _processes() -> Diagnosis:
    if sys.platform != "linux":
        return Diagnosis(
            WARN,
            "processes",
            "this system has neither pidfd nor subreaper",
            "nothing to fix; daemons that an agent starts are found by their environment only",
        )
    handle = open_pidfd(os.getpid())
    if handle is None:
        return Diagnosis(
            WARN,
            "processes",
            "pidfd_open is refused",
            "allow it in the container's profile; until then a thread waits for each agent",
        )
    os.close(handle)
    return Diagnosis(OK, "processes", "pidfd and subreaper are there")


def _inotify() -> Iterator[Diagnosis]:
    """Linux only; other systems have no such limits."""
    for name, wanted in _INOTIFY_WANTED.items():
        try:
            limit = int((_INOTIFY / name).read_text())
        except (OSError, ValueError):
            continue
        if limit < wanted:
            yield Diagnosis(
                WARN,
                "inotify",
                f"{name} is {limit}",
                f"sysctl fs.inotify.{name}={wanted}; until then signals may be found by polling",
            )
        else:
            yield Diagnosis(OK, "inotify", f"{name} is {limit}")


def _clock(now: float) -> Diagnosis:
    if not SANE_FROM < now < SANE_TO:
        return Diagnosis(BAD, "clock", f"it stands at {now:.0f} seconds", "set the system's clock")
    return Diagnosis(OK, "clock", "set")


def file_system_at(path: Path) -> str:
    """Return the type of the file system that holds a path; '' where that is not known."""
    if sys.platform != "linux":
        return ""
    try:
        lines = Path("/proc/self/mountinfo").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    best, kind = -1, ""
    for line in lines:
        mount, _, rest = line.partition(" - ")
        place = _unescaped(mount.split()[4])
        if path.is_relative_to(place) and len(place) >= best:
            best, kind = len(place), rest.split()[0]
    return kind


def _unescaped(place: str) -> str:
    """Read the octal escapes that the kernel writes for blanks; all else is UTF-8 as it is."""
    raw = place.encode().decode("unicode_escape").encode("latin-1")
    return raw.decode(errors="replace")
