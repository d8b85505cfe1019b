"""What in a checkout is not committed, compared by the runner itself.

Owns the index by which files are compared. What an agent can write is not trusted: no index flag or
stat data, no sparse pattern, no ignore rule added later. It must not change anything.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import stat
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from runtime.errors import GrownError
from runtime.git.git import SLOW, pinned_env, set_over, unless
from runtime.git.ownership import OWN_FILES_OUT
from runtime.git.porcelain import STATUS, listing_of, parse_status, shown, some_of
from runtime.git.safe_view import pinned
from runtime.temp_folders import scratch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

    from runtime.git.command import GitResult
    from runtime.git.git import Git
    from runtime.git.porcelain import TreeStatus
    from runtime.git.safe_view import SafeView
    from runtime.setup.made_by_setup import Made

_FORM = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-[^\n]*\n)*"
    rb"oid sha256:([0-9a-f]{64})\nsize ([0-9]{1,18})\n"
)


class Pointer(NamedTuple):
    """What stands in a commit in place of a file."""

    sha256: str
    size: int

    @classmethod
    def read(cls, content: bytes) -> Self | None:
        """Parse one; None if the content is not a pointer."""
        found = _FORM.fullmatch(content)
        return None if found is None else cls(found[1].decode(), int(found[2]))

    def names(self, path: Path) -> bool:
        """Tell whether a file has the content that it stands for."""
        digest = hashlib.sha256()
        try:
            if path.is_symlink() or path.stat().st_size != self.size:
                return False
            with path.open("rb") as file:
                while part := file.read(1 << 20):
                    digest.update(part)
        except OSError:
            return False
        return digest.hexdigest() == self.sha256


_FOLDER, _EXECUTABLE = b"040000 ", b"100755"
_MODES = (b"100644", _EXECUTABLE)
LOST = "(unknown)"
"""Git's name for a branch whose file it cannot read."""
LARGE = 256 << 20
"""Bytes of a file above which its content is not compared a second time."""
STATUS_SECONDS = 30.0
"""Bounded, because a status is also read while agents are being stopped."""


FOLDERS_REMEMBERED = 64
_folders: dict[str, tuple[str, ...]] = {}
"""Cache: the folders of commits, which never change."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """A folder of files and its git folder; never found by searching upwards."""

    git_dir: Path
    folder: Path
    ignored: bytes | None = None
    """Ignore rules from before the agent; None if unknown. Other rules are the agent's."""
    made: Made | None = None
    """What the set-up made there, which is not work as long as it is unchanged."""

    def not_made(self, names: Iterable[str]) -> list[str]:
        """Return those of the names that are not as the set-up made them."""
        return list(names) if self.made is None else self.made.others(self.folder, names)

    @property
    def env(self) -> dict[str, str]:
        """The variables that pin git to this checkout."""
        return pinned_env(self.git_dir, self.folder)


class OwnIndex(NamedTuple):
    """The variables for an index of the runner's own, and what the agent's index adds to it."""

    env: dict[str, str]
    staged: bytes
    """Names of new files in the agent's own index, each ended by NUL."""
    unreadable: str = ""
    """Git's message if it cannot read the agent's index."""


@asynccontextmanager
async def own_index(git: Git, checkout: Checkout) -> AsyncIterator[OwnIndex]:
    """Give the variables for an index of the runner's own, at the commit that is checked out.

    It has no stat data and no flags, so git reads each file to compare it. The index of the
    checkout belongs to the agent: it can claim that a file is unchanged.
    """
    with scratch("index") as folder:
        env = {
            **checkout.env,
            "GIT_INDEX_FILE": f"{folder}/index",
            **set_over([("core.sparseCheckout", "false")]),
        }
        cwd = checkout.folder
        # On a branch without a commit it stays empty.
        begun, (staged, unreadable) = await asyncio.gather(
            git.run("read-tree", "HEAD", cwd=cwd, env=env, check=False, timeout=SLOW),
            _staged_files(git, checkout),
        )
        yield OwnIndex(env, staged, unreadable if begun.code == 0 else "")


async def status_of(git: Git, checkout: Checkout) -> TreeStatus:
    """Return the state of a checkout."""
    async with own_index(git, checkout) as index:
        return await status_in(git, checkout, index)


