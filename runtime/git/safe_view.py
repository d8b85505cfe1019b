"""A repository as the runner's own git sees it: all of its data and none of its programs.

Owns where the parts of a checkout are, and the view: a folder of ours that replaces the
repository's common folder (`GIT_COMMON_DIR`). It links to objects, refs and worktrees; its `config`
is ours and holds only keys from an allow-list of plain values, so git never reads the repository's
own configuration. It must not start a process.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from runtime.errors import GitError
from runtime.private_files import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator

LISTING = ("config", "--list", "--null", "--show-scope", "--includes")
"""Lists the configuration without starting any program that it names."""
_SMALL = 65_536
_LINKS = (
    "HEAD", "objects", "refs", "packed-refs", "reftable", "logs", "shallow", "worktrees",
)  # fmt: skip
_RULES = ("info/exclude", "info/attributes")
"""Git reads our copies of these: any agent can replace them by a pipe."""
_LONGEST_RULES = 1 << 20
_KEPT = frozenset({
    "core.repositoryformatversion", "extensions.objectformat", "extensions.refstorage",
    "core.autocrlf", "core.eol", "core.checkroundtripencoding", "core.filemode", "core.symlinks",
    "core.ignorecase", "core.precomposeunicode", "core.protecthfs", "core.protectntfs",
    "core.longpaths", "core.trustctime", "core.checkstat", "core.sparsecheckout",
    "core.sparsecheckoutcone", "index.sparse", "core.logallrefupdates", "core.sharedrepository",
    "core.compression", "core.loosecompression", "core.bigfilethreshold", "i18n.commitencoding",
    "user.name", "user.email", "author.name", "author.email", "committer.name", "committer.email",
})  # fmt: skip
"""Values that git only ever reads as numbers or words."""
_KEPT_OF_THE_USER = _KEPT | {"core.attributesfile", "core.excludesfile"}
"""Only the user may name files to read: a pipe would block git."""
_RUNS = re.compile(
    r"""
    core\.(alternaterefscommand|askpass|editor|fsmonitor|gitproxy|hookspath|pager|sshcommand)
    | alias\..* | credential\.(.*\.)?helper | diff\.(external|.*\.(command|textconv))
    | (browser|difftool|man|mergetool)\..*\.(cmd|path) | filter\..*\.(clean|process|smudge)
    | gpg\.(.*\.)?program | include\.path | includeif\..*\.path | init\.templatedir
    | interactive\.difffilter | merge\..*\.driver | pager\..* | protocol\.(.*\.)?allow
    | remote\..*\.(receivepack|uploadpack|vcs) | sequence\.editor | submodule\..*\.update
    | tar\..*\.command | trailer\..*\.(cmd|command) | uploadpack\.packobjectshook
    | url\..*\.(pushinsteadof|insteadof)
    """,
    re.VERBOSE,
)
"""Keys with which git runs a program; to tell a person, never to decide what is safe."""
_WRITES = re.compile(r"filter\.(.*)\.(?:process|smudge)")
_REMOTE = re.compile(r"remote\.(.*)\.url")
MISLED = (
    "{file} points git to another repository than {common}: it was changed. In the folder of a "
    "worktree it must hold `../..`, elsewhere it must not exist: fix it, and find out who wrote it"
)
UNREADABLE = (
    "the configuration {path} cannot be read: {why}. Look at what was changed in it last: agents "
    "that work without a container can write it"
)
_OWN = frozenset({"local", "worktree"})
_OFF = frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class RepositoryLocation:
    """Where one checkout and its repository are, found without any configuration."""

    root: Path | None
    """The top folder of the checkout; None of a bare repository."""
    git_dir: Path
    common_dir: Path


def locate(start: Path) -> RepositoryLocation | None:
    """Find the repository around a folder as git does, by the file system alone."""
    begin = Path(os.path.abspath(start))  # noqa: PTH100  # a path as the user says it, links kept
    for folder in (begin, *begin.parents):
        pointer = folder / ".git"
        if _is_git_dir(pointer):
            return RepositoryLocation(folder, pointer, _common(pointer))
        if os.path.isfile(pointer):  # noqa: PTH113  # on the way of every git command
            said = read_small(pointer) or b""
            target = Path(os.path.realpath(folder / os.fsdecode(said[8:].rstrip(b"\r\n"))))
            leads = said.startswith(b"gitdir: ") and _is_git_dir(target)
            return RepositoryLocation(folder, target, _common(target)) if leads else None
        if _is_git_dir(folder):
            return RepositoryLocation(
                folder.parent if folder.name == ".git" else None, folder, _common(folder)
            )
    return None


def pinned(git_dir: Path, root: Path | None) -> RepositoryLocation:
    """Return the location of a known git folder."""
    return RepositoryLocation(root, git_dir, _common(git_dir))


def misleads(place: RepositoryLocation) -> Path | None:
    """Return the file that would point git to the refs of another repository, if any.

    Git follows it even if the common folder is given.
    """
    file = f"{place.git_dir}/commondir"
    if place.git_dir == place.common_dir:
        return Path(file) if os.path.lexists(file) else None
    said = os.fsdecode((read_small(file) or b"").strip())
    there = bool(said) and is_same(os.path.join(place.git_dir, said), place.common_dir)  # noqa: PTH118  # on the way of every git command
    return None if there else Path(file)


def is_same(path: str, folder: Path) -> bool:
    """Tell whether a path resolves to this folder."""
    try:
        return os.path.samefile(path, folder)  # noqa: PTH121  # on the way of every git command
    except (OSError, ValueError):
        return False


def read_small(path: Path | str, most: int = _SMALL) -> bytes | None:
    """Read a small file without ever blocking; None if it is not a regular file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        return os.read(handle, most)
    finally:
        os.close(handle)


