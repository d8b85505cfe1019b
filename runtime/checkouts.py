"""Judging checkouts: the files of one commit, laid out by the runner for commands that judge it.

Owns a folder for each name, and the index that tells what is in it. The index lies beside the
runner's records and is only ever written from the objects of a commit, so nothing that an agent
wrote (index flags, stat data, ignore rules, filters, sparse patterns, attributes of the repository)
has a say in what is laid out. It must not touch a workspace or the user's checkout.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from runtime import judging_roots, proctable
from runtime.errors import BranchError, GitError, RepositoryError
from runtime.folders import remove_tree
from runtime.git import NOT_A_REPOSITORY, Git, set_over
from runtime.gitview import locate, read_small, remote_lines
from runtime.nested import has_files, may_have_links
from runtime.ownership import STATE_FOLDER, make_private
from runtime.scratch import scratch
from runtime.shortage import shortage_of
from runtime.status import (
    SLOW,
    STATUS_SECONDS,
    followed_pointers,
    pointers,
    really_changed,
    unseen,
)
from runtime.tree import LINK_MODE, SHA
from runtime.worktrees_dir import JUDGING, release

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

PRISTINE = {
    "core.sparseCheckout": "false",
    "core.trustctime": "true",
    "core.checkStat": "default",
    "core.fileMode": "true",
    "core.symlinks": "true",
}
"""Always the whole commit as it is; a change is seen by its change time, which cannot be set."""
ORPHAN_SECONDS = 10.0
_SIGN_IN = re.compile(r"^(https?://)[^/@]*@")
_TOLD_REFS = ("refs/heads", "refs/tags", "refs/remotes")


@dataclass(frozen=True, slots=True)
class LaidOut:
    """What was laid out under one name."""

    commit: str
    keep: frozenset[str]
    refs: str
    """The branches and tags that the commands may ask about."""


class JudgingCheckouts:
    """The judging checkouts of one repository, each kept from one verdict to the next."""

    def __init__(self, repo: Path, *, root: Path, git: Git | None = None) -> None:
        """Lay out below `root`; what nobody else may write stays in the state folder."""
        self._repo = repo.resolve()
        self._root = root
        self._own = self._repo / STATE_FOLDER / "judging"
        self._git = git or Git(home=self._repo / STATE_FOLDER / "git")
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._made = False
        self._laid_out: dict[str, LaidOut] = {}
        self._remotes = ""

    def folder(self, name: str) -> Path:
        """Say where the checkout of this name is, there or not."""
        return self._root / name

    async def lay_out(self, name: str, commit: str, *, keep: Collection[str] = ()) -> Path:
        """Lay out a commit and nothing else; costs what changed since the last one of this name.

        What is in `keep` (paths as `untracked` returns them) stays as it is, unless the commit has
        files of its own there.
        """
        if not SHA.fullmatch(commit):
            raise BranchError(f"{commit!r} is no full commit id")
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
                # Whatever a command left there may be in the way: begin with nothing.
                await self._drop(name)
                await self._lay_out(folder, commit, frozenset())
            return folder

    async def changed(self, name: str) -> tuple[str, ...]:
        """Return the files of the commit that are not as they were laid out."""
        folder = self._root / name
        asked = ("diff", "--name-only", "-z")
        told = await self._names(folder, *asked, timeout=STATUS_SECONDS)
        return tuple(await really_changed(self._git, folder, self._env(folder), told))

    async def left(self, name: str) -> tuple[str, ...]:
        """Return what commands left there and the commit's own rules do not ignore."""
        asked = ("ls-files", "--others", "--exclude-standard", "-z")
        return await self._names(self._root / name, *asked, timeout=STATUS_SECONDS)

    async def renew_git(self, name: str) -> None:
        """Give the commands to come a repository in which no earlier one wrote anything."""
        if (self._root / name).is_symlink():
            raise BranchError(f"{self._root / name} was replaced by a link: see who made it")
        await asyncio.to_thread(self._write_git, self._root / name, self._laid_out[name])

    async def untracked(self, name: str) -> tuple[str, ...]:
        """Return what else is there, ignored or not; a folder with nothing of the commit as one."""
        return await self._untracked(self._root / name)

    async def pointers(
        self, name: str, commit: str, files: Collection[str], *, followed: bool = False
    ) -> tuple[str, ...]:
        """Return those of the files that a commit holds by a pointer alone, as with git-lfs.

        With `followed`, only those that are in the checkout just what the pointer names.
        """
        folder = self._root / name
        look = followed_pointers if followed else pointers
        return tuple(await look(self._git, folder, self._env(folder), commit, files))

    async def hold(self, name: str, files: Collection[str]) -> None:
        """Keep files of the commit as they are now, for as long as `keep` names all of them."""
        folder = self._root / name
        asked = ("update-index", "--skip-worktree", "-z", "--stdin")
        await self._run(folder, *asked, data=_lines(files))
        self._held(folder).write_bytes(_lines(files))

    async def restore(self, name: str, commit: str, files: Collection[str]) -> None:
        """Put the files as they are in another commit in their place, until the next laying out."""
        folder = self._root / name
        with scratch("restore") as own:
            index = {"GIT_INDEX_FILE": f"{own}/index"}
            await self._run(folder, "read-tree", commit, env=index)
            names = b"".join(os.fsencode(file) + b"\0" for file in files)
            asked = ("checkout-index", "--force", "--quiet", "-z", "--stdin")
            await self._run(folder, *asked, env=index, data=names)

    async def remove(self, name: str) -> None:
        """Remove the checkout; doing it again does nothing."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            await self._drop(name)

    async def _lay_out(self, folder: Path, commit: str, keep: frozenset[str]) -> None:
        if folder.name not in self._laid_out:
            # A git of a runner that was killed may still be at it.
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
        laid_out = LaidOut(commit, keep, refs)
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
            # With a clock that went back, a file may have changed at the time it was laid out.
            if mark.stat().st_mtime_ns < index.stat().st_mtime_ns:
                index.unlink()
        except FileNotFoundError:
            pass
        (self._own / f"{folder.name}.index.lock").unlink(missing_ok=True)

    def _finish(
        self,
        folder: Path,
        laid_out: LaidOut,
        extra: Iterable[str],
        links: Iterable[str],
    ) -> None:
        for name in extra:
            _clear(folder, name, laid_out.keep)
        for name in links:
            (folder / name).mkdir(parents=True, exist_ok=True)
        self._write_git(folder, laid_out)

    def _write_git(self, folder: Path, laid_out: LaidOut) -> None:
        """Give the commands a repository of their own: they may ask git, and change nothing."""
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
        """Lay all files out again where one that was held is not to be kept."""
        held = self._held(folder)
        if held.exists():
            names = [os.fsdecode(name) for name in held.read_bytes().split(b"\0")[:-1]]
            if not keep.issuperset(names):
                self._index(folder).unlink(missing_ok=True)
                held.unlink()

    async def _find_remotes(self) -> str:
        """Return where files can be fetched from that are in no commit (git-lfs, submodules)."""
        if (place := locate(self._repo)) is None:
            raise RepositoryError(NOT_A_REPOSITORY.format(path=self._repo))
        remotes = (await self._git.view(place)).remotes
        # Who signs in by the address itself does so elsewhere: what judges is an agent's.
        without = {name: _SIGN_IN.sub(r"\1", url) for name, url in remotes.items()}
        return "".join(remote_lines(name, url) for name, url in without.items())

    async def _refs(self) -> str:
        asked = ("for-each-ref", "--format=%(objectname) %(refname)", *_TOLD_REFS)
        told = (await self._git.run(*asked, cwd=self._repo)).text
        return f"{told}\n" if told else ""

    async def _untracked(self, folder: Path) -> tuple[str, ...]:
        names = await self._names(folder, "ls-files", "--others", "--directory", "-z")
        # What is in the folder of a submodule is in no commit of ours, and git does not list it.
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
        names = (await self._run(folder, *args, timeout=timeout)).split(b"\0")
        return tuple(os.fsdecode(name) for name in names if name)

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
        """Make the repository without a history of its own that lays out commits of the user's."""
        if self._made:
            return
        judging_roots.note(self._repo, self._root)
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
        for root in dict.fromkeys((self._root, *judging_roots.noted(self._repo))):
            await asyncio.to_thread(remove_tree, root / name)
            if root.name == JUDGING:
                release(root.parent)


