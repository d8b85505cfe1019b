"""The provider's ports for tests: git and sh as subprocesses, documents that pass through JSON."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import tarfile
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

IDENTITY = {
    "GIT_AUTHOR_NAME": "t",
    "GIT_AUTHOR_EMAIL": "t@example.org",
    "GIT_COMMITTER_NAME": "t",
    "GIT_COMMITTER_EMAIL": "t@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "PATH": os.environ["PATH"],
}


class CrashError(Exception):
    """The runner is gone: nothing is kept from now on."""


def git(repo: Path, *args: str, stdin: bytes | None = None) -> tuple[int, bytes]:
    done = subprocess.run(
        ["git", *args], cwd=repo, env=IDENTITY, input=stdin, capture_output=True, check=False
    )
    return done.returncode, done.stdout


@dataclass(frozen=True)
class Merged:
    merged: bool
    commit: str | None = None
    conflicts: tuple[str, ...] = ()
    reason: str = ""
    passing: bool = False


class GitRepository:
    """A repository whose branches are never checked out, so that moving them is enough."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.merges = 0

    async def head(self, branch: str) -> str | None:
        code, out = await self._git("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}")
        return None if code else out.decode().strip()

    async def set_up(self, commit: str, name: str) -> None:
        del commit, name

    async def lay_out(self, commit: str, name: str) -> Path:
        dest = self.root.parent / "checkouts" / name
        await asyncio.to_thread(shutil.rmtree, dest, ignore_errors=True)
        code, archive = await self._git("archive", "--format=tar", commit)
        if code:
            raise LookupError(f"no commit {commit}")
        await asyncio.to_thread(_unpack, archive, dest)
        return dest

    async def merge(
        self, branch: str, into: str, *, message: str, expected_head: str | None = None
    ) -> Merged:
        ours, theirs = await self.head(into), await self.head(branch)
        assert ours is not None
        assert theirs is not None
        if expected_head not in {None, theirs}:
            return Merged(merged=False, reason=f"{branch} moved to {theirs}")
        target, commit = await self.prepare(branch, into, message=message)
        if not commit:
            paths = await self.conflicts(branch, into)
            return Merged(merged=False, conflicts=paths, reason="conflict")
        return await self.advance(branch, into, target=target, commit=commit)

    async def prepare(
        self, branch: str, into: str, *, message: str, expected_head: str | None = None
    ) -> tuple[str, str]:
        ours, theirs = await self.head(into) or "", await self.head(branch) or ""
        assert expected_head in {None, theirs}
        if (await self._git("merge-base", "--is-ancestor", theirs, ours))[0] == 0:
            return ours, ours
        code, out = await self._git("merge-tree", "--write-tree", ours, theirs)
        if code:
            return ours, ""
        tree = out.decode().split("\n")[0]
        parents = ("-p", ours, "-p", theirs)
        _, out = await self._git("commit-tree", tree, *parents, stdin=message.encode())
        return ours, out.decode().strip()

    async def advance(self, branch: str, into: str, *, target: str, commit: str) -> Merged:
        del branch
        if commit != target:
            await self._git("update-ref", f"refs/heads/{into}", commit, target)
            self.merges += 1
        return Merged(merged=True, commit=commit)

    async def same_files(self, one: str, other: str) -> bool:
        trees = [await self._git("rev-parse", f"{each}^{{tree}}") for each in (one, other)]
        return trees[0] == trees[1]

    async def joined(self, commit: str, other: str, *, message: str) -> str | None:
        raise NotImplementedError(f"{commit} and {other}: {message}")

    async def is_merged(self, commit: str, into: str) -> bool:
        return (await self._git("merge-base", "--is-ancestor", commit, into))[0] == 0

    async def conflicts(self, branch: str, into: str) -> tuple[str, ...]:
        refs = (f"refs/heads/{into}", f"refs/heads/{branch}")
        code, out = await self._git("merge-tree", "--write-tree", "--name-only", *refs)
        return _paths(out) if code else ()

    async def _git(self, *args: str, stdin: bytes | None = None) -> tuple[int, bytes]:
        return await asyncio.to_thread(git, self.root, *args, stdin=stdin)


def _unpack(archive: bytes, dest: Path) -> None:
    dest.mkdir(parents=True)
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        tar.extractall(dest, filter="data")


def _paths(out: bytes) -> tuple[str, ...]:
    return tuple(out.decode().split("\n\n")[0].split("\n")[1:])


@dataclass(frozen=True)
class Ended:
    code: int | None
    timed_out: bool
    excerpt: str
    seconds: float


class ShellCommands:
    """Runs commands in a process group of their own, and knows which are alive."""

    def __init__(self) -> None:
        self.alive: dict[str, int] = {}
        self.marks: list[str] = []

    async def run(
        self,
        command: str,
        *,
        cwd: Path,
        log: Path,
        timeout: float,  # noqa: ASYNC109  # the form of the port
        mark: str,
    ) -> Ended:
        loop = asyncio.get_running_loop()
        began = loop.time()
        with log.open("wb") as output:
            # At once: a start that is cancelled halfway would leave a process that nobody knows.
            process = subprocess.Popen(  # noqa: ASYNC220  # as above
                ("sh", "-c", command),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.alive[mark] = process.pid
        self.marks.append(mark)
        waiting = asyncio.ensure_future(asyncio.to_thread(process.wait))
        try:
            ended, _ = await asyncio.wait((waiting,), timeout=timeout)
            timed_out = not ended
        finally:
            if not waiting.done():
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            await asyncio.wait((waiting,))
            del self.alive[mark]
        text = await asyncio.to_thread(log.read_text, errors="replace")
        return Ended(process.returncode, timed_out, text, loop.time() - began)


class JsonDocuments:
    """Documents as text; can lose power after a number of writes, or around one of them."""

    def __init__(self, kept: dict[str, dict[str, str]] | None = None) -> None:
        self.kept: dict[str, dict[str, str]] = kept if kept is not None else {}
        self.puts = 0
        self.lives_for: int | None = None
        self.loses: Callable[[str], bool] = lambda _: False
        """Whether the power goes before this collection is written."""
        self.ends_with: Callable[[str], bool] = lambda _: False
        """Whether it goes just after that."""

    @property
    def crashed(self) -> bool:
        return self.lives_for is not None and self.puts > self.lives_for

    def copy(self) -> JsonDocuments:
        return JsonDocuments({name: dict(bodies) for name, bodies in self.kept.items()})

    async def put(self, collection: str, key: str, body: dict[str, Any]) -> None:
        self.puts += 1
        if self.crashed or self.loses(collection):
            raise CrashError
        self.kept.setdefault(collection, {})[key] = json.dumps(body, allow_nan=False)
        if self.ends_with(collection):
            raise CrashError

    async def all(self, collection: str) -> dict[str, dict[str, Any]]:
        return {key: json.loads(text) for key, text in self.kept.get(collection, {}).items()}

    async def delete(self, collection: str, key: str) -> None:
        self.kept.get(collection, {}).pop(key, None)
