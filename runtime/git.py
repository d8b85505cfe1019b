"""The one door for git: every git process of the runner starts here, with one fixed environment.

Owns how git is started, limited and stopped, and the reading of a repository's standing facts.
It must not decide anything about workspaces or branches, and no git that starts here may run a
hook, a pager, an editor, an external diff or a prompt.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from runtime.errors import GitError, RepositoryError
from runtime.shortrun import run_to_end
from runtime.tree import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

CONCURRENT = 4
"""More git processes at once than this only slow each other down."""
DEFAULT_TIMEOUT = 120.0
OLDEST_FOR_MERGE = (2, 38)
STDERR_TAIL = 2000

# Who or where the user is may be inherited; which repository, index or helper to use may not.
_INHERITED = (
    "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_CONFIG_HOME", "SSH_AUTH_SOCK",
    "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH",
    "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
)  # fmt: skip
_FIXED = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "GIT_PAGER": "cat",
    "GIT_MERGE_AUTOEDIT": "no",
}
_OPTIONS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.safecrlf=false",
    "color.ui=false",
    "commit.gpgSign=false",
    "log.showSignature=false",
    "i18n.logOutputEncoding=UTF-8",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
)
_DIFFING = frozenset({"diff", "diff-files", "diff-index", "diff-tree", "log", "show"})

NO_COMMIT = (
    "{path} has no commit yet, so there is nothing to start from: make one, for example with "
    "`git -C {path} commit --allow-empty -m 'First commit'`"
)
IS_BARE = "{path} is a bare repository: give a checkout of it, for example from `git clone {path}`"
NOT_A_REPOSITORY = (
    "{path} is not inside a git repository: run `git init` there and make a first commit, "
    "or give the folder of one"
)

_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class GitResult:
    """What one git process left behind."""

    code: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        """The output as text, without the final line break."""
        return shown(self.stdout).rstrip("\n")


class Git:
    """Runs git commands."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        inherited = os.environ if environ is None else environ
        self._env = {key: inherited[key] for key in _INHERITED if key in inherited} | _FIXED
        self._version: tuple[int, ...] | None = None

    async def run(
        self,
        *args: str,
        cwd: Path,
        input: bytes | None = None,  # noqa: A002  # named as in subprocess.run
        env: Mapping[str, str] | None = None,
        check: bool = True,
        timeout: float = DEFAULT_TIMEOUT,  # noqa: ASYNC109  # git must be stopped, not just left
    ) -> GitResult:
        """Run one git command to its end; a failure is a GitError unless check is off."""
        slots = _slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(CONCURRENT))
        command, whole_env = _command(args), self._env | dict(env or {})
        async with slots:
            try:
                ended = await run_to_end(
                    command, cwd=cwd, env=whole_env, data=input, seconds=timeout
                )
            except OSError as error:
                raise _unstartable(cwd, error) from error
        result = GitResult(ended.code, ended.stdout, ended.stderr.decode(errors="replace"))
        if ended.timed_out:
            raise _too_slow(args, cwd, timeout, result.stderr)
        if check and result.code != 0:
            raise _failure(args, cwd, result)
        return result

    def run_blocking(
        self, *args: str, cwd: Path, check: bool = True, timeout: float = DEFAULT_TIMEOUT
    ) -> GitResult:
        """Run one git command outside of any event loop, for commands that read once and end."""
        try:
            done = subprocess.run(
                _command(args),
                cwd=cwd,
                env=self._env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout,
                check=False,
            )
        except OSError as error:
            raise _unstartable(cwd, error) from error
        except subprocess.TimeoutExpired as error:
            raise _too_slow(args, cwd, timeout, "") from error
        result = GitResult(done.returncode, done.stdout, done.stderr.decode(errors="replace"))
        if check and result.code != 0:
            raise _failure(args, cwd, result)
        return result

    async def require(self, oldest: tuple[int, ...], purpose: str, *, cwd: Path) -> None:
        """Raise GitError when the installed git is older than the purpose needs."""
        if self._version is None:
            words = (await self.run("version", cwd=cwd)).text.split()
            numbers = (words[2] if len(words) > 2 else "0").split(".")  # noqa: PLR2004  # "git version N"
            self._version = tuple(int(part) for part in numbers if part.isdigit())
        if self._version < oldest:
            raise GitError(
                f"{purpose} needs git {'.'.join(map(str, oldest))} or newer, this is "
                f"{'.'.join(map(str, self._version))}: install a newer git"
            )