async def status_in(git: Git, checkout: Checkout, index: OwnIndex) -> TreeStatus:
    """Return its state, compared with the given index of the runner's own."""
    env = index.env
    asked = (*STATUS, "--untracked-files=all")
    result, hidden, view = await asyncio.gather(
        _unless_grown(git, checkout, env, asked),
        ignored_by_agent(git, checkout, env),
        git.view(pinned(checkout.git_dir, checkout.folder)),
    )
    told = _added(result.stdout, index.staged)
    status = parse_status(told, checkout.folder, hidden=hidden, sparse=view.sparse)
    inner = await unseen(git, checkout.folder, env, status.head)
    changed = await really_changed(git, checkout.folder, env, status.changed)
    followed = await followed_pointers(git, checkout.folder, env, "HEAD", changed)
    status = replace(
        status,
        unreadable=index.unreadable or ("its branch is damaged" if status.branch == LOST else ""),
        changed=tuple(name for name in changed if name not in followed),
        untracked=(*checkout.not_made(status.untracked), *inner),
        hidden=(*checkout.not_made(status.hidden), *followed),
    )
    return await _as_filtered(git, checkout, view, status)


async def _unless_grown(
    git: Git, checkout: Checkout, env: Mapping[str, str], asked: tuple[str, ...]
) -> GitResult:
    """Run git status; GrownError if that takes long because a file became very large."""
    cwd = checkout.folder

    async def look() -> GrownError | None:
        grown = await _grown(git, cwd, env)
        text = f"{some_of(grown)} grew to more than {LARGE >> 20} MiB"
        return GrownError(text, code=1) if grown else None

    return await unless(git.run(*asked, cwd=cwd, env=env, timeout=STATUS_SECONDS), look)


async def _grown(git: Git, folder: Path, env: Mapping[str, str]) -> list[str]:
    """Return the files of the commit that became very large."""
    listed = await git.run("ls-files", "--stage", "-z", cwd=folder, env=env)
    entries = [entry.partition(b"\t") for entry in listed.stdout.split(b"\0") if entry]
    sizes = await asyncio.to_thread(lambda: {name: _size(folder, name) for _, _, name in entries})
    large = [(told.split(b" ")[1], name) for told, _, name in entries if sizes[name] > LARGE]
    known = await git.run(
        "cat-file", "--batch-check=%(objectsize)",
        cwd=folder, env=env, input=b"".join(sha + b"\n" for sha, _ in large),
    )  # fmt: skip
    asked = zip(large, known.stdout.splitlines(), strict=True)
    return [shown(name) for (_, name), size in asked if size != b"%d" % sizes[name]]


def _size(folder: Path, name: bytes) -> int:
    try:
        return os.lstat(os.path.join(os.fsencode(folder), name)).st_size  # noqa: PTH118  # of thousands
    except OSError:
        return 0


async def _as_filtered(
    git: Git, checkout: Checkout, view: SafeView, status: TreeStatus
) -> TreeStatus:
    """Treat as unchanged what only differs by a filter of the user's, as far as is known.

    The runner runs no filter. So only here the agent's own index is used.
    """
    if not (view.drivers and status.changed):
        return status
    filtered = await unfiltered_files(git, checkout, view, listing_of(status.changed))
    if not filtered:
        return status
    told = await git.run(*STATUS, cwd=checkout.folder, env=checkout.env, timeout=STATUS_SECONDS)
    hidden = frozenset(filtered).difference(parse_status(told.stdout, checkout.folder).changed)
    return replace(
        status,
        changed=tuple(name for name in status.changed if name not in hidden),
        hidden=(*status.hidden, *sorted(hidden)),
    )


async def _staged_files(git: Git, checkout: Checkout) -> tuple[bytes, str]:
    """Return ignored files that an agent added to its index for its next commit.

    If git cannot read the index, also its message.
    """
    asked = ("diff-index", "--cached", "--name-only", "--no-renames", "--diff-filter=A", "-z")
    told = await git.run(*asked, "HEAD", cwd=checkout.folder, env=checkout.env, check=False)
    if told.code:
        return b"", told.stderr.strip() or f"exit code {told.code}"
    if not (checkout.git_dir / "index").exists():
        return b"", "it has no index, so git treats all its files as removed"
    return told.stdout, ""


def _added(status: bytes, staged: bytes) -> bytes:
    known = frozenset(record.removesuffix(b"/") for record in status.split(b"\0"))
    told = [b"? " + name + b"\0" for name in staged.split(b"\0") if name]
    return status + b"".join(record for record in told if record[:-1] not in known)


async def ignored_by_agent(git: Git, checkout: Checkout, env: Mapping[str, str]) -> bytes:
    """Return the uncommitted files that only an agent's rules may ignore."""
    if checkout.ignored is None:
        return b""
    rules = Path(env["GIT_INDEX_FILE"]).with_name("ignored")
    rules.write_bytes(checkout.ignored)
    asked = ("ls-files", "--others", "-z", f"--exclude-from={rules}", "--", ".", *OWN_FILES_OUT)
    return (await git.run(*asked, cwd=checkout.folder, env=env, timeout=SLOW)).stdout


