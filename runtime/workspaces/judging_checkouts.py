"""Judging checkouts: the files of one commit, laid out by the runner for commands that judge it.

Owns a folder for each name, and the index of its content. The index is kept with the runner's
records and only ever written from the objects of a commit, so nothing that an agent wrote (index
flags, stat data, ignore rules, filters, sparse patterns, attributes) influences the checkout. The
folders with checkouts are listed there, too: the setting may have changed. One that does not record
this repository as its owner does not count: a copied repository inherits its original's list. It
must not touch a workspace or the user's checkout.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from runtime import proc_table
from runtime.errors import BranchError, GitError, RepositoryError
from runtime.git.git import NOT_A_REPOSITORY, SLOW, Git, set_over
from runtime.git.ownership import STATE_FOLDER
from runtime.git.porcelain import LINK_MODE, SHA, listing_of, names_in
from runtime.git.safe_view import locate, read_small, remote_lines
from runtime.private_files import make_private, write_whole
from runtime.remove_tree import remove_tree
from runtime.shortage import shortage_of
from runtime.temp_folders import scratch
from runtime.workspaces.nested_repositories import has_files, may_have_links
from runtime.workspaces.status import (
    STATUS_SECONDS,
    followed_pointers,
    pointers,
    really_changed,
    unseen,
)
from runtime.workspaces.worktrees_dir import JUDGING, owners, release

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

PRISTINE = {
    "core.sparseCheckout": "false",
    "core.trustctime": "true",
    "core.checkStat": "default",
    "core.fileMode": "true",
    "core.symlinks": "true",
}
"""Always the whole commit; a change is detected by its ctime, which no program can set."""
ORPHAN_SECONDS = 10.0
_SIGN_IN = re.compile(r"^(https?://)[^/@]*@")
_TOLD_REFS = ("refs/heads", "refs/tags", "refs/remotes")


@dataclass(frozen=True, slots=True)
class LaidOutCommit:
    """What was checked out under one name."""

    commit: str
    keep: frozenset[str]
    refs: str
    """The branches and tags that the commands may ask about."""


class JudgingCheckouts:
    """The judging checkouts of one repository, each reused from verdict to verdict."""

    def __init__(self, repo: Path, *, root: Path, git: Git | None = None) -> None:
        """Create checkouts below `root`; the index and repository stay in the state folder."""
        self._repo = repo.resolve()
        self._root = root
        self._own = self._repo / STATE_FOLDER / "judging"
        self._git = git or Git(home=self._repo / STATE_FOLDER / "git")
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._made = False
        self._laid_out: dict[str, LaidOutCommit] = {}
        self._remotes = ""

    def folder(self, name: str) -> Path:
        """Return where the checkout of this name is, existing or not."""
        return self._root / name

    async def lay_out(self, name: str, commit: str, *, keep: Collection[str] = ()) -> Path:
        """Check out a commit and nothing else, reusing the last checkout of this name.

        Paths in `keep` (as `untracked` returns them) stay as they are, unless the commit has files
        there.
        """
        if not SHA.fullmatch(commit):
            raise BranchError(f"{commit!r} is not a full commit id")
        async with self._locks.setdefault(name, asyncio.Lock()):
            await self._make_own()
            folder = self._root / name
            self._let_go(folder, frozenset(keep))
            self._remotes = await self._find_remotes()
            try:
                await self._lay_out(folder, commit, frozenset(keep))
            except (GitError, OSError) as error:
                if shortage_of(error):
                    raise
                # What a command left there may be in the way: start from an empty folder.
                await self._drop(name)
                await self._lay_out(folder, commit, frozenset())
            return folder

    async def changed(self, name: str) -> tuple[str, ...]:
        """Return the files of the commit that were changed since the checkout."""
        folder = self._root / name
        asked = ("diff", "--name-only", "-z")
        told = await self._names(folder, *asked, timeout=STATUS_SECONDS)
        return tuple(await really_changed(self._git, folder, self._env(folder), told))

    async def left(self, name: str) -> tuple[str, ...]:
        """Return files that commands created and the commit's own rules do not ignore."""
        asked = ("ls-files", "--others", "--exclude-standard", "-z")
        return await self._names(self._root / name, *asked, timeout=STATUS_SECONDS)

    async def renew_git(self, name: str) -> None:
        """Recreate the `.git` folder, so that no earlier command's writes reach later ones."""
        if (self._root / name).is_symlink():
            raise BranchError(
                f"{self._root / name} was replaced by a link: find out who created it"
            )
        await asyncio.to_thread(self._write_git, self._root / name, self._laid_out[name])

    async def untracked(self, name: str) -> tuple[str, ...]:
        """Return untracked paths, ignored or not; a folder without tracked files as one path."""
        return await self._untracked(self._root / name)

    async def pointers(
        self, name: str, commit: str, files: Collection[str], *, followed: bool = False
    ) -> tuple[str, ...]:
        """Return those of the files that the commit holds only as a pointer, as with git-lfs.

        With `followed`, only those whose content in the checkout is what the pointer names.
        """
        folder = self._root / name
        look = followed_pointers if followed else pointers
        return tuple(await look(self._git, folder, self._env(folder), commit, files))

    async def hold(self, name: str, files: Collection[str]) -> None:
        """Keep changed files of the commit as they are, as long as `keep` names all of them."""
        folder = self._root / name
        asked = ("update-index", "--skip-worktree", "-z", "--stdin")
        await self._run(folder, *asked, data=listing_of(files))
        self._held(folder).write_bytes(listing_of(files))

    async def restore(self, name: str, commit: str, files: Collection[str]) -> None:
        """Replace files by their version in another commit, until the next checkout."""
        folder = self._root / name
        with scratch("restore") as own:
            index = {"GIT_INDEX_FILE": f"{own}/index"}
            await self._run(folder, "read-tree", commit, env=index)
            asked = ("checkout-index", "--force", "--quiet", "-z", "--stdin")
            await self._run(folder, *asked, env=index, data=listing_of(files))

    async def remove(self, name: str) -> None:
        """Remove the checkout; doing it again does nothing."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            await self._drop(name)

    async def _lay_out(self, folder: Path, commit: str, keep: frozenset[str]) -> None:
        if folder.name not in self._laid_out:
            # A git process of a killed runner may still be writing.
            await end_users_of(self._index(folder))
        await asyncio.to_thread(self._begin, folder)
        _, refs = await asyncio.gather(
            self._run(folder, "read-tree", "--reset", "-u", commit), self._refs()
        )
        extra, links, inner = await asyncio.gather(
            self._untracked(folder),
            self._links(folder),
            unseen(self._git, folder, self._env(folder), commit),
        )
        laid_out = LaidOutCommit(commit, keep, refs)
        await asyncio.to_thread(self._finish, folder, laid_out, (*extra, *inner), links)
        self._laid_out[folder.name] = laid_out

    def _begin(self, folder: Path) -> None:
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            remove_tree(folder)
        make_private(folder)
        remove_tree(folder / ".git")
        index, mark = self._index(folder), self._own / f"{folder.name}.begun"
        mark.write_bytes(b"")
        try:
            # If the clock went back, a file may have changed at the very time of its checkout.
            if mark.stat().st_mtime_ns < index.stat().st_mtime_ns:
                index.unlink()
        except FileNotFoundError:
            pass
        (self._own / f"{folder.name}.index.lock").unlink(missing_ok=True)

    def _finish(
        self,
        folder: Path,
        laid_out: LaidOutCommit,
        extra: Iterable[str],
        links: Iterable[str],
    ) -> None:
        for name in extra:
            _clear(folder, name, laid_out.keep)
        for name in links:
            (folder / name).mkdir(parents=True, exist_ok=True)
        self._write_git(folder, laid_out)

    def _write_git(self, folder: Path, laid_out: LaidOutCommit) -> None:
        """Give the commands a repository of their own to read from: they change nothing in ours."""
        git = folder / ".git"
        remove_tree(git)
        for each in (git / "objects" / "info", git / "refs", git / "info"):
            each.mkdir(parents=True)
        objects = os.fsencode(self._objects()) + b"\n"
        (git / "objects" / "info" / "alternates").write_bytes(objects)
        config = (self._own / "git" / "config").read_bytes()
        (git / "config").write_bytes(config + os.fsencode(self._remotes))
        (git / "packed-refs").write_text(laid_out.refs)
        shallow = read_small(self._objects().parent / "shallow")
        if shallow is not None:
            (git / "shallow").write_bytes(shallow)
        kept = "".join(f"/{name}\n" for name in sorted(laid_out.keep))
        (git / "info" / "exclude").write_text(kept)
        (git / "index").write_bytes(self._index(folder).read_bytes())
        (git / "HEAD").write_text(f"{laid_out.commit}\n")

    def _held(self, folder: Path) -> Path:
        return self._own / f"{folder.name}.held"

    def _let_go(self, folder: Path, keep: frozenset[str]) -> None:
        """Force a full checkout if a file that was held is not to be kept any more."""
        held = self._held(folder)
        if held.exists() and not keep.issuperset(names_in(held.read_bytes())):
            self._index(folder).unlink(missing_ok=True)
            held.unlink()

    async def _find_remotes(self) -> str:
        """Return the remotes, for files that are not in the commit (git-lfs, submodules)."""
        if (place := locate(self._repo)) is None:
            raise RepositoryError(NOT_A_REPOSITORY.format(path=self._repo))
        remotes = (await self._git.view(place)).remotes
        # Without credentials: the commands that judge a commit were written by an agent.
        without = {name: _SIGN_IN.sub(r"\1", url) for name, url in remotes.items()}
        return "".join(remote_lines(name, url) for name, url in without.items())

    async def _refs(self) -> str:
        asked = ("for-each-ref", "--format=%(objectname) %(refname)", *_TOLD_REFS)
        told = (await self._git.run(*asked, cwd=self._repo)).text
        return f"{told}\n" if told else ""

    async def _untracked(self, folder: Path) -> tuple[str, ...]:
        names = await self._names(folder, "ls-files", "--others", "--directory", "-z")
        # Git does not list the content of a submodule's folder.
        links = await self._links(folder)
        return (*names, *(f"{link}/" for link in links if has_files(folder / link)))

    async def _links(self, folder: Path) -> tuple[str, ...]:
        """Return the submodules of the commit."""
        if not may_have_links(self._index(folder)):
            return ()
        entries = await self._names(folder, "ls-files", "--stage", "-z")
        mode = LINK_MODE.decode()
        return tuple(each.partition("\t")[2] for each in entries if each.startswith(mode))

    async def _names(
        self,
        folder: Path,
        *args: str,
        timeout: float = SLOW,  # noqa: ASYNC109  # git must be stopped, not just left
    ) -> tuple[str, ...]:
        return tuple(names_in(await self._run(folder, *args, timeout=timeout)))

    async def _run(
        self,
        folder: Path,
        *args: str,
        env: Mapping[str, str] | None = None,
        data: bytes | None = None,
        timeout: float = SLOW,  # noqa: ASYNC109  # git must be stopped, not just left
    ) -> bytes:
        whole = {**self._env(folder), **(env or {})}
        done = await self._git.run(*args, cwd=folder, env=whole, input=data, timeout=timeout)
        return done.stdout

    def _env(self, folder: Path) -> dict[str, str]:
        return {
            "GIT_DIR": str(self._own / "git"),
            "GIT_WORK_TREE": str(folder),
            "GIT_INDEX_FILE": str(self._index(folder)),
            **set_over(PRISTINE.items()),
        }

    def _index(self, folder: Path) -> Path:
        return self._own / f"{folder.name}.index"

    def _objects(self) -> Path:
        if (place := locate(self._repo)) is None:
            raise RepositoryError(NOT_A_REPOSITORY.format(path=self._repo))
        return place.common_dir.resolve() / "objects"

    async def _make_own(self) -> None:
        """Create the empty repository that checks out commits of the user's."""
        if self._made:
            return
        note_root(self._repo, self._root)
        form = (await self._git.run("rev-parse", "--show-object-format", cwd=self._repo)).text
        config = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
        if form != "sha1":
            config = (
                "[core]\n\trepositoryformatversion = 1\n\tbare = false\n"
                f"[extensions]\n\tobjectformat = {form}\n"
            )
        git = self._own / "git"
        make_private(self._own)
        for each in (git / "objects" / "info", git / "refs"):
            each.mkdir(parents=True, exist_ok=True)
        (git / "objects" / "info" / "alternates").write_bytes(os.fsencode(self._objects()) + b"\n")
        (git / "config").write_text(config)
        (git / "HEAD").write_text("ref: refs/heads/none\n")
        self._made = True

    async def _drop(self, name: str) -> None:
        self._laid_out.pop(name, None)
        folder = self._root / name
        for file in (self._index(folder), self._held(folder), self._own / f"{name}.begun"):
            file.unlink(missing_ok=True)
        for root in dict.fromkeys((self._root, *noted_roots(self._repo))):
            await asyncio.to_thread(remove_tree, root / name)
            if root.name == JUDGING:
                release(root.parent)


