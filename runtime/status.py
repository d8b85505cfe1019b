"""What in a checkout is in no commit, as the runner sees it with its own eyes.

Owns the index by which files are compared. What an agent can write says nothing here: no index flag
or stat data, no sparse pattern, no ignore rule that came after it. It changes nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from runtime.errors import GrownError
from runtime.git import set_over, unless
from runtime.gitview import pinned
from runtime.lfs import Pointer
from runtime.ownership import OWN_FILES_OUT
from runtime.scratch import scratch
from runtime.tree import STATUS, parse_status, shown, some_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

    from runtime.git import Git
    from runtime.gitcall import GitResult
    from runtime.gitview import View
    from runtime.setup.made import Made
    from runtime.tree import TreeStatus

_FOLDER, _EXECUTABLE = b"040000 ", b"100755"
_MODES = (b"100644", _EXECUTABLE)
LOST = "(unknown)"
"""What git calls a branch whose file it cannot read."""
LARGE = 256 << 20
"""Bytes of a file that is not read once more to see whether it only differs by rules of git."""
SLOW = 600.0
"""Seconds for a git command that touches every file of a repository."""
STATUS_SECONDS = 30.0
"""A status is asked for while agents are stopped, too: what holds git up may not hold that up."""


FOLDERS_REMEMBERED = 64
_folders: dict[str, tuple[str, ...]] = {}
"""The folders of commits; what a commit holds is said by its id."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """A folder of files and the git folder that knows them; never found by searching upwards."""

    git_dir: Path
    folder: Path
    ignored: bytes | None = None
    """Ignore rules from before the agent came: what other rules hide, it hides. None: not known."""
    made: Made | None = None
    """What the set-up made there, which is nobody's work as long as nobody changes it."""

    def not_made(self, names: Iterable[str]) -> list[str]:
        """Return those of the names that are not as the set-up made them."""
        return list(names) if self.made is None else self.made.others(self.folder, names)

    @property
    def env(self) -> dict[str, str]:
        """The variables that pin git to this checkout whatever a `.git` in the folder says."""
        return {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(self.folder)}


class OwnIndex(NamedTuple):
    """The variables for an index of the runner's own, and what an agent's holds beyond it."""

    env: dict[str, str]
    staged: bytes
    """Names of new files that the agent put into its own index, each ended by NUL."""
    unreadable: str = ""
    """What git says of that index where it cannot read it."""


@asynccontextmanager
async def own_index(git: Git, checkout: Checkout) -> AsyncIterator[OwnIndex]:
    """Give the variables for an index of the runner's own, at the commit that is checked out.

    It holds no stat data and no flags, so that git reads each file to compare it. The index of the
    checkout is an agent's: it can say of any file that it did not change.
    """
    with scratch("index") as folder:
        env = {
            **checkout.env,
            "GIT_INDEX_FILE": f"{folder}/index",
            **set_over([("core.sparseCheckout", "false")]),
        }
        cwd = checkout.folder
        # On a branch without a commit, nothing is in it.
        begun, (staged, unreadable) = await asyncio.gather(
            git.run("read-tree", "HEAD", cwd=cwd, env=env, check=False, timeout=SLOW),
            _staged_files(git, checkout),
        )
        yield OwnIndex(env, staged, unreadable if begun.code == 0 else "")


async def status_of(git: Git, checkout: Checkout) -> TreeStatus:
    """Say where a checkout stands."""
    async with own_index(git, checkout) as index:
        return await status_in(git, checkout, index)


async def status_in(git: Git, checkout: Checkout, index: OwnIndex) -> TreeStatus:
    """Say where it stands by the given index of ours."""
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
    """Ask for the status; GrownError where that takes long because a file became very large."""
    cwd = checkout.folder

    async def look() -> GrownError | None:
        grown = await _grown(git, cwd, env)
        text = f"{some_of(grown)} grew to more than {LARGE >> 20} MiB"
        return GrownError(text, code=1) if grown else None

    return await unless(git.run(*asked, cwd=cwd, env=env, timeout=STATUS_SECONDS), look)


async def _grown(git: Git, folder: Path, env: Mapping[str, str]) -> list[str]:
    """Return the files of the commit that are very large, and were not."""
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


async def _as_filtered(git: Git, checkout: Checkout, view: View, status: TreeStatus) -> TreeStatus:
    """Take for unchanged what differs by no more than a filter of the user's, as far as we know.

    We run no filter. So there alone the agent's own index is asked, and what it hides is kept.
    """
    if not (view.drivers and status.changed):
        return status
    names = b"".join(os.fsencode(name) + b"\0" for name in status.changed)
    filtered = await unfiltered_files(git, checkout, view, names)
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
    """Return what an agent put into its index for its next commit, although it is ignored.

    Of an index that git cannot read, what it says of it.
    """
    asked = ("diff-index", "--cached", "--name-only", "--no-renames", "--diff-filter=A", "-z")
    told = await git.run(*asked, "HEAD", cwd=checkout.folder, env=checkout.env, check=False)
    if told.code:
        return b"", told.stderr.strip() or f"exit code {told.code}"
    if not (checkout.git_dir / "index").exists():
        return b"", "it has no index, so git takes all its files for removed"
    return told.stdout, ""


def _added(status: bytes, staged: bytes) -> bytes:
    known = frozenset(record.removesuffix(b"/") for record in status.split(b"\0"))
    told = [b"? " + name + b"\0" for name in staged.split(b"\0") if name]
    return status + b"".join(record for record in told if record[:-1] not in known)


async def ignored_by_agent(git: Git, checkout: Checkout, env: Mapping[str, str]) -> bytes:
    """Return the files that are in no commit and that only an agent's rules may ignore."""
    if checkout.ignored is None:
        return b""
    rules = Path(env["GIT_INDEX_FILE"]).with_name("ignored")
    rules.write_bytes(checkout.ignored)
    asked = ("ls-files", "--others", "-z", f"--exclude-from={rules}", "--", ".", *OWN_FILES_OUT)
    return (await git.run(*asked, cwd=checkout.folder, env=env, timeout=SLOW)).stdout


async def pointers(
    git: Git, folder: Path, env: Mapping[str, str], commit: str, files: Iterable[str]
) -> dict[str, Pointer]:
    """Return those of the files that a commit holds by a pointer alone, as with git-lfs."""
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
    """Return those of them that are just what the pointer names."""
    found = await pointers(git, folder, env, commit, files)
    return tuple(file for file, pointer in found.items() if pointer.names(folder / file))


async def unseen(git: Git, folder: Path, env: Mapping[str, str], commit: str) -> tuple[str, ...]:
    """Return what is called `.git` in the folders of a commit: git never looks at it there."""
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
    """Leave out files whose very bytes are those of the index, as it was read from a commit.

    Git compares them as they would be added, and its rules for line ends may have changed since.
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
    """Tell whether a file is just what an object holds, and as executable as it should be."""
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
    """Return the commit that is checked out; nothing where there is none."""
    asked = ("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    return (await git.run(*asked, cwd=checkout.folder, env=checkout.env, check=False)).text


async def unfiltered_files(
    git: Git, checkout: Checkout, view: View, names: bytes
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
