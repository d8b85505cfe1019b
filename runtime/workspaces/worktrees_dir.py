"""The folder outside of a repository that holds its workspaces and judging checkouts.

Outside, so that no program that searches upwards from a workspace (node, pytest, cargo, linters)
finds the user's own files. Owns where this folder is, who owns it and what is left of repositories
that are gone. It must not touch a workspace, nor start a process.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.errors import RepositoryError
from runtime.git.ownership import STATE_FOLDER, registrations
from runtime.git.porcelain import some_of
from runtime.git.safe_view import is_same, locate, read_small
from runtime.private_files import make_private, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

JUDGING = ".judging"
"""The folder in it for judging checkouts; no agent id begins with a dot."""
SET_ASIDE = ".left"
"""The folder in it for workspaces of a repository that no longer exists."""
OWNERS = ".repository"
"""The file in it that lists the repository it belongs to, then those that moved away and still have
workspaces in it; one path per line, as JSON."""
_OF_SYSTEMS = frozenset({"lost+found", ".DS_Store"})
"""Files that operating systems create in folders."""
_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST = 40
_HASH = 10
_CANNOT = (
    "agents cannot work in {root} ({why}): set worktrees_dir, or XDG_STATE_HOME, to a writable, "
    "permanent folder"
)


def default_worktrees_dir(repo: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the default place for the workspaces of a repository."""
    return user_state(environ) / _own_name(repo.resolve())


