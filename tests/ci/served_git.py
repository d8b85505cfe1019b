"""A real repository with a bare origin, for forges that are served: commits, refs and merges."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from tests.begun import Kept
from tests.ci.ports import git

BASE = "main"
LOCK = ".lock"
"""How the name of a file ends which git is about to put in a ref's place."""


@functools.cache
def _begun() -> Kept:
    """Return both repositories with their first commit: making them takes many calls."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for place in ("repo", "origin.git"):
            (folder / place).mkdir()
        bare, repo = folder / "origin.git", folder / "repo"
        for where, args in (
            (bare, ("init", "-q", "--template=", "--bare", "-b", BASE)),
            (repo, ("init", "-q", "--template=", "-b", BASE)),
            (repo, ("remote", "add", "origin", "../origin.git")),
        ):
            _done(git(where, *args), args)
        (repo / ".git/objects/info").mkdir(exist_ok=True)
        # Whatever is in the origin is here too, so that a commit is written once.
        (repo / ".git/objects/info/alternates").write_text("../../../origin.git/objects\n")
        sha = _imported(bare, BASE, "begin", shared="base", at=1)
        _done(git(repo, "update-ref", f"refs/heads/{BASE}", sha), ())
        _done(git(repo, "checkout", "-q", "--detach", BASE), ())
        return Kept.of(folder)


class Origin:
    """What is in the bare repository is what the forge shows."""

    def __init__(self, folder: Path) -> None:
        self.repo = folder / "repo"
        self.bare = folder / "origin.git"
        _begun().write(folder)
        self._compared = functools.cache(self._compare)
        self._known: set[str] = set()
        self._commits = 1

    def commit(
        self, branch: str, message: str, shared: str | None = None, *, push: bool = True
    ) -> str:
        """Commit to a branch, made from the base if new; `shared` is a text for shared.txt."""
        where = self.bare if push else self.repo
        known = _head(where if push else where / ".git", branch) is not None
        self._commits += 1
        sha = _imported(
            where, branch, message, shared, begin=branch if known else BASE, at=self._commits
        )
        if push:
            self._repo("update-ref", f"refs/heads/{branch}", sha)
        return sha

    def head(self, branch: str) -> str | None:
        return _head(self.bare, branch)

    def heads(self) -> dict[str, str]:
        """Return all branches at once."""
        top = self.bare / "refs" / "heads"
        loose = (path.relative_to(top).as_posix() for path in top.rglob("*") if path.is_file())
        names = {*_packed_heads(self.bare), *(name for name in loose if not name.endswith(LOCK))}
        found = {name: _head(self.bare, name) for name in sorted(names)}
        return {name: sha for name, sha in found.items() if sha is not None}

    def delete(self, branch: str) -> None:
        self._bare("update-ref", "-d", f"refs/heads/{branch}")

    def known(self, sha: str) -> bool:
        if sha not in self._known:
            if git(self.bare, "cat-file", "-e", f"{sha}^{{commit}}")[0]:
                return False
            self._known.add(sha)  # nothing is pruned there
        return True

    def parents(self, sha: str) -> list[str]:
        return self._bare("rev-list", "--parents", "-n", "1", sha).split()[1:]

    def show(self, branch: str, path: str) -> str:
        return self._bare("show", f"{branch}:{path}")

    def merge_base(self, base: str, head: str) -> str:
        return self._compared(base, head)[0]

    def conflicts(self, base: str, head: str) -> tuple[str, ...]:
        """Return the paths on which two commits conflict."""
        return self._compared(base, head)[1]

    def log(self, head: str) -> list[str]:
        """Return all commits up to this one, the newest first."""
        return self._bare("rev-list", head).splitlines()

    def count(self, left: str, right: str) -> int:
        """Return how many commits the right one has that the left one lacks."""
        return int(self._bare("rev-list", "--count", f"{left}..{right}"))

    def behind(self, base: str, head: str) -> bool:
        """Tell whether the head does not contain the base."""
        return self.merge_base(base, head) != base

    def merge(self, base: str, head: str, message: str, *, method: str = "merge") -> str:
        """Merge a commit, which must not conflict, into a branch; return the branch's new head."""
        ours = self.head(base)
        assert ours is not None
        assert not self.conflicts(ours, head)
        if method in {"ff", "rebase"} and not self.behind(ours, head):
            made = head
        else:
            tree = self._bare("merge-tree", "--write-tree", ours, head).split("\n")[0]
            parents = ("-p", ours) if method == "squash" else ("-p", ours, "-p", head)
            made = self._bare("commit-tree", tree, *parents, "-m", message)
        self._bare("update-ref", f"refs/heads/{base}", made, ours)
        return made

    def test_merge(self, base: str, head: str) -> str:
        """Make the commit that a merge would make, without moving anything."""
        ours = self.head(base)
        assert ours is not None
        tree = self._bare("merge-tree", "--write-tree", ours, head).split("\n")[0]
        return self._bare("commit-tree", tree, "-p", ours, "-p", head, "-m", "a try")

    def message(self, sha: str) -> str:
        return self._bare("log", "-1", "--format=%B", sha)

    def _compare(self, base: str, head: str) -> tuple[str, tuple[str, ...]]:
        code, out = git(self.bare, "merge-tree", "--write-tree", "--name-only", base, head)
        paths = tuple(out.decode().split("\n\n")[0].split("\n")[1:]) if code else ()
        return self._bare("merge-base", base, head), paths

    def _repo(self, *args: str) -> str:
        return _done(git(self.repo, *args), args)

    def _bare(self, *args: str) -> str:
        return _done(git(self.bare, *args), args)


def _head(folder: Path, branch: str) -> str | None:
    """Read where a branch is; a served forge asks for it with each request, too often for git."""
    try:
        return (folder / "refs" / "heads" / branch).read_text().strip()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return _packed_heads(folder).get(branch)


def _packed_heads(folder: Path) -> dict[str, str]:
    try:
        lines = (folder / "packed-refs").read_text().splitlines()
    except FileNotFoundError:
        return {}
    pairs = (line.partition(" refs/heads/") for line in lines)
    return {branch: sha for sha, _, branch in pairs if branch}


def _done(result: tuple[int, bytes], args: tuple[str, ...]) -> str:
    code, out = result
    assert code == 0, (args, out)
    return out.decode().strip()


def _imported(  # noqa: PLR0913  # what makes a commit
    where: Path, branch: str, message: str, shared: str | None = None, *, begin: str = "", at: int
) -> str:
    """Write a commit in one call; the instant makes it another one each time."""
    lines = [
        f"commit refs/heads/{branch}",
        "mark :1",
        f"committer t <t@example.org> {1_600_000_000 + at} +0000",
        f"data {len(message.encode())}",
        message,
    ]
    lines += [f"from refs/heads/{begin}^0"] if begin else []
    if shared is not None:
        lines += ["M 100644 inline shared.txt", f"data {len(shared.encode())}", shared]
    order = "\n".join([*lines, "get-mark :1", ""]).encode()
    return _done(git(where, "fast-import", "--quiet", stdin=order), (branch,))
