"""Copies files of the user's checkout that are not committed, such as `.env`, to another folder.

It must not follow a link that an agent may have made: none below the target, and in the checkout
none that git tracks. It copies only what a person named; installed packages only if they are named
explicitly.
"""

from __future__ import annotations

import os
import shutil
import stat
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from runtime.git.ownership import is_own_file
from runtime.git.porcelain import names_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

INSTALLED = frozenset({"node_modules", ".venv", "venv", ".tox", ".nox", "__pycache__"})
"""Bound to the folder they are in: a copy elsewhere would still lead back to it."""
_MOST_LINKS = 40
"""Links in one path; the system does not follow more either."""


def goes_over(checkout: Path, name: str, tracked: Collection[str]) -> bool:
    """Tell whether the path to a file of the checkout goes through one of these links."""
    return bool(tracked) and any(link in tracked for link in _links_to(checkout.resolve(), name))


def _links_to(top: Path, name: str) -> Iterator[str]:
    """Resolve the path to a file; yield the links in it that are inside the folder."""
    at, ahead, passed = top, list(reversed(Path(name).parts)), 0
    while ahead and passed <= _MOST_LINKS:
        part = ahead.pop()
        if part == os.pardir:
            at = at.parent
            continue
        place = at / part
        if not place.is_symlink():
            at = place
            continue
        passed += 1
        if place.is_relative_to(top):
            yield place.relative_to(top).as_posix()
        led = place.readlink()
        at = Path(led.anchor) if led.is_absolute() else at
        ahead += reversed(led.relative_to(led.anchor).parts)


def named(
    checkout: Path,
    patterns: Iterable[str],
    tracked: Collection[str],
    links: Collection[str] = frozenset(),
) -> tuple[str, ...]:
    """Return the files that the setting `copy` names; a folder means all its files.

    Files behind one of these links are excluded.
    """
    found = {path for pattern in patterns for path in _meant(checkout, pattern, links)}
    return tuple(sorted(path for path in only_files(checkout, found) if path not in tracked))


def only_files(checkout: Path, names: Iterable[str]) -> Iterator[str]:
    """Leave out the runner's own files, pipes, and dangling links."""
    return (name for name in names if _may_go(name) and (checkout / name).is_file())


def included(listed: bytes) -> tuple[str, ...]:
    """Return what git listed for INCLUDE_FILE, without installed packages."""
    return tuple(
        name
        for name in names_in(listed)
        if not name.endswith("/") and _may_go(name) and INSTALLED.isdisjoint(name.split("/"))
    )


def signature(checkout: Path, names: Iterable[str]) -> str:
    """Return a text that changes if one of the files does."""
    told = []
    for name in names:
        try:
            found = (checkout / name).stat()
        except OSError:
            continue
        told.append(f"{name}\0{found.st_size}\0{found.st_mtime_ns}\0{found.st_mode}")
    return "\n".join(told)


def copy_in(checkout: Path, names: Iterable[str], target: Path) -> tuple[str, ...]:
    """Copy the files to the same names below the target; return those that could not be copied."""
    failed = []
    for name in names:
        try:
            _copy(checkout / name, target, name)
        except OSError as problem:
            failed.append(f"{name}: {problem.strerror or problem}")
    return tuple(failed)


def _copy(source: Path, target: Path, name: str) -> None:
    place = target / name
    folders = [target / folder for folder in list(PurePosixPath(name).parents)[-2::-1]]
    if any(folder.is_symlink() for folder in folders):
        return  # a link may lead anywhere: nothing is copied through it
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_name(f".{place.name}.{os.getpid()}.new")
    try:
        with source.open("rb") as file, fresh.open("xb") as copy:
            fresh.chmod(stat.S_IRUSR | stat.S_IWUSR)
            shutil.copyfileobj(file, copy)
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        fresh.chmod(mode | stat.S_IRUSR | stat.S_IWUSR)
        fresh.replace(place)
    finally:
        fresh.unlink(missing_ok=True)


def _may_go(path: str) -> bool:
    return not is_own_file(os.fsencode(path)) and path.partition("/")[0] != ".git"


def _meant(checkout: Path, pattern: str, links: Collection[str]) -> Iterator[str]:
    asked_for = INSTALLED.intersection(PurePosixPath(pattern).parts)
    for found in _places(checkout, checkout, PurePosixPath(pattern).parts, links):
        for path in _files(checkout, found):
            asked = INSTALLED.intersection(path.split("/")) <= asked_for
            if asked and not goes_over(checkout, path, links):
                yield path


def _places(
    checkout: Path, at: Path, parts: Sequence[str], links: Collection[str]
) -> Iterator[Path]:
    """Return the matches of a pattern below a folder, as `Path.glob` does, not following links.

    Not filtered afterwards: behind a link there may be a whole disk to search.
    """
    if not at.exists() or goes_over(checkout, at.relative_to(checkout).as_posix(), links):
        return
    if not parts or tuple(parts) == ("**",):
        yield at
        return
    first, rest = parts[0], parts[1:]
    if first == "**":
        yield from _places(checkout, at, rest, links)
        for name in _names(at):
            if (at / name).is_dir() and not (at / name).is_symlink():
                yield from _places(checkout, at / name, parts, links)
        return
    for name in _names(at) if set(first) & set("*?[") else (first,):
        if name == first or fnmatchcase(name, first):
            yield from _places(checkout, at / name, rest, links)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208  # names only
    except OSError:
        return []


def _files(checkout: Path, path: Path) -> Iterator[str]:
    """Return a file, or the files in a folder, relative to the checkout."""
    if not path.is_dir():
        yield path.relative_to(checkout).as_posix()
        return
    for folder, _, files in os.walk(path):
        way = Path(folder).relative_to(checkout)
        yield from ((way / each).as_posix() for each in files)
