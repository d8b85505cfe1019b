"""The one door for git: every git process of the runner starts here, with one fixed environment.

Owns that environment and reading the facts of a repository. It must not decide anything about
workspaces or branches, and no git started here may run a program that a repository or a checkout
configures: it sees the repository through `runtime.git.safe_view`.
"""

from __future__ import annotations

import asyncio
import os
from configparser import Error as ConfigError
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.errors import GitError, RepositoryError
from runtime.git.command import GitCall, GitResult
from runtime.git.preflight import HOLDS_UP, holding_up, require_own_objects, require_passable
from runtime.git.safe_view import (
    LISTING,
    MISLED,
    UNREADABLE,
    RepositoryLocation,
    SafeView,
    locate,
    misleads,
    pinned,
)
from runtime.temp_folders import scratch_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping

DEFAULT_TIMEOUT = 120.0
SLOW = 600.0
"""Seconds for a command that touches every file of a repository."""
LISTING_TIMEOUT = 10.0
LONG = 2.0
"""Seconds after which the cause of a slow command is searched for."""
OLDEST_FOR_MERGE = (2, 38)

# Who or where the user is may be inherited; which repository, index or helper to use may not.
_INHERITED = (
    "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_CONFIG_HOME", "GIT_EXEC_PATH",
    "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
)  # fmt: skip
_SETTINGS = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
_NO_SETTINGS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
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
    # Nothing here needs another repository, and reaching one would start programs.
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_LAZY_FETCH": "1",
    # No replacement objects: the content of a commit is what its id says.
    "GIT_NO_REPLACE_OBJECTS": "1",
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
    "protocol.allow=never",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
)
# To see whether a submodule is dirty git runs another git in it, with that one's configuration.
_SHALLOW = "--ignore-submodules=dirty"
_DIFFING = frozenset({"diff", "diff-files", "diff-index", "diff-tree", "log", "show"})

NO_COMMIT = (
    "{path} has no commit yet, so there is nothing to start from: make one, for example with "
    "`git -C {path} commit --allow-empty -m 'First commit'`"
)
NO_TEXT = (
    "the path {path} is not valid UTF-8, or Python was told not to read it as UTF-8 "
    "(PYTHONUTF8=0); records, JSON and prompts cannot hold it: rename it, or unset PYTHONUTF8"
)
IS_BARE = "{path} is a bare repository: give a checkout of it, for example from `git clone {path}`"
IS_CALLED_BARE = (
    "{config} calls {path} a bare repository: give a checkout of it, or, if the checkout is there, "
    "fix that with `git config --file {config} core.bare false`"
)
NOT_A_REPOSITORY = (
    "{path} is not inside a git repository: run `git init` there and make a first commit, "
    "or give the folder of one"
)


