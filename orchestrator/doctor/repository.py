"""What `doctor` finds out about one repository and the state kept in it. Changes nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
from shlex import quote
from typing import TYPE_CHECKING

from lifecycle.errors import LifecycleError
from lifecycle.paths import Paths
from lifecycle.store.lock import holder
from lifecycle.store.lost_records import refuse_lost
from lifecycle.store.plain_queries import read_rows
from lifecycle.store.sqlite.listing import damaged_in
from orchestrator.approval.agent_commits import named
from orchestrator.config.settings import DEFAULT, FORMER
from orchestrator.control.approve_settings import read
from orchestrator.doctor.machine import BAD, OK, WARN, Diagnosis, file_system_at
from orchestrator.doctor.workspaces import places
from orchestrator.errors import ConfigError
from runtime.branches import BranchManager
from runtime.errors import RuntimeFault
from runtime.git.git import inspect_repository
from runtime.git.ownership import STATE_FOLDER, excluded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from orchestrator.approval.approvals import Approvals

REMOTE = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs")
"""File systems on which SQLite's write-ahead log does not work between machines."""
_FUTURE = 120.0
"""Seconds that a record may be ahead of the clock before the clock is to blame."""
_MANY = 1000


def repository(repo: Path, *, environ: Mapping[str, str], now: float) -> Iterator[Diagnosis]:
    """Check a repository, its settings and its records."""
    yield from _git(repo)
    yield from _settings(repo, environ)
    paths = Paths.of(repo)
    yield _file_system(repo)
    if paths.root.exists():
        yield _permissions(paths.root)
    elif repo.is_dir() and not os.access(repo, os.W_OK | os.X_OK):
        yield Diagnosis(
            BAD,
            "permissions",
            f"{repo} cannot be written, so no records can be kept in it",
            "fix its permissions, or mount it writable",
        )
    yield from _records(paths, now)


def _git(repo: Path) -> Iterator[Diagnosis]:
    try:
        facts = inspect_repository(repo)
        facts.require_usable()
    except RuntimeFault as problem:
        what, _, mend = str(problem).rpartition(": ")
        yield Diagnosis(BAD, "repository", what or str(problem), mend)
        return
    if facts.branch:
        yield Diagnosis(OK, "repository", f"{facts.root}, on {facts.branch}")
    else:
        yield Diagnosis(
            WARN,
            "repository",
            f"{facts.root}, HEAD is detached: there is no branch to accept work into",
            "switch to a branch, or give --base BRANCH",
        )
    if (repo / ".gitmodules").exists():
        yield Diagnosis(
            WARN,
            "submodules",
            "a fresh workspace has their folders empty",
            "let tasks and verify commands begin with `git submodule update --init`",
        )
    if f"{STATE_FOLDER}/" in excluded(facts.common_dir).splitlines():
        yield Diagnosis(OK, "excludes", "git ignores our files")
    else:
        yield Diagnosis(
            WARN, "excludes", "git would list our files as untracked", "loopwright init"
        )