def read_small_text(path: Path | str) -> str:
    """Read a small text file without ever blocking; empty if it is not a regular file."""
    return (read_small(path) or b"").decode("utf-8", errors="replace")


def _is_git_dir(folder: Path) -> bool:
    if not os.path.lexists(f"{folder}/HEAD"):
        return False
    return os.path.isdir(f"{folder}/refs") or os.path.isfile(f"{folder}/commondir")  # noqa: PTH112, PTH113  # as in `locate`


def _common(git_dir: Path) -> Path:
    # By its location, not by its file `commondir`, which could be changed.
    above = git_dir.parent
    return above.parent if above.name == "worktrees" and _is_git_dir(above.parent) else git_dir


class SafeView:
    """The folder that replaces the common folder of one repository."""

    def __init__(self, source: Path, common: Path, home: Path) -> None:
        self.source = source
        self.folder = home / hashlib.sha256(os.fsencode(source)).hexdigest()[:16]
        self.common = common
        self._config = str(self.folder / "config")
        self._read_from = (str(common / "config"), str(source / "config.worktree"))
        self._text: bytes | None = None
        self._seen: tuple[FileStamp | None, ...] = ()
        self._made: tuple[FileStamp | None, ...] | None = None
        self._own = (self._config, *(str(self.folder / name) for name in _RULES))
        self._rules = tuple(str(common / name) for name in _RULES)
        self._rules_seen: tuple[FileStamp | None, ...] | None = None
        self.bare = False
        """Whether the configuration says that the repository is bare."""
        self.programs: dict[str, str] = {}
        """Keys of the repository's own configuration that make an ordinary git run a program."""
        self.sparse = False
        """Whether a checkout may lack some files of its commit."""
        self.ignores: str | None = None
        """The user's global file of ignore rules, if configured."""
        self.drivers: frozenset[str] = frozenset()
        """Filters that an ordinary git would run when it writes files."""
        self.remotes: dict[str, str] = {}
        """The address of each remote, from the repository's own configuration."""

    @staticmethod
    def source_of(place: RepositoryLocation) -> Path:
        """Return whose configuration counts: only a checkout with its own needs its own view."""
        own = os.path.exists(place.git_dir / "config.worktree")  # noqa: PTH110  # every command
        return place.git_dir if own else place.common_dir

    def env(self, place: RepositoryLocation) -> dict[str, str]:
        """Return the variables that pin git to this location and this view."""
        pins = {
            "GIT_DIR": str(place.git_dir),
            "GIT_COMMON_DIR": str(self.folder),
            "GIT_GRAFT_FILE": str(self.folder / "no grafts"),
        }
        if place.root is None:
            return pins | {"GIT_IMPLICIT_WORK_TREE": "0"}
        return pins | {"GIT_WORK_TREE": str(place.root)}

    def news(self) -> tuple[FileStamp | None, ...] | None:
        """Return the stamps of the configuration if it has to be read again."""
        stamps = tuple(map(_stamp, self._read_from))
        if stamps == self._seen:
            return None
        if all(stamp is None or stamp.regular for stamp in stamps):
            return stamps
        # Git would block forever on such a file.
        self.take(stamps, b"", "it is not a regular file")
        return None

    def take(self, stamps: tuple[FileStamp | None, ...], listing: bytes, complaint: str) -> None:
        """Adopt the allowed keys from the output of LISTING.

        If the configuration became unreadable, the last good one stays in force.
        """
        if complaint and self._text is None:
            raise GitError(UNREADABLE.format(path=self._read_from[0], why=complaint))
        self._seen = stamps
        if complaint:
            return
        kept: dict[str, str] = {}
        drivers = set()
        self.bare, self.programs = False, {}
        entries = list(_entries(listing))
        self.remotes = _remotes(entries)
        for scope, key, value in entries:
            if key in (_KEPT if scope in _OWN else _KEPT_OF_THE_USER):
                kept[key] = value
            elif key == "core.bare":
                self.bare = value.lower() not in _OFF
            elif scope in _OWN and _RUNS.fullmatch(key) and value.lower() not in _OFF:
                self.programs[key] = value
            if (driver := _WRITES.fullmatch(key)) is not None:
                drivers.add(driver[1])
        self.drivers = frozenset(drivers)
        self.sparse = kept.get("core.sparsecheckout", "").lower() not in _OFF
        self.ignores = kept.get("core.excludesfile")
        if not (self.common / "logs").is_dir():
            kept["core.logallrefupdates"] = "false"
        text = os.fsencode("".join(_line(*item) for item in kept.items()))
        if text != self._text:
            self._text, self._made = text, None

    def keep(self) -> None:
        """Bring the folder on disk up to date; only a few stats if it is."""
        rules = tuple(map(_stamp, self._rules))
        if self._made == tuple(map(_stamp, self._own)) and self._rules_seen == rules:
            return
        text = self._text or b""
        try:
            for each in (self.folder.parent.parent, self.folder.parent, self.folder):
                each.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name in _LINKS:
                self._link(name)
            self._copy_rules()
            if read_small(Path(self._config)) != text:
                write_whole(Path(self._config), text)
        except OSError as error:
            raise GitError(
                f"the runner's own view of {self.common} cannot be made in {self.folder} "
                f"({error.strerror}): remove that folder or make it writable"
            ) from error
        self._made = tuple(map(_stamp, self._own))
        self._rules_seen = tuple(map(_stamp, self._rules))

    def _copy_rules(self) -> None:
        """Update the copies of the rules; if one is not a regular file, keep the last good copy."""
        own = self.folder / "info"
        if own.is_symlink():  # made by an earlier version
            own.unlink()
        own.mkdir(mode=0o700, exist_ok=True)
        for source, name in zip(self._rules, _RULES, strict=True):
            copy = self.folder / name
            last = copy.with_name(f"{copy.name}.last")
            if not os.path.lexists(source):
                # Kept: before a pipe is put there, the file is removed.
                with suppress(FileNotFoundError):
                    copy.replace(last)
                continue
            text = read_small(source, _LONGEST_RULES)
            if text is not None:
                if read_small(copy, _LONGEST_RULES) != text:
                    write_whole(copy, text)
            elif stat.S_ISFIFO(os.lstat(source).st_mode):
                # It would block the git of every agent, too. A pipe has no content to lose.
                known = read_small(copy, _LONGEST_RULES) or read_small(last, _LONGEST_RULES)
                with released(source):
                    write_whole(Path(source), known or b"")

    def _link(self, name: str) -> None:
        link, target = self.folder / name, self.common / name
        if name == "logs" and not target.is_dir():
            return  # git can read through a dangling link, but not create folders there
        if link.is_symlink() and link.readlink() == target:
            return
        fresh = self.folder / f"{name}.{os.getpid()}"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(target)
        fresh.replace(link)


