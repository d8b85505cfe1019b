"""What is ours in the user's repository, and how it is recognized.

Owns the names derived from an agent id, the record beside each workspace and the exclusion of the
runner's own files from git. It must not start processes: everything here is paths and small files.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.errors import WorkspaceError
from runtime.git.safe_view import RepositoryLocation, is_same, misleads, pinned, read_small
from runtime.private_files import make_private, write_whole

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

OWN_REFS = "refs/loopwright/"
BASE_REFS = "refs/loopwright/base/"
GIVEN_REFS = "refs/loopwright/given/"
"""Commits that a lifecycle needs on the machine that works on it, by agent."""
REMOTE_REFS = "refs/loopwright/remote/"
"""Branches as they were at the forge when they were fetched last."""
SAVED_REFS = "refs/loopwright/saved/"
BRANCH_REFS = "refs/heads/agent/"
STATE_FOLDER = ".loopwright"
COMM_FILE = "communications.json"

_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?")
_EXCLUDED = (f"{STATE_FOLDER}/", f"/{COMM_FILE}", f"/{COMM_FILE}.*")
_LARGEST_EXCLUDE = 1 << 20
_EXCLUDE_TITLE = "# Files of the agent runner in this repository and its worktrees"

OWN_FILES_OUT = (
    f":(top,exclude,literal){STATE_FOLDER}",
    f":(top,exclude,literal){COMM_FILE}",
    f":(top,exclude,glob){COMM_FILE}.*",
)
"""Pathspecs that keep the runner's own files out, also where a repository tracks them."""


def checked_id(agent_id: str) -> str:
    """Return the id unchanged, or say why it cannot name a branch and a folder."""
    if not _ID.fullmatch(agent_id) or ".." in agent_id or agent_id.endswith(".lock"):
        raise WorkspaceError(
            f"{agent_id!r} is not a valid agent id: 1 to 64 letters, digits, '.', '_' or '-', "
            "starting with a letter or digit, without '..', not ending in '.' or '.lock'"
        )
    return agent_id


def is_own_file(path: bytes) -> bool:
    """Whether a path, relative to the top of a workspace, is the runner's and not the agent's."""
    comm = COMM_FILE.encode()
    return (
        path == comm
        or path.startswith(comm + b".")
        or path.partition(b"/")[0] == STATE_FOLDER.encode()
    )


@dataclass(frozen=True, slots=True)
class Record:
    """Facts recorded beside a workspace, because git has no place for them."""

    base_branch: str | None
    ready: bool
    """False while the workspace is being created, so that an unfinished one is recognized."""
    programs: Mapping[str, str] | None = None
    """What the user's git would have run when it was made; None if unknown."""
    exclude: str | None = None
    """The repository's own ignore rules (`info/exclude`) when it was made."""


def read_record(root: Path, agent_id: str) -> Record | None:
    """Return the record, or None when it is missing or unreadable."""
    try:
        found = json.loads(_record_file(root, agent_id).read_bytes())
        branch, ready, programs = found["base_branch"], found["ready"], found.get("programs")
        exclude = found.get("exclude")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    known = programs if isinstance(programs, dict) else None
    rules = exclude if isinstance(exclude, str) else None
    return Record(branch if isinstance(branch, str) else None, ready is True, known, rules)


def write_record(root: Path, agent_id: str, record: Record) -> None:
    """Write the record whole or not at all."""
    make_private(root)
    write_whole(_record_file(root, agent_id), json.dumps(asdict(record)).encode())


def drop_record(root: Path, agent_id: str) -> None:
    """Forget the record."""
    _record_file(root, agent_id).unlink(missing_ok=True)


def _record_file(root: Path, agent_id: str) -> Path:
    # An agent id never starts with a dot, so this is not the folder of a workspace.
    return root / f".{agent_id}.json"


def exclude_own_files(common_dir: Path, more: Iterable[str] = ()) -> None:
    """Add our lines to the repository's info/exclude once; the user's lines stay as they are."""
    exclude = common_dir / "info" / "exclude"
    before = read_small(exclude, _LARGEST_EXCLUDE) or b""
    if len(before) == _LARGEST_EXCLUDE or (not before and exclude.is_dir()):
        return  # not a usable file; the runner's own files then show up as untracked
    present = set(before.splitlines())
    wanted = [os.fsencode(line) for line in (*_EXCLUDED, *more)]
    lines = [line for line in wanted if line not in present]
    if not lines:
        return
    exclude.parent.mkdir(exist_ok=True)
    gap = b"" if not before or before.endswith(b"\n") else b"\n"
    added = b"\n".join([_EXCLUDE_TITLE.encode(), *lines, b""])
    write_whole(exclude, before + gap + added)


def excluded(common_dir: Path) -> str:
    """Return the repository's own ignore rules."""
    return os.fsdecode(read_small(common_dir / "info" / "exclude", _LARGEST_EXCLUDE) or b"")