async def pointers(
    git: Git, folder: Path, env: Mapping[str, str], commit: str, files: Iterable[str]
) -> dict[str, Pointer]:
    """Return those of the files that a commit holds only as a pointer, as with git-lfs."""
    asked = [file for file in files if "\n" not in file]
    if not asked:
        return {}
    names = b"".join(os.fsencode(f"{commit}:{file}\n") for file in asked)
    told = (await git.run("cat-file", "--batch", cwd=folder, env=env, input=names)).stdout
    found = {}
    for file in asked:
        head, _, told = told.partition(b"\n")
        if b" blob " in head:
            size = int(head.rsplit(b" ", 1)[-1])
            if (pointer := Pointer.read(told[:size])) is not None:
                found[file] = pointer
            told = told[size + 1 :]
    return found


async def followed_pointers(
    git: Git, folder: Path, env: Mapping[str, str], commit: str, files: Iterable[str]
) -> tuple[str, ...]:
    """Return those of them whose content is what the pointer names."""
    found = await pointers(git, folder, env, commit, files)
    return tuple(file for file, pointer in found.items() if pointer.names(folder / file))


async def unseen(git: Git, folder: Path, env: Mapping[str, str], commit: str) -> tuple[str, ...]:
    """Return entries called `.git` in the folders of a commit, which git never lists."""
    if not commit:
        return ()
    if commit not in _folders:
        asked = ("ls-tree", "-r", "-d", "-z", commit)
        listed = await git.run(*asked, cwd=folder, env=env)
        while len(_folders) >= FOLDERS_REMEMBERED:
            _folders.pop(next(iter(_folders)))
        _folders[commit] = tuple(
            os.fsdecode(entry.partition(b"\t")[2])
            for entry in listed.stdout.split(b"\0")
            if entry.startswith(_FOLDER)
        )
    return tuple(_inner(folder, _folders[commit]))


def _inner(top: Path, folders: Iterable[str]) -> Iterator[str]:
    for name in folders:
        if os.path.lexists(top / name / ".git"):
            yield f"{name}/.git"


async def really_changed(
    git: Git, folder: Path, env: Mapping[str, str], names: Iterable[str]
) -> list[str]:
    """Leave out files whose bytes are exactly those of the commit.

    Git compares them as they would be added, and its rules for line endings may have changed.
    """
    wanted = list(names)
    if not wanted:
        return []
    asked = ("ls-files", "--stage", "-z", "--", *wanted)
    literal = {**env, "GIT_LITERAL_PATHSPECS": "1"}
    known = {}
    for entry in (await git.run(*asked, cwd=folder, env=literal)).stdout.split(b"\0"):
        told, _, name = entry.partition(b"\t")
        if told:
            mode, sha, _ = told.split(b" ")
            known[shown(name)] = mode, sha.decode()
    return [name for name in wanted if not is_blob(folder / name, *known.get(name, (b"", "")))]


def is_blob(path: Path, mode: bytes, sha: str) -> bool:
    """Tell whether a file has the content of an object, and the right executable bit."""
    algorithm = {40: hashlib.sha1, 64: hashlib.sha256}.get(len(sha))
    try:
        found = path.lstat()
        if algorithm is None or not stat.S_ISREG(found.st_mode) or mode not in _MODES:
            return False
        if found.st_size > LARGE:
            return False
        if (mode == _EXECUTABLE) is not bool(found.st_mode & stat.S_IXUSR):
            return False
        digest = algorithm(b"blob %d\0" % found.st_size)
        with path.open("rb") as file:
            while part := file.read(1 << 20):
                digest.update(part)
    except OSError:
        return False
    return digest.hexdigest() == sha


async def head_of(git: Git, checkout: Checkout) -> str:
    """Return the commit that is checked out; empty if there is none."""
    asked = ("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    return (await git.run(*asked, cwd=checkout.folder, env=checkout.env, check=False)).text


async def unfiltered_files(
    git: Git, checkout: Checkout, view: SafeView, names: bytes
) -> tuple[str, ...]:
    """Return which of the files (names, ended by NUL) the user's git would pass to a filter."""
    if not view.drivers or not names:
        return ()
    answer = await git.run(
        "check-attr", "-z", "--stdin", "filter",
        cwd=checkout.folder, env=checkout.env, input=names, timeout=SLOW,
    )  # fmt: skip
    fields = answer.stdout.split(b"\0")
    return tuple(
        shown(path)
        for path, driver in zip(fields[:-1:3], fields[2::3], strict=True)
        if os.fsdecode(driver) in view.drivers
    )
