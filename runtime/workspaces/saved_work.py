"""Saves uncommitted work: commits a folder's files under a ref of ours.

Owns the temporary index, and the copy from which git adds the files. It must not change the
checkout it saves: neither its files, nor its index, nor its HEAD.
"""

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.errors import GitError, GrownError
from runtime.git.git import SLOW, set_over
from runtime.git.ownership import OWN_FILES_OUT, SAVED_REFS
from runtime.git.porcelain import LINK_MODE, Link, listing_of, shown, shown_names, some_of
from runtime.temp_folders import scratch
from runtime.workspaces.nested_repositories import has_files, loose_links, may_have_links
from runtime.workspaces.safe_copy import copy_out
from runtime.workspaces.status import (
    Checkout,
    head_of,
    ignored_by_agent,
    own_index,
    status_in,
    unseen,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runtime.git.git import Git

IDENTITY = {
    "GIT_AUTHOR_NAME": "Loopwright",
    "GIT_AUTHOR_EMAIL": "loopwright@localhost",
    "GIT_COMMITTER_NAME": "Loopwright",
    "GIT_COMMITTER_EMAIL": "loopwright@localhost",
}
"""Commits of the runner itself need no configured user."""
SAVE_LIMIT = 1 << 30
"""Default limit on the bytes of files in one save."""
MOST_IGNORED, MOST_IGNORED_BYTES = 1000, 16 << 20
"""Limits on the ignored files of one top-level folder that are saved."""
UNPUSHED = (
    "error: {folder} is a submodule without its files, and its commit {commit} is nowhere else: "
    "check it out (git submodule update) and push it\n"
)


@dataclass(frozen=True, slots=True)
class SavedCommit:
    """Uncommitted work that is now kept under a ref."""

    ref: str
    commit: str
    files: tuple[str, ...]
    problems: str = ""
    """What git could not read, in its words; empty when everything was saved."""
    left_out: tuple[str, ...] = ()
    """Folders ignored by an agent's rules alone that are too large to be saved."""
    too_large: tuple[str, ...] = ()
    """Files beyond the limit of one save, each with its size; they stay in the workspace only."""


def saved_message(agent_id: str, name: str, reason: str) -> str:
    """Word the commit that holds saved work."""
    return f"Uncommitted work of {agent_id}, attempt {name}: {reason}\n"


async def keep_work(  # noqa: PLR0913  # each names one fact of the saving
    git: Git,
    checkout: Checkout,
    agent_id: str,
    name: str,
    reason: str,
    *,
    for_good: bool = False,
    limit: int = SAVE_LIMIT,
) -> SavedCommit | None:
    """Save what is uncommitted, if anything, and what only an agent's rules ignore.

    With `for_good` (the checkout will be removed) also a detached head, and the files of nested
    repositories.
    """
    ref = f"{SAVED_REFS}{agent_id}/{name}"
    async with own_index(git, checkout) as index:
        try:
            status = await status_in(git, checkout, index)
        except GitError as error:
            if error.code is None or isinstance(error, GrownError):
                raise  # git itself did not fail: it was blocked, or is missing
            # Something cannot be compared; saving reads the files themselves.
            head, on_branch, clean = await head_of(git, checkout), False, False
        else:
            head, on_branch = status.head, status.branch is not None
            clean = not status.dirty and not status.hidden
        if for_good and not on_branch and await _has_files(git, checkout, head):
            keep = ("update-ref", f"{ref}-detached", head)
            await git.run(*keep, cwd=checkout.folder, env=checkout.env)
        if clean and not (for_good and may_have_links(Path(index.env["GIT_INDEX_FILE"]))):
            return None
        extra = await ignored_by_agent(git, checkout, index.env) + index.staged
    message = saved_message(agent_id, name, reason)
    saver = Saver(git, checkout, for_good=for_good, limit=limit)
    return await save_work(saver, head=head, ref=ref, message=message, extra=extra)


async def _has_files(git: Git, checkout: Checkout, commit: str) -> bool:
    """Tell whether the files of a commit exist: a ref to a commit without them is useless."""
    asked = ("cat-file", "-e", f"{commit}^{{tree}}")
    told = await git.run(*asked, cwd=checkout.folder, env=checkout.env, check=False)
    return bool(commit) and told.code == 0


async def save_work(
    saver: Saver, *, head: str, ref: str, message: str, extra: bytes = b""
) -> SavedCommit | None:
    """Commit what differs from head (a commit, or empty) under the ref; None when nothing does.

    `extra` names files to save although they are ignored, each ended by NUL. What the ref held
    before stays reachable as a parent of the new commit.
    """
    with scratch("save") as folder:
        saver.begin(folder)
        tree = await saver.tree_of(head, extra)
        if saver.for_good and head:
            await saver.refuse_unseen(head)
        asked = ("rev-parse", "--verify", f"{head}^{{tree}}") if head else ("mktree",)
        base_tree = await saver.ask(*asked)
        large = saver.too_large
        if tree == base_tree and not (saver.for_good and saver.problems):
            return SavedCommit("", "", (), too_large=large) if large else None
        files = await saver.files_between(base_tree, tree)
        older = await saver.ask("log", "-1", "--format=%H %T %P", ref, check=False)
        old_commit, old_tree, *old_parents = older.split(" ") if older else ("", "")
        if old_tree == tree and old_parents[:1] == [head]:
            return SavedCommit(ref, old_commit, files, saver.problems, saver.left_out, large)
        if saver.left_out:
            message += f"\nLeft out, because it is ignored and large: {some_of(saver.left_out)}\n"
        if large:
            message += f"\nLeft out, because it is beyond the limit: {some_of(large)}\n"
        parents = [word for parent in (head, old_commit) if parent for word in ("-p", parent)]
        commit = await saver.ask("commit-tree", tree, *parents, data=message)
        await saver.ask("update-ref", ref, commit, old_commit)
        return SavedCommit(ref, commit, files, saver.problems, saver.left_out, large)


class Saver:
    """Writes trees through temporary index files."""

    def __init__(
        self, git: Git, checkout: Checkout, *, for_good: bool, limit: int = SAVE_LIMIT
    ) -> None:
        self._git = git
        self._checkout = checkout
        self.for_good = for_good
        self._limit = self._room = limit
        self._indexes = 0
        self.problems = ""
        self.left_out: tuple[str, ...] = ()
        self.too_large: tuple[str, ...] = ()

    def begin(self, scratch: Path) -> None:
        """Work in this folder."""
        self._scratch = scratch
        # A separate index even for reading: a broken one would make that fail, too.
        own = {"GIT_INDEX_FILE": str(self._fresh_index())}
        self._env = {**self._checkout.env, **IDENTITY, **own}

    async def ask(self, *args: str, check: bool = True, data: str | None = None) -> str:
        """Return git's output about the checkout; empty if it fails and `check` is off."""
        result = await self._git.run(
            *args,
            cwd=self._checkout.folder,
            env=self._env,
            check=check,
            input=None if data is None else data.encode(),
        )
        return result.text if result.code == 0 else ""

    async def files_between(self, before: str, after: str) -> tuple[str, ...]:
        """Return the files in which two trees differ."""
        asked = ("diff-tree", "-r", "-z", "--no-renames", "--name-only", before, after)
        result = await self._git.run(*asked, cwd=self._checkout.folder, env=self._env)
        return shown_names(result.stdout)

    async def refuse_unseen(self, head: str) -> None:
        """Report files that cannot be saved, because git stores nothing of that name."""
        for name in await unseen(self._git, self._checkout.folder, self._env, head):
            path = self._checkout.folder / name
            self.problems += f"error: {path}: git stores nothing of that name\n"

    async def tree_of(self, head: str, extra: bytes) -> str:
        """Write the checkout's files as a tree, including ignored files in `extra`."""
        env = {
            **self._checkout.env,
            "GIT_INDEX_FILE": str(self._fresh_index()),
            **set_over([("core.sparseCheckout", "false")]),
        }
        folder = self._checkout.folder
        if head:
            await self._git.run("read-tree", head, cwd=folder, env=env, timeout=SLOW)
        return await self._fill(folder, env, OWN_FILES_OUT, extra)

    def _fresh_index(self) -> Path:
        self._indexes += 1
        return self._scratch / f"index-{self._indexes}"

    async def _fill(
        self, folder: Path, env: Mapping[str, str], out: tuple[str, ...], extra: bytes = b""
    ) -> str:
        listed = await self._list(folder, env, out)
        if folder == self._checkout.folder:
            self.left_out = listed.take_in(folder, extra)
            listed.unknown = set(self._checkout.not_made(listed.unknown))
            listed.nested = self._checkout.not_made(listed.nested)
        await self._take(folder, env, listed)
        if self.for_good and listed.links:
            await self._open_links(folder, env, listed)
        await self._link(folder, env, listed.links)
        for name in listed.nested:
            index = str(self._fresh_index())
            inner = {**env, "GIT_WORK_TREE": str(folder / name), "GIT_INDEX_FILE": index}
            tree = await self._fill(folder / name, inner, ())
            await self._git.run("read-tree", f"--prefix={name}/", tree, cwd=folder, env=env)
        return (await self._git.run("write-tree", cwd=folder, env=env, timeout=SLOW)).text

    async def _take(self, folder: Path, env: Mapping[str, str], listed: _Listed) -> None:
        """Add what changed to the index, from a copy.

        Git itself would follow a link that an agent swaps in for a folder meanwhile.
        """
        copy = self._scratch / f"files-{self._indexes}"
        copy.mkdir()
        # Copied from the top folder down, so that every folder on the way is checked.
        top = self._checkout.folder
        way = folder.relative_to(top).as_posix()
        prefix = "" if way == "." else f"{way}/"
        names = {prefix + name: name for name in (*listed.changed, *listed.unknown)}
        large = self._leave_large(names)
        names = {way: name for way, name in names.items() if way not in large}
        left = await asyncio.to_thread(copy_out, top, names, copy)
        self.problems += "".join(
            f"error: {top / each}: {why}\n" for each, why in left.problems.items()
        )
        gone = {names[each] for each in left.gone}
        if lost := len(gone.intersection(listed.unknown)):
            # Not by name: the names may come from behind a link.
            self.problems += f"error: {lost} files in {folder} changed while they were saved\n"
        removed = listed.removed | gone.intersection(listed.changed)
        if removed:
            await self._git.run(
                "update-index", "--force-remove", "-z", "--stdin",
                cwd=folder, env=env, input=listing_of(removed),
            )  # fmt: skip
        tree = copy / prefix
        if not tree.is_dir():
            return
        added = await self._git.run(
            "add", "--ignore-removal", "--ignore-errors", "--force", "--", ".",
            cwd=tree, env={**env, "GIT_WORK_TREE": str(tree)}, check=False, timeout=SLOW,
        )  # fmt: skip
        if added.code > 1:
            raise GitError(f"git add failed for {folder}: {added.stderr.strip()}", code=added.code)
        self.problems += _complaints(added.stderr)

    def _leave_large(self, names: Iterable[str]) -> frozenset[str]:
        """Return the files beyond the limit of one save; small files are taken first."""
        sizes = {name: _size(self._checkout.folder / name) for name in names}
        large = []
        for name, size in sorted(sizes.items(), key=lambda each: each[1]):
            if size > self._room:
                large.append(name)
            else:
                self._room -= size
        told = [f"{shown(os.fsencode(name))} ({_in_words(sizes[name])})" for name in large]
        self.too_large += tuple(told)
        if self.for_good:
            limit = _in_words(self._limit)
            self.problems += "".join(
                f"error: {each}: beyond save_limit_mb ({limit})\n" for each in told
            )
        return frozenset(large)

    async def _open_links(self, folder: Path, env: Mapping[str, str], listed: _Listed) -> None:
        """Treat as untracked the repositories whose commits would be lost with this folder."""
        links = [Link(name, commit) for name, commit in listed.links.items()]
        loose = [link.name for link in await loose_links(self._git, self._checkout, links)]
        there = [name for name in loose if has_files(folder / name)]
        self.problems += "".join(
            UNPUSHED.format(folder=folder / name, commit=listed.links[name])
            for name in loose
            if name not in there
        )
        if not there:
            return
        out = ("update-index", "--force-remove", "-z", "--stdin")
        await self._git.run(*out, cwd=folder, env=env, input=listing_of(there))
        listed.nested += there
        for name in there:
            del listed.links[name]

    async def _link(self, folder: Path, env: Mapping[str, str], links: Iterable[str]) -> None:
        """Save the commits that submodules are at.

        `git add` would run another git in each of them, with the configuration it finds there.
        """
        if not links:
            return
        asked = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
        done = await self._git.run(
            *asked, cwd=folder, env=env, input=listing_of(links), check=False
        )
        if done.code:
            self.problems += f"{done.stderr.strip()}\n"

    async def _list(self, folder: Path, env: Mapping[str, str], out: tuple[str, ...]) -> _Listed:
        listing = await self._git.run(
            "ls-files", "-t", "--stage", "--modified", "--deleted", "--others",
            "--exclude-standard", "-z", "--", ".", *out,
            cwd=folder, env=env, timeout=SLOW,
        )  # fmt: skip
        self.problems += _complaints(listing.stderr)
        found = _Listed()
        for line in listing.stdout.split(b"\0"):
            tag, _, rest = line.partition(b" ")
            if tag == b"?":
                name = os.fsdecode(rest)
                if name.endswith("/"):
                    found.nested.append(name[:-1])
                else:
                    found.unknown.add(name)
                continue
            name = os.fsdecode(rest.partition(b"\t")[2])
            if rest.startswith(LINK_MODE + b" "):
                found.links[name] = rest.split(b" ", 2)[1].decode()
            elif tag == b"R":
                found.removed.add(name)
            elif tag == b"C":
                found.changed.add(name)
        found.changed -= found.removed
        return found


@dataclass(slots=True)
class _Listed:
    """What git lists in a folder, by how it differs from the index."""

    unknown: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    nested: list[str] = field(default_factory=list)
    """Untracked repositories inside."""
    links: dict[str, str] = field(default_factory=dict)
    """Submodules, each with its commit."""

    def take_in(self, folder: Path, extra: bytes) -> tuple[str, ...]:
        """Add ignored files, up to a limit per top-level folder; return the folders left out."""
        groups: dict[str, list[str]] = {}
        known = {*self.nested, *self.links, *self.unknown}
        for name in map(os.fsdecode, filter(None, extra.split(b"\0"))):
            if name.removesuffix("/") not in known:
                top, slash, _ = name.partition("/")
                groups.setdefault(top + slash, []).append(name)
        left_out = []
        for group, names in groups.items():
            if _is_too_much(folder, names):
                left_out.append(group)
                continue
            for name in names:
                path = folder / name
                if path.is_dir() and not path.is_symlink():  # a repository of its own
                    self.nested.append(name.removesuffix("/"))
                else:
                    self.unknown.add(name)
        return tuple(left_out)


def _is_too_much(folder: Path, names: list[str]) -> bool:
    if len(names) > MOST_IGNORED:
        return True
    size = 0
    for name in names:
        with suppress(OSError):
            size += (folder / name).lstat().st_size
    return size > MOST_IGNORED_BYTES


def _size(path: Path) -> int:
    """Return the apparent size: of a sparse file far more than it uses on disk."""
    try:
        found = path.lstat()
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _in_words(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.1f} MiB"


def _complaints(stderr: str) -> str:
    return "".join(
        f"{line}\n"
        for line in stderr.splitlines()
        if line.startswith("error:") or "could not open directory" in line
    )