def registrations(common_dir: Path) -> dict[Path, Path]:
    """Return the worktrees git has registered: the checkout's folder to its own git folder."""
    found: dict[Path, Path] = {}
    with suppress(FileNotFoundError, NotADirectoryError):
        for git_dir in (common_dir / "worktrees").iterdir():
            if (folder := checkout_of(git_dir)) is not None:
                found[folder] = git_dir
    return found


def registration(common_dir: Path, folder: Path) -> Path | None:
    """Return the git folder of the worktree at this folder, or None when it is not registered."""
    usual = common_dir / "worktrees" / folder.name
    if checkout_of(usual) == folder:
        return usual
    return registrations(common_dir).get(folder)


def checkouts_named(
    common_dir: Path, name: str, *, first: Collection[Path] = ()
) -> Iterator[tuple[Path, Path]]:
    """Return the worktrees whose folder has this name, each with its git folder.

    If it is among `first` and registered under its usual name, only one file is read.
    """
    usual = common_dir / "worktrees" / name
    if (folder := checkout_of(usual)) in first and folder is not None:
        yield folder, usual
        return
    listed = registrations(common_dir).items()
    found = [(folder, git_dir) for folder, git_dir in listed if folder.name == name]
    yield from sorted(found, key=lambda each: each[0] not in first)


def register_at(git_dir: Path, folder: Path) -> None:
    """Register another folder as the worktree of this git folder."""
    write_whole(git_dir / "gitdir", os.fsencode(folder / ".git") + b"\n")


def checkouts(here: RepositoryLocation) -> dict[str, RepositoryLocation]:
    """Return the checkout of each branch that is checked out, by its full ref."""
    common = here.common_dir
    main = here.root
    if here.git_dir != common:
        main = common.parent if common.name == ".git" else None
    places = [] if main is None else [RepositoryLocation(main, common, common)]
    places += [
        RepositoryLocation(folder, git_dir, common)
        for folder, git_dir in registrations(common).items()
    ]
    heads = ((read_small(place.git_dir / "HEAD") or b"", place) for place in places)
    return {
        os.fsdecode(head.removeprefix(b"ref: ").strip()): place
        for head, place in heads
        if head.startswith(b"ref: ")
    }


def held_at(here: RepositoryLocation, branch: str) -> tuple[Path, str] | None:
    """Return the checkout where a branch is being rebased or bisected, and which of these it is.

    HEAD does not name the branch meanwhile, and the end of a rebase resets it.
    """
    common, ref = here.common_dir, f"refs/heads/{branch}"
    main = common.parent if common.name == ".git" else common
    for folder, git_dir in {main: common, **registrations(common)}.items():
        for name in ("rebase-merge", "rebase-apply"):
            if _named(f"{git_dir}/{name}/head-name") == ref:
                return folder, "rebased"
        if ref in _named(f"{git_dir}/rebase-merge/update-refs").splitlines():
            return folder, "rebased"
        if _named(f"{git_dir}/BISECT_START").removeprefix("refs/heads/") == branch:
            return folder, "bisected"
    return None


def _named(file: str) -> str:
    return os.fsdecode(read_small(file) or b"").strip()


def points_to(folder: Path, git_dir: Path) -> bool:
    """Tell whether git, run in the folder, uses this git folder and our repository."""
    pointer = f"{folder}/.git"
    said = None if os.path.islink(pointer) else read_small(pointer)  # noqa: PTH114  # every attempt
    if said is None or misleads(pinned(git_dir, folder)):
        return False
    target = os.fsdecode(said.removeprefix(b"gitdir: ").rstrip(b"\n"))
    return said.startswith(b"gitdir: ") and is_same(os.path.join(folder, target), git_dir)  # noqa: PTH118  # as above


def point_to(folder: Path, git_dir: Path) -> Path | None:
    """Point git in the folder to this git folder; return where a repository there was moved to.

    Without a pointer git would search upwards, and find the checkout of the user.
    """
    pointer = folder / ".git"
    aside = None
    if pointer.is_dir() and not pointer.is_symlink():
        taken = len(list(folder.parent.glob(f".{folder.name}.git-*")))
        aside = folder.with_name(f".{folder.name}.git-{taken + 1}")
        pointer.rename(aside)
    else:
        pointer.unlink(missing_ok=True)
    write_whole(pointer, b"gitdir: " + os.fsencode(git_dir) + b"\n")
    straighten(git_dir)
    return aside


def straighten(git_dir: Path) -> None:
    """Make the git folder of a worktree point to the repository it is in again."""
    if file := misleads(pinned(git_dir, None)):
        write_whole(file, b"../..\n")


def checkout_of(git_dir: Path) -> Path | None:
    """Return the folder that is registered with the git folder of a worktree."""
    said = read_small(f"{git_dir}/gitdir")
    if said is None or os.path.islink(git_dir):  # noqa: PTH114  # several times for each attempt
        return None
    pointer = os.fsdecode(said).rstrip("\n")
    if not pointer or "\0" in pointer:
        return None
    # git may write this pointer relative to its own folder
    checkout = os.path.dirname(os.path.join(git_dir, pointer))  # noqa: PTH118, PTH120  # as above
    return Path(os.path.realpath(checkout))