def worktrees_dir(repo: Path, setting: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the place by the setting `worktrees_dir`; empty means the default."""
    repo = repo.resolve()
    if not setting:
        return default_worktrees_dir(repo, environ).resolve()
    home = environ.get("HOME", "")
    if home and (setting == "~" or setting.startswith("~/")):
        setting = home + setting[1:]
    folder = (repo / os.path.expanduser(setting)).resolve()  # noqa: PTH111  # keeps what it cannot
    state = repo / STATE_FOLDER
    taken = folder.is_relative_to(repo / ".git") or (
        folder.is_relative_to(state) and folder != state / "worktrees"
    )
    if taken or repo.is_relative_to(folder):
        raise RepositoryError(
            f"worktrees_dir is {folder}, which must be a folder of its own: name one beside the "
            f"repository, such as ../{repo.name}-agents, or unset it"
        )
    return folder


def unusable(root: Path, repo: Path) -> str:
    """Say why workspaces of the repository cannot be created there; empty if they can."""
    if taken := _taken(root, repo) or _filled(root, repo):
        return taken
    there = next(each for each in (root, *root.parents) if os.path.lexists(each))
    if not there.is_dir():
        return _CANNOT.format(root=root, why=f"{there} is not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        return _CANNOT.format(root=root, why=f"{there} cannot be written")
    return ""


def require_own(root: Path, repo: Path) -> None:
    """Raise RepositoryError if the folder belongs to another repository."""
    if taken := _taken(root, repo):
        raise RepositoryError(taken)


def claim(root: Path, repo: Path) -> None:
    """Create the folder, private, and record its owner; RepositoryError says why not."""
    known = owners(root)
    if known[:1] == (repo,):
        return
    if refused := unusable(root, repo):
        raise RepositoryError(refused)
    try:
        make_private(root)
        _write(root, (repo, *(each for each in known if _is_another(each, repo))))
    except OSError as error:
        raise RepositoryError(_CANNOT.format(root=root, why=error.strerror)) from error


def share(root: Path, repo: Path) -> None:
    """Record that a repository which moved still has a workspace there."""
    known = owners(root)
    if known and repo not in known:
        with suppress(OSError):  # it only helps people
            _write(root, (*known, repo))


@contextmanager
def claimed(root: Path, repo: Path) -> Iterator[None]:
    """Claim the folder, and release it at the end; RepositoryError says why that fails."""
    claim(root, repo)
    try:
        yield
    finally:
        release(root)


def release(root: Path) -> None:
    """Remove the folder and our files in it, once no agent has anything in it."""
    with suppress(OSError):
        (root / JUDGING).rmdir()
    with suppress(OSError):
        if not any(_is_of_agent(each) for each in root.iterdir()):
            (root / OWNERS).unlink()
            root.rmdir()


def owners(root: Path) -> tuple[Path, ...]:
    """Return the repositories recorded there, its owner first; not all need exist."""
    said = os.fsdecode(read_small(root / OWNERS) or b"")
    try:
        return tuple(Path(json.loads(line)) for line in said.splitlines())
    except (ValueError, TypeError):
        return ()


def owner_around(folder: Path) -> Path | None:
    """Return the existing repository to whose worktrees a folder belongs."""
    for each in (folder, *folder.parents):
        if _is_marked(each):
            return next(filter(is_repository, owners(each)), None)
    return None


def around(workspace: Path) -> Path | None:
    """Return the folder of this kind that contains a workspace or judging checkout."""
    near = (workspace.parent, workspace.parent.parent)
    return next(filter(_is_marked, near), None)


def leftovers(
    environ: Mapping[str, str] = os.environ, *, repo: Path | None = None
) -> Iterator[tuple[Path, Path]]:
    """Find folders in the default place whose repositories are gone: the folder, and its owner.

    A folder with a workspace registered in `repo` belongs to it, from before it moved.
    """
    place = locate(repo) if repo is not None else None
    live = {folder.parent for folder in registrations(place.common_dir)} if place else set[Path]()
    with suppress(OSError):
        for root in sorted(user_state(environ).iterdir()):
            known = owners(root)
            if known and not any(map(is_repository, known)) and root.resolve() not in live:
                yield root, known[0]


def is_repository(folder: Path) -> bool:
    """Tell whether the folder is a checkout."""
    return os.path.lexists(folder / ".git")


def _is_marked(folder: Path) -> bool:
    return read_small(folder / OWNERS) is not None


def _taken(root: Path, repo: Path) -> str:
    owner = next(iter(owners(root)), None)
    if owner is None or not _is_another(owner, repo):
        return ""
    return f"{root} belongs to the repository {owner}: set worktrees_dir to another folder here"


def _filled(root: Path, repo: Path) -> str:
    """Say why a folder is in use for something else; empty if it is one of ours."""
    own = root.name == _own_name(repo) or root.is_relative_to(repo / STATE_FOLDER)
    if own or _is_marked(root) or not root.is_dir():
        return ""
    try:
        names = {each.name for each in root.iterdir()} - _OF_SYSTEMS
    except OSError:
        return ""  # writing there will report the error
    others = sorted(name for name in names if not name.startswith(OWNERS))
    if not others or any(f".{name}.json" in names for name in names):
        return ""
    return (
        f"{root} holds other things ({some_of(others)}): set worktrees_dir to an empty folder, or "
        "to one that is not there yet"
    )


def _is_of_agent(path: Path) -> bool:
    """Tell whether this is a workspace, a record, or a folder of workspaces or checkouts."""
    name = path.name
    record = name.startswith(".") and name.endswith(".json")
    return record or name in {JUDGING, SET_ASIDE} or os.path.lexists(path / ".git")


def _own_name(repo: Path) -> str:
    name = _NAME.sub("-", repo.name).strip("-.")[:_LONGEST] or "repository"
    return f"{name}-{hashlib.sha256(os.fsencode(repo)).hexdigest()[:_HASH]}"


def _is_another(owner: Path, repo: Path) -> bool:
    return owner != repo and is_repository(owner) and not is_same(str(owner), repo)


def _write(root: Path, repositories: Iterable[Path]) -> None:
    lines = (json.dumps(str(each), ensure_ascii=False) for each in repositories)
    write_whole(root / OWNERS, b"".join(os.fsencode(line) + b"\n" for line in lines))


def user_state(environ: Mapping[str, str]) -> Path:
    """Return the folder with those of all repositories of this user."""
    given = environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(given):  # noqa: PTH117  # a text that may be empty
        return Path(given, "loopwright")
    home = environ.get("HOME", "") or os.path.expanduser("~")  # noqa: PTH111  # never raises
    if not os.path.isabs(home):  # noqa: PTH117  # as above
        raise RepositoryError(
            "no home folder is known, so there is no place for workspaces: set HOME, "
            "XDG_STATE_HOME or worktrees_dir"
        )
    return Path(home, ".local", "state", "loopwright")