class Git:
    """Runs git commands."""

    def __init__(
        self, environ: Mapping[str, str] | None = None, *, home: Path | None = None
    ) -> None:
        """Safe views are kept in the home folder if its parent exists, else in a temporary one."""
        inherited = os.environ if environ is None else environ
        self._env = {key: inherited[key] for key in _INHERITED if key in inherited} | _FIXED
        if "PATH" in self._env:
            # A relative entry would be resolved in the folder of an agent.
            entries = self._env["PATH"].split(os.pathsep)
            self._env["PATH"] = os.pathsep.join(filter(os.path.isabs, entries))
        self._settings = {key: inherited[key] for key in _SETTINGS if key in inherited}
        self._home = home
        self._apart: Path | None = None
        self._views: dict[Path, SafeView] = {}
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
        """Run one git command to its end; a failure is a GitError unless check is off.

        Git uses the repository around cwd, or the one that env pins with GIT_DIR.
        """
        place = _place(cwd, env)
        view = None if place is None else await self.view(place)
        call = GitCall(
            args, _command(args), cwd, self._whole(args[0], env, place, view), timeout, input
        )
        result = await unless(call.run(), partial(_held_up, place))
        if check and result.code != 0:
            raise call.failed(result)
        return result

    def run_blocking(
        self,
        *args: str,
        cwd: Path,
        input: bytes | None = None,  # noqa: A002  # as above
        check: bool = True,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> GitResult:
        """Run one git command outside of any event loop, for commands that read once and end."""
        place = locate(cwd)
        view = None if place is None else self.view_blocking(place)
        call = GitCall(
            args, _command(args), cwd, self._whole(args[0], None, place, view), timeout, input
        )
        result = call.run_blocking()
        if check and result.code != 0:
            raise call.failed(result)
        return result

    async def view(self, place: RepositoryLocation) -> SafeView:
        """Return the safe view of a repository, with its current configuration."""
        view = self._view(place)
        if (news := view.news()) is not None:
            listed = await self._listing(view).run()
            view.take(news, listed.stdout, _complaint(listed))
        return view

    def view_blocking(self, place: RepositoryLocation) -> SafeView:
        """Return the same, outside of any event loop."""
        view = self._view(place)
        if (news := view.news()) is not None:
            listed = self._listing(view).run_blocking()
            view.take(news, listed.stdout, _complaint(listed))
        return view

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

    def _whole(
        self,
        name: str,
        env: Mapping[str, str] | None,
        place: RepositoryLocation | None,
        view: SafeView | None,
    ) -> dict[str, str]:
        whole = self._env | dict(env or {})
        if place is None or view is None:
            return whole | self._settings
        if file := misleads(place):
            raise RepositoryError(MISLED.format(file=file, common=place.common_dir))
        require_passable(place)
        require_own_objects(place, name)
        view.keep()
        return whole | _NO_SETTINGS | view.env(place)

    def _view(self, place: RepositoryLocation) -> SafeView:
        source = SafeView.source_of(place)
        if source not in self._views:
            self._views[source] = SafeView(source, place.common_dir, self._folder())
        return self._views[source]

    def _listing(self, view: SafeView) -> GitCall:
        env = self._env | self._settings | {"GIT_DIR": str(view.source)}
        return GitCall(LISTING, ("git", "--no-pager", *LISTING), view.source, env, LISTING_TIMEOUT)

    def _folder(self) -> Path:
        if self._home is not None and self._home.parent.is_dir():
            return self._home
        if self._apart is None:
            self._apart = scratch_of(self, "git")
        return self._apart


def _place(cwd: Path, env: Mapping[str, str] | None) -> RepositoryLocation | None:
    if env is None or "GIT_DIR" not in env:
        return locate(cwd)
    tree = env.get("GIT_WORK_TREE")
    return pinned(Path(env["GIT_DIR"]), None if tree is None else Path(tree))


async def unless(
    call: Coroutine[Any, Any, GitResult], look: Callable[[], Awaitable[GitError | None]]
) -> GitResult:
    """Await a git command; if it is slow and `look` returns an error, stop it with that error."""
    running = asyncio.ensure_future(call)
    try:
        done, _ = await asyncio.wait({running}, timeout=LONG)
        if not done and (reason := await look()) is not None and not running.done():
            raise reason
        return await running
    finally:
        if not running.done():
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def _held_up(place: RepositoryLocation | None) -> GitError | None:
    """Return an error if git may be blocked on a pipe."""
    found = [] if place is None else await asyncio.to_thread(holding_up, place)
    return GitError(HOLDS_UP.format(file=found[0])) if found else None


def _command(args: tuple[str, ...]) -> tuple[str, ...]:
    if any("\0" in arg for arg in args):
        raise GitError(f"git {args[0]}: a name with a NUL character cannot exist")
    options = [word for option in _OPTIONS for word in ("-c", option)]
    name, *rest = args
    if name in _DIFFING:
        rest = ["--no-ext-diff", "--no-textconv", _SHALLOW, *rest]
    elif name == "status":
        rest = [_SHALLOW, *rest]
    return ("git", *options, name, *rest)


def pinned_env(git_dir: Path, folder: Path) -> dict[str, str]:
    """Return the variables that pin git to a checkout whatever a `.git` in the folder says."""
    return {"GIT_DIR": str(git_dir), "GIT_WORK_TREE": str(folder)}


def set_over(settings: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the variables that override the configuration of git."""
    env: dict[str, str] = {}
    number = 0
    for key, value in settings:
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        number += 1
    return env | {"GIT_CONFIG_COUNT": str(number)}


def _complaint(listed: GitResult) -> str:
    # If git does not understand a repository, it lists nothing and only warns.
    bad = listed.code != 0 or ("warning: " in listed.stderr and b"local\0" not in listed.stdout)
    return (listed.stderr.strip() or f"exit code {listed.code}") if bad else ""


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

    def require_usable(self) -> None:
        """Raise RepositoryError when no workspace can start from here."""
        if not _is_text(self.root):
            raise RepositoryError(NO_TEXT.format(path=ascii(str(self.root))))
        if self.is_bare and self.root == self.git_dir:
            raise RepositoryError(IS_BARE.format(path=self.root))
        if self.is_bare:
            config = self.common_dir / "config"
            raise RepositoryError(IS_CALLED_BARE.format(config=config, path=self.root))
        if self.head_commit is None:
            raise RepositoryError(NO_COMMIT.format(path=self.root))


def _is_text(path: Path) -> bool:
    """Whether a path can stand in records, JSON and prompts, all of which are UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def inspect_repository(path: Path) -> RepositoryFacts:
    """Read the facts of the repository around path; RepositoryError when there is none."""
    try:
        from git import InvalidGitRepositoryError, NoSuchPathError, Repo  # noqa: PLC0415  # costs 50 ms
    except ImportError as error:  # GitPython looks for the git program while it is imported
        raise GitError("git cannot be started: install git and put it on PATH") from error
    place = locate(path)
    if place is not None:
        require_passable(place)
        config = place.common_dir / "config"
        if config.exists() and not config.is_file():
            raise GitError(UNREADABLE.format(path=config, why="it is not a regular file"))
    try:
        repo = Repo(path, search_parent_directories=True, expand_vars=False)
    except (InvalidGitRepositoryError, NoSuchPathError) as error:
        raise RepositoryError(NOT_A_REPOSITORY.format(path=path)) from error
    except ConfigError as error:
        raise GitError(UNREADABLE.format(path=path, why=error)) from error
    if place is None:
        raise RepositoryError(NOT_A_REPOSITORY.format(path=path))
    with repo:
        head: str | None
        try:
            head = repo.head.dereference_recursive(repo, "HEAD")
        except ValueError:
            head = None
        detached = repo.head.is_detached
        branch = None if detached else repo.head.reference.path.removeprefix("refs/heads/")
        bare = repo.bare
    return RepositoryFacts(
        root=place.root or place.git_dir,
        git_dir=place.git_dir,
        common_dir=place.common_dir.resolve(),
        head_commit=head,
        branch=branch,
        is_bare=bare,
        is_detached=detached,
    )