def _settings(repo: Path, environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    try:
        rows, approvals = read(repo, environ)
    except ConfigError as problem:
        yield Diagnosis(BAD, "settings", str(problem), "fix that line or variable")
        return
    except (LifecycleError, RuntimeFault) as problem:
        yield Diagnosis(BAD, "settings", str(problem), "what was approved cannot be read")
        return
    yield from _waiting(approvals)
    for row in rows:
        if FORMER in row.source:
            yield Diagnosis(WARN, "settings", row.source, f"write {row.name}")
    own = [f"{row.name} from {row.source}" for row in rows if row.source != DEFAULT]
    yield Diagnosis(OK, "settings", "; ".join(own) or "all at their defaults")
    values = {row.name: row.value for row in rows}
    yield from places(repo, values["worktrees_dir"], environ)
    command = values["command"]
    if command and shutil.which(command[0]) is None and not (repo / command[0]).exists():
        yield Diagnosis(
            BAD, "command", f"{command[0]} is not on PATH", "install it or fix the setting"
        )


def _waiting(approvals: Approvals) -> Iterator[Diagnosis]:
    if approvals.held:
        yield Diagnosis(
            WARN,
            "approval",
            f"agents changed settings that restrict them; not in force: {named(approvals.held)}",
            "look at `loopwright settings`, then `loopwright settings approve`, or take it out",
        )


def _file_system(repo: Path) -> Diagnosis:
    kind = file_system_at(repo)
    if kind in REMOTE:
        return Diagnosis(
            WARN,
            "file system",
            f"{repo} is on {kind}; its records may be damaged if two machines use them",
            "move the repository to a local disk",
        )
    return Diagnosis(OK, "file system", kind or "not known to be remote")


def _permissions(root: Path) -> Diagnosis:
    if not root.is_dir():
        return Diagnosis(BAD, "permissions", f"{root} is not a folder", "move it away")
    if not os.access(root, os.W_OK | os.X_OK):
        return Diagnosis(
            BAD,
            "permissions",
            f"{root} cannot be written",
            "fix its permissions, or mount it writable",
        )
    found = root.stat()
    mode = found.st_mode & 0o777
    if found.st_uid != os.getuid():
        return Diagnosis(
            BAD, "permissions", f"{root} belongs to another user", f"sudo chown -R $USER {root}"
        )
    if mode & 0o077:
        return Diagnosis(WARN, "permissions", f"{root} has mode {mode:04o}", f"chmod 700 {root}")
    return Diagnosis(OK, "permissions", f"{root} is yours alone")


def _damaged(database: Path) -> Iterator[Diagnosis]:
    """Name each record that cannot be read: it is kept as it is, and all others continue."""
    try:
        found = damaged_in(database)
    except LifecycleError as problem:
        what, _, mend = str(problem).rpartition("; ")
        yield Diagnosis(BAD, "records", what or str(problem), mend)
        return
    for each in found:
        query = f"PRAGMA foreign_keys = ON; DELETE FROM lifecycles WHERE cursor = {each.cursor}"  # noqa: S608  # shown, not run, and a number
        yield Diagnosis(
            BAD,
            "records",
            f"the record of {each.agent_id} is damaged ({each.problem}); others are not affected",
            f"with no runner alive, put a backup of {database} in its place; or give this record "
            f"up (its branch and saved work stay): sqlite3 {quote(str(database))} {quote(query)}",
        )


def _records(paths: Paths, now: float) -> Iterator[Diagnosis]:
    try:
        asyncio.run(refuse_lost(paths.database, BranchManager(paths.root.parent).agents))
        if not paths.database.exists():
            yield Diagnosis(OK, "records", "none yet")
            return
        rows = read_rows(paths.database, limit=_MANY)
    except LifecycleError as problem:
        what, _, mend = str(problem).rpartition("; ")
        yield Diagnosis(BAD, "records", what or str(problem), mend)
        return
    yield from _damaged(paths.database)
    number = f"{_MANY} or more" if len(rows) == _MANY else str(len(rows))
    yield Diagnosis(OK, "records", f"{number} in {paths.database}")
    for aside in sorted(paths.root.glob("state.db.damaged-*")):
        if aside.name.rpartition("-")[2].isdigit():
            yield Diagnosis(
                WARN,
                "records",
                f"{aside} is a damaged database that was set aside; what it held is not listed",
                "take what you need from it (sqlite3 FILE .recover), then move it away",
            )
    ahead = max((row["updated_at"] for row in rows), default=0.0) - now
    if ahead > _FUTURE:
        yield Diagnosis(
            WARN,
            "clock",
            f"the newest record is {ahead:.0f} s ahead of the clock",
            "set the system's clock; waits end later by that much",
        )
    runner = holder(paths.root)
    moving = [row["agent_id"] for row in rows if row["coarse"] in ("queued", "running")]
    if runner is not None:
        yield Diagnosis(
            OK, "runner", f"pid {runner.get('pid', '?')} since {runner.get('since', '?')}"
        )
    elif moving:
        few = ", ".join(moving[:3]) + (" ..." if len(moving) > 3 else "")  # noqa: PLR2004  # a few
        yield Diagnosis(
            WARN,
            "runner",
            f"none is alive, but {len(moving)} not finished: {few}",
            "`loopwright up` continues them",
        )
    else:
        yield Diagnosis(OK, "runner", "none is alive, and nothing waits for one")