@contextmanager
def released(pipe: str) -> Iterator[None]:
    """Unblock the readers of a pipe, after the caller has removed it inside the block."""
    flags = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = -1
    with suppress(OSError):  # a socket, or gone
        # While both ends are open nobody blocks in open; on close its readers see end of file.
        handle = os.open(pipe, flags)
    try:
        yield
    finally:
        if handle >= 0:
            os.close(handle)


class FileStamp(NamedTuple):
    """Shows whether a file changed; the ctime cannot be set back."""

    regular: bool
    inode: int
    size: int
    modified: int
    changed: int


def _stamp(path: str) -> FileStamp | None:
    try:
        found = os.stat(path)  # noqa: PTH116  # on the way of every git command
    except OSError:
        return None
    regular = stat.S_ISREG(found.st_mode)
    return FileStamp(regular, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _entries(listing: bytes) -> Iterator[tuple[str, str, str]]:
    fields = os.fsdecode(listing).split("\0")
    for scope, entry in zip(fields[::2], fields[1::2], strict=False):
        key, line, value = entry.partition("\n")
        yield scope, key, value if line else "true"


def _remotes(entries: list[tuple[str, str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for scope, key, value in entries:
        if scope in _OWN and value and (remote := _REMOTE.fullmatch(key)) is not None:
            found.setdefault(remote[1], value)
    return found


def remote_lines(name: str, url: str) -> str:
    """Return the configuration lines of a remote."""
    return f'[remote "{_escaped(name)}"]\n\turl = "{_escaped(url)}"\n'


def _line(key: str, value: str) -> str:
    section, _, name = key.partition(".")
    return f'[{section}]\n\t{name} = "{_escaped(value)}"\n'


def _escaped(value: str) -> str:
    told = value.replace("\\", "\\\\").replace('"', '\\"')
    return told.replace("\n", "\\n").replace("\t", "\\t")
