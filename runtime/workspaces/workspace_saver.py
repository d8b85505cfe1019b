"""Saves all that would be lost with the folder of a workspace, or refuses to lose it.

Owns which ignore rules count: those of the base commit and of the user, never any that an agent
wrote, committed or not. It must not remove anything.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.errors import GitError, WorkspaceError
from runtime.git import ownership
from runtime.git.ownership import SAVED_REFS
from runtime.git.safe_view import pinned, read_small
from runtime.setup.made_by_setup import made_in
from runtime.workspaces.raw_copy import RawSaver
from runtime.workspaces.saved_work import SavedCommit, Saver, keep_work, save_work, saved_message
from runtime.workspaces.status import Checkout, head_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from runtime.git.git import Git
    from runtime.workspaces.worktrees import FoundWorktree, Worktrees

RULES_REMEMBERED = 64


class WorkspaceSaver:
    """Saves the work of one repository's workspaces."""

    def __init__(
        self, git: Git, trees: Worktrees, state: Path, save_limit: Callable[[], int]
    ) -> None:
        self._git = git
        self._trees = trees
        self._state = state
        self._save_limit = save_limit
        self._ignored: dict[tuple[str, str], bytes] = {}

    async def with_rules(self, agent_id: str, base: str, checkout: Checkout) -> Checkout:
        """Add to a checkout the ignore rules from before the agent."""
        record = ownership.read_record(checkout.folder.parent, agent_id)
        exclude = record.exclude if record is not None else None
        if exclude is None:  # made by an earlier version
            exclude = ownership.excluded(await self._trees.common_dir())
        key = base, exclude
        if key not in self._ignored:
            view = await self._git.view(pinned(checkout.git_dir, checkout.folder))
            others = (user_rules(view.ignores, os.environ), os.fsencode(exclude))
            rules = await rules_of(
                self._git, base, cwd=checkout.folder, env=checkout.env, others=others
            )
            while len(self._ignored) >= RULES_REMEMBERED:
                self._ignored.pop(next(iter(self._ignored)))
            self._ignored[key] = rules
        made = made_in(self._state / "setup" / agent_id)
        return replace(checkout, ignored=self._ignored[key], made=made)

    async def keep(
        self, agent_id: str, checkout: Checkout, name: str, reason: str, *, for_good: bool = False
    ) -> SavedCommit | None:
        """Save uncommitted work; with `for_good` byte for byte if git cannot add the files."""
        limit = self._save_limit()
        try:
            return await keep_work(
                self._git, checkout, agent_id, name, reason, for_good=for_good, limit=limit
            )
        except GitError as error:
            if error.code is None or not for_good:
                raise
            head = await head_of(self._git, checkout)
            saver = RawSaver(self._git, checkout, for_good=for_good, limit=limit)
            return await self._by(saver, agent_id, head, name, reason)

    async def all_of(self, found: FoundWorktree, name: str, reason: str) -> SavedCommit | None:
        """Save all that would be lost with the folder; WorkspaceError if not all can be saved."""
        if found.half_made or not found.path.is_dir():
            return None
        if found.checkout is None:
            checkout = Checkout(await self._trees.common_dir(), found.path)
            saver = Saver(self._git, checkout, for_good=True, limit=self._save_limit())
            head = found.head or found.base_commit or ""
            saved = await self._by(saver, found.agent_id, head, name, reason)
        else:
            ownership.straighten(found.checkout.git_dir)
            base = found.base_commit or ""
            checkout = await self.with_rules(found.agent_id, base, found.checkout)
            saved = await self.keep(found.agent_id, checkout, name, reason, for_good=True)
        if saved and saved.problems:
            raise WorkspaceError(
                f"{found.path} was not removed, because not all of it could be saved: "
                f"{saved.problems}Make these files readable, move them away or remove them, and "
                f"try again (the rest is in {saved.ref})"
            )
        return saved

    async def as_they_are(
        self, found: FoundWorktree, head: str, name: str, reason: str
    ) -> SavedCommit | None:
        """Save how the files differ from a commit, even if git cannot read the checkout."""
        base = found.base_commit or head
        checkout = Checkout(await self._trees.common_dir(), found.path)
        checkout = await self.with_rules(found.agent_id, base, checkout)
        saver = RawSaver(self._git, checkout, for_good=True, limit=self._save_limit())
        return await self._by(saver, found.agent_id, head, name, reason)

    @staticmethod
    async def _by(
        saver: Saver, agent_id: str, head: str, name: str, reason: str
    ) -> SavedCommit | None:
        ref = f"{SAVED_REFS}{agent_id}/{name}"
        message = saved_message(agent_id, name, reason)
        return await save_work(saver, head=head, ref=ref, message=message)


_NAME = b".gitignore"


async def rules_of(
    git: Git, commit: str, *, cwd: Path, env: Mapping[str, str], others: Iterable[bytes]
) -> bytes:
    """Return the ignore rules of a commit as one file for its top folder, after those of others."""
    listed = await git.run("ls-tree", "-r", "-z", commit, cwd=cwd, env=env, check=False)
    blobs = {}
    for entry in listed.stdout.split(b"\0"):
        told, _, path = entry.partition(b"\t")
        if path == _NAME or path.endswith(b"/" + _NAME):
            blobs[path] = told.split(b" ")[2]
    lines = [line for text in others for line in text.splitlines()]
    # The deeper file wins over the one above, so it comes later.
    for path in sorted(blobs, key=lambda each: (each.count(b"/"), each)):
        shown = await git.run("cat-file", "blob", blobs[path].decode(), cwd=cwd, env=env)
        folder = path.removesuffix(_NAME)
        lines += [_from_top(folder, line) for line in shown.stdout.splitlines()]
    return b"\n".join([*lines, b""])


def _from_top(folder: bytes, line: bytes) -> bytes:
    """Rewrite a rule of a folder for the top folder."""
    if not folder or not line.strip() or line.startswith(b"#"):
        return line
    negated = b"!" if line.startswith(b"!") else b""
    rule = line.removeprefix(b"!")
    anchored = b"/" in rule.rstrip().rstrip(b"/")
    within = rule.removeprefix(b"/") if anchored else b"**/" + rule
    return negated + b"/" + folder + within


def user_rules(named: str | None, environ: Mapping[str, str]) -> bytes:
    """Return the rules of the user for all repositories: in the named file, else the usual one."""
    home = environ.get("HOME", "")
    if named is None:
        folder = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")  # noqa: PTH118  # may be empty
        named = f"{folder}/git/ignore"
    if named.startswith("~/"):
        named = f"{home}/{named[2:]}"
    return read_small(named) or b""