async def end_users_of(index: Path) -> None:
    """Kill git processes of a killed runner that still write with this index."""
    mark = b"GIT_INDEX_FILE=" + os.fsencode(index)
    deadline = asyncio.get_running_loop().time() + ORPHAN_SECONDS
    while pids := await asyncio.to_thread(_with_environment, mark):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if asyncio.get_running_loop().time() > deadline:
            raise GitError(f"a git process of an earlier runner does not exit: {pids}")
        await asyncio.sleep(0.01)


def _with_environment(mark: bytes) -> list[int]:
    lock = Path(f"{os.fsdecode(mark.partition(b'=')[2])}.lock")
    if not lock.exists():  # git holds it from its start to its end
        return []
    return [pid for pid in proc_table.all_pids() if mark in proc_table.environment(pid)]


def _clear(folder: Path, name: str, keep: frozenset[str]) -> None:
    """Remove one path, or everything in a folder except what is to be kept."""
    if name in keep:
        return
    within = name.endswith("/") and any(each.startswith(name) for each in keep)
    if not within:
        remove_tree(folder / name)
        return
    for child in (folder / name).iterdir():
        ending = "/" if child.is_dir() and not child.is_symlink() else ""
        _clear(folder, f"{name}{child.name}{ending}", keep)


_ROOTS = "roots"


def note_root(repo: Path, root: Path) -> None:
    """Record that judging checkouts are made below this folder."""
    known = tuple(_listed_roots(repo))
    if root in known:
        return
    file = _roots_file(repo)
    make_private(file.parent)
    lines = (json.dumps(str(each)) for each in (*filter(Path.is_dir, known), root))
    write_whole(file, "".join(f"{line}\n" for line in lines).encode("ascii"))


def noted_roots(repo: Path) -> tuple[Path, ...]:
    """Return the existing folders with judging checkouts of this repository."""
    return tuple(
        root
        for root in _listed_roots(repo)
        if root.name == JUDGING and root.is_dir() and repo in owners(root.parent)
    )


def _listed_roots(repo: Path) -> Iterator[Path]:
    for line in os.fsdecode(read_small(_roots_file(repo)) or b"").splitlines():
        try:
            yield Path(json.loads(line))
        except (ValueError, TypeError):
            continue


def _roots_file(repo: Path) -> Path:
    return repo / STATE_FOLDER / "judging" / _ROOTS