def _command(args: tuple[str, ...]) -> list[str]:
    if any("\0" in arg for arg in args):
        raise GitError(f"git {args[0]}: a name with a NUL character cannot exist")
    command = ["git"]
    for option in _OPTIONS:
        command += ("-c", option)
    if args[0] in _DIFFING:
        return [*command, args[0], "--no-ext-diff", "--no-textconv", *args[1:]]
    return [*command, *args]


def _by_hand(args: tuple[str, ...], cwd: Path) -> str:
    return shlex.join(("git", "-C", str(cwd), *args))


def _failure(args: tuple[str, ...], cwd: Path, result: GitResult) -> GitError:
    tail = result.stderr.strip()[-STDERR_TAIL:] or "it gave no reason"
    return GitError(
        f"git {args[0]} failed in {cwd} with exit code {result.code}: {tail}\n"
        f"by hand: {_by_hand(args, cwd)}",
        code=result.code,
        stderr=result.stderr,
    )


def _too_slow(args: tuple[str, ...], cwd: Path, seconds: float, stderr: str) -> GitError:
    return GitError(
        f"git {args[0]} in {cwd} did not end within {seconds:g} s and was stopped. "
        f"{stderr.strip()[-STDERR_TAIL:]}\nby hand: {_by_hand(args, cwd)}",
        stderr=stderr,
    )


def _unstartable(cwd: Path, error: OSError) -> GitError:
    if not cwd.is_dir():
        return GitError(f"there is no folder {cwd} to run git in")
    return GitError(f"git cannot be started ({error.strerror}): install git and put it on PATH")


@dataclass(frozen=True, slots=True)
class RepositoryFacts:
    """What a repository is, read once and without changing anything."""

    root: Path
    """The checkout's top folder; of a bare repository, the repository itself."""
    git_dir: Path
    common_dir: Path
    head_commit: str | None
    branch: str | None
    is_bare: bool
    is_detached: bool
    dirty_files: tuple[str, ...]

    def require_usable(self) -> None:
        """Raise RepositoryError when no workspace can start from here."""
        if self.is_bare:
            raise RepositoryError(IS_BARE.format(path=self.root))
        if self.head_commit is None:
            raise RepositoryError(NO_COMMIT.format(path=self.root))


def inspect_repository(path: Path, *, git: Git | None = None) -> RepositoryFacts:
    """Read the facts of the repository around path; RepositoryError when there is none."""
    try:
        from git import InvalidGitRepositoryError, NoSuchPathError, Repo  # noqa: PLC0415  # costs 50 ms
    except ImportError as error:  # GitPython looks for the git program while it is imported
        raise GitError("git cannot be started: install git and put it on PATH") from error
    try:
        repo = Repo(path, search_parent_directories=True, expand_vars=False)
    except (InvalidGitRepositoryError, NoSuchPathError) as error:
        raise RepositoryError(NOT_A_REPOSITORY.format(path=path)) from error
    with repo:
        root = Path(repo.working_tree_dir or repo.git_dir)
        head: str | None
        try:
            head = repo.head.dereference_recursive(repo, "HEAD")
        except ValueError:
            head = None
        detached = repo.head.is_detached
        branch = None if detached else repo.head.reference.path.removeprefix("refs/heads/")
        git_dir, common_dir, bare = Path(repo.git_dir), Path(repo.common_dir), repo.bare
    return RepositoryFacts(
        root=root,
        git_dir=git_dir,
        common_dir=common_dir.resolve(),
        head_commit=head,
        branch=branch,
        is_bare=bare,
        is_detached=detached,
        dirty_files=() if bare else _dirty_files(git or Git(), root),
    )


def _dirty_files(git: Git, root: Path) -> tuple[str, ...]:
    listing = git.run_blocking("status", "--porcelain", "-z", "--no-renames", cwd=root).stdout
    return tuple(shown(entry[3:]) for entry in listing.split(b"\0") if entry)