async def end_users_of(index: Path) -> None:
    """End what still writes by this index: a git of a runner that was killed knows no better."""
    mark = b"GIT_INDEX_FILE=" + os.fsencode(index)
    deadline = asyncio.get_running_loop().time() + ORPHAN_SECONDS
    while pids := await asyncio.to_thread(_with_environment, mark):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if asyncio.get_running_loop().time() > deadline:
            raise GitError(f"a git of an earlier runner does not end: {pids}")
        await asyncio.sleep(0.01)


def _with_environment(mark: bytes) -> list[int]:
    lock = Path(f"{os.fsdecode(mark.partition(b'=')[2])}.lock")
    if not lock.exists():  # git holds it from its start to its end
        return []
    return [pid for pid in proctable.all_pids() if mark in proctable.environment(pid)]


def _lines(files: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(file) + b"\0" for file in files)


def _clear(folder: Path, name: str, keep: frozenset[str]) -> None:
    """Remove one thing, or of a folder all but what is to be kept in it."""
    if name in keep:
        return
    within = name.endswith("/") and any(each.startswith(name) for each in keep)
    if not within:
        remove_tree(folder / name)
        return
    for child in (folder / name).iterdir():
        ending = "/" if child.is_dir() and not child.is_symlink() else ""
        _clear(folder, f"{name}{child.name}{ending}", keep)
