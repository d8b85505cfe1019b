"""The remote repository: push, fetch, and fast-forward of the local branch.

Owns every git command that connects to another repository. It must connect only to the given
address, whatever the repository's configuration says, and not run anything that a repository names.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from runtime.errors import BranchError, GitError, RepositoryError, RuntimeFault
from runtime.git.git import NOT_A_REPOSITORY, Git, set_over
from runtime.git.ownership import OWN_REFS, REMOTE_REFS, STATE_FOLDER
from runtime.git.porcelain import SHA
from runtime.git.safe_view import locate, read_small
from runtime.remote.address import NO_ADDRESS, Address, understood
from runtime.remote.errors import Status, cleaned, explained, pushed, secrets_of
from runtime.remote.local_branches import LocalBranches

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runtime.git.command import GitResult
    from runtime.git.safe_view import RepositoryLocation
    from runtime.own_edits import OwnEdits
    from runtime.remote.address import Address


_SSH = (
    "ssh -o BatchMode=yes -o StrictHostKeyChecking=yes -o ControlMaster=no -o PermitLocalCommand=no"
)
_PROXIES = frozenset({"https_proxy", "all_proxy", "no_proxy"})
_TRUST = {
    "SSL_CERT_FILE": "GIT_SSL_CAINFO",
    "SSL_CERT_DIR": "GIT_SSL_CAPATH",
    "GIT_SSL_CAINFO": "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH": "GIT_SSL_CAPATH",
}
_SETTINGS = (
    # A header would be sent to the target of a redirect, too.
    ("http.followRedirects", "false"),
    # For alternates git would run another git, with the configuration of their repository.
    ("core.alternateRefsCommand", "true"),
)
ITSELF = (
    "the remote {url} is this repository itself, and its hooks would run: `git remote set-url` "
    "to another one, and start the runner again"
)


@dataclass(frozen=True, slots=True)
class Trip:
    """One connection to another repository."""

    url: str
    place: RepositoryLocation
    env: Mapping[str, str]
    secrets: tuple[str, ...]
    """What must not appear in any text."""

    def tell(self, what: str, result: GitResult, status: Status | None = None) -> str:
        """Say what the remote refused, and why."""
        summary = "" if status is None else status.summary
        return f"{self.url} {what}: {explained(result.stderr, self.secrets, summary)}"


def plan_trip(
    address: Address,
    place: RepositoryLocation,
    header: Mapping[str, str],
    environ: Mapping[str, str],
) -> Trip:
    """Return the connection; RepositoryError if it must not be used."""
    if address.path is not None and _is_itself(address.path, place):
        raise RepositoryError(ITSELF.format(url=address.url))
    lines = address.header_lines(header)
    # In the environment: other users can see arguments, and a file would remain.
    settings = [*_SETTINGS, *((f"http.{address.origin}.extraHeader", line) for line in lines)]
    env = {
        # Without a checkout, so that none of its files has an effect.
        "GIT_DIR": str(place.common_dir),
        "GIT_ALLOW_PROTOCOL": address.scheme,
        **set_over(settings),
    }
    return Trip(address.url, place, env | _means(address, environ), secrets_of(lines))


def _means(address: Address, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the user that are needed to connect."""
    if address.scheme == "ssh":
        means = {"GIT_SSH_COMMAND": _SSH, "GIT_SSH_VARIANT": "ssh", "SSH_ASKPASS_REQUIRE": "never"}
        return means | {key: environ[key] for key in ("SSH_AUTH_SOCK",) if key in environ}
    if not address.origin:
        return {}
    trust = {own: environ[name] for name, own in _TRUST.items() if environ.get(name)}
    # Plain http, with its credentials, stays on this machine.
    far = address.scheme == "https"
    proxies = {key: value for key, value in environ.items() if far and key.lower() in _PROXIES}
    # A .netrc would add other credentials.
    return {"HOME": os.devnull} | trust | proxies


def _is_itself(path: Path, place: RepositoryLocation) -> bool:
    ours = os.path.realpath(place.common_dir)
    for there in (path, path.with_name(f"{path.name}.git")):
        found = locate(there) if there.exists() else None
        if found is not None and os.path.realpath(found.common_dir) == ours:
            return True
    return False


TIMEOUT = 120.0
_OLDEST = (2, 32)
_HEADS = "refs/heads/"
_PUSH = (
    "push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-signed",
    "--recurse-submodules=no",
)  # fmt: skip
_FETCH = (
    "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules",
    "--no-auto-maintenance",
)  # fmt: skip
BEATEN = (
    "{branch} at {url} {now}, {before}: somebody else changed it. Nothing was changed: {sha} is "
    "still to be pushed. Review the change there, rebase the work on it, and push again"
)
NOT_PUSHED = (
    "{url} has no branch {branch}, and {commit} is not here: it was removed there, or the machine "
    "that made it could not push. Push it from that machine (git push {url} {branch}), then try "
    "again"
)
ELSEWHERE = (
    "{branch} at {url} is at {theirs}, which does not hold {commit}: somebody else changed it "
    "there. Push that commit from the machine that made it, then try again"
)
LED_AWAY = (
    "{folder} is or lies behind a symbolic link, so fetched refs would be written elsewhere: "
    "remove it, and find out who created it"
)


@dataclass(frozen=True, slots=True)
class PushOutcome:
    """Whether the remote branch is at the commit now; if not, why, and what to do."""

    done: bool
    reason: str
    beaten: bool = False
    """Somebody else changed it, so that pushing again is in vain."""


def url_of(repo: Path, name: str = "origin", *, git: Git | None = None) -> str | None:
    """Read the address of a remote from the repository's configuration; None if it has none.

    Read it once, before any agent runs: agents can change it. It may contain a password.
    """
    place = locate(repo)
    if place is None:
        raise RepositoryError(NOT_A_REPOSITORY.format(path=repo))
    return (git or Git()).view_blocking(place).remotes.get(name)


class GitRemote:
    """One remote of one repository, at a fixed address."""

    def __init__(  # noqa: PLR0913  # each is one fact of where and how
        self,
        repo: Path,
        *,
        name: str = "origin",
        url: str | None,
        environ: Mapping[str, str],
        git: Git | None = None,
        timeout: float = TIMEOUT,
        own_edits: OwnEdits | None = None,
    ) -> None:
        """An unsupported address is reported by the methods that need it, not here."""
        self._repo = repo.resolve()
        self._git = git or Git(environ, home=self._repo / STATE_FOLDER / "git")
        self._environ = dict(environ)
        self._timeout = timeout
        self._branches = LocalBranches(self._repo, git=self._git, own_edits=own_edits)
        self._fetching: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._address: Address | None = None
        self._unfit = NO_ADDRESS.format(name=name)
        if url is not None:
            try:
                self._address = understood(url, self._repo)
            except RepositoryError as error:
                self._unfit = str(error)

    async def push(
        self,
        branch: str,
        sha: str,
        *,
        expected: str | None,
        header: Mapping[str, str],
        rehearse: bool = False,
    ) -> PushOutcome:
        """Set the remote branch to the commit, if it is at `expected` (None: does not exist).

        If it is there already, that counts as done. `header` holds authorization for https. With
        `rehearse` all is asked and nothing changes.
        """
        try:
            trip = self._trip(header)
            await self._require_sane(branch, sha, expected)
            ref, lease = _HEADS + branch, f"{_HEADS}{branch}:{expected or ''}"
            words = (f"--force-with-lease={lease}", "--end-of-options", trip.url, f"{sha}:{ref}")
            only = ("--dry-run",) if rehearse else ()
            result = await self._go(trip, *_PUSH, *only, *words)
            status = pushed(result.text, ref)
            if result.code == 0 and status.is_there:
                return PushOutcome(done=True, reason="")
            if status.is_stale:
                return await self._beaten(trip, branch, sha, expected)
        except RuntimeFault as error:
            return PushOutcome(done=False, reason=str(error))
        return PushOutcome(done=False, reason=trip.tell(f"does not take {branch}", result, status))

    async def push_refs(self, refs: Mapping[str, str], *, header: Mapping[str, str]) -> PushOutcome:
        """Set refs of ours there to these commits, losing nothing that they hold.

        What one holds there and its commit does not stays, and the commit goes to a ref beside it.
        """
        try:
            trip = self._trip(header)
            await self._require_ours(refs)
            result, left = await self._pushed_refs(trip, refs) if refs else (None, {})
            if result and result.stdout and left:
                beside = {f"{ref}-{sha[:12]}": sha for ref, sha in left.items()}
                result, left = await self._pushed_refs(trip, beside)
        except RuntimeFault as error:
            return PushOutcome(done=False, reason=str(error))
        if result and left:
            reason = trip.tell(f"does not take {', '.join(left)}", result)
            return PushOutcome(done=False, reason=reason)
        return PushOutcome(done=True, reason="")

    async def _pushed_refs(
        self, trip: Trip, refs: Mapping[str, str]
    ) -> tuple[GitResult, dict[str, str]]:
        """Push refs; return also those that are not there now."""
        words = (f"{sha}:{ref}" for ref, sha in refs.items())
        result = await self._go(trip, *_PUSH, "--end-of-options", trip.url, *words)
        told = {ref: pushed(result.text, ref) for ref in refs}
        return result, {ref: sha for ref, sha in refs.items() if not told[ref].is_there}

    async def fetch_refs(self, below: str, *, header: Mapping[str, str]) -> dict[str, str]:
        """Fetch the refs of ours below a name, which ends in a slash, as they are there."""
        trip = self._trip(header)
        if there := await self._refs_there(trip, below):
            # Without a local name: git would follow a ref that an agent made point elsewhere.
            result = await self._go(trip, *_FETCH, "--end-of-options", trip.url, *there)
            if result.code != 0:
                raise GitError(trip.tell(f"does not give {below}", result), code=result.code)
        for ref, sha in there.items():
            _clear(trip.place.common_dir, ref)
            await self._git.run("update-ref", "--no-deref", ref, sha, cwd=self._repo)
        return there

    async def remove_refs(self, below: str, *, header: Mapping[str, str]) -> None:
        """Remove the refs of ours below a name, which ends in a slash, there and here."""
        trip = self._trip(header)
        if there := await self._refs_there(trip, below):
            leases = (f"--force-with-lease={ref}:{sha}" for ref, sha in there.items())
            gone = (f":{ref}" for ref in there)
            result = await self._go(trip, *_PUSH, *leases, "--end-of-options", trip.url, *gone)
            if result.code != 0:
                raise GitError(trip.tell(f"does not remove {below}", result), code=result.code)
        await self.forget_refs(below)

    async def forget_refs(self, below: str) -> None:
        """Remove the refs of ours below a name here."""
        listed = await self._git.run("for-each-ref", "--format=%(refname)", below, cwd=self._repo)
        for ref in listed.text.splitlines():
            await self._git.run("update-ref", "--no-deref", "-d", ref, cwd=self._repo)

    async def _refs_there(self, trip: Trip, below: str) -> dict[str, str]:
        await self._require_ours({f"{below}x": None})
        words = ("ls-remote", "--refs", "--end-of-options", trip.url, f"{below}*")
        listed = await self._go(trip, *words)
        if listed.code != 0:
            raise GitError(trip.tell(f"does not list {below}", listed), code=listed.code)
        rows = (line.partition("\t") for line in listed.text.splitlines())
        return {ref: sha for sha, _, ref in rows if ref.startswith(below)}

    async def _require_ours(self, refs: Mapping[str, str | None]) -> None:
        for ref, sha in refs.items():
            if not ref.startswith(OWN_REFS):
                raise BranchError(f"{ref!r} is not one of the runner's own refs ({OWN_REFS})")
            await self._require_sane(ref.removeprefix("refs/"), sha or None)

    async def remove(self, branch: str, *, expected: str, header: Mapping[str, str]) -> PushOutcome:
        """Remove the remote branch, if it is at `expected`."""
        try:
            trip = self._trip(header)
            await self._require_sane(branch, expected)
            lease = f"--force-with-lease={_HEADS}{branch}:{expected}"
            words = (lease, "--end-of-options", trip.url, f":{_HEADS}{branch}")
            result = await self._go(trip, *_PUSH, *words)
        except RuntimeFault as error:
            return PushOutcome(done=False, reason=str(error))
        if result.code == 0:
            return PushOutcome(done=True, reason="")
        return PushOutcome(done=False, reason=trip.tell(f"does not remove {branch}", result))

    async def fetch(self, branch: str, *, header: Mapping[str, str]) -> str | None:
        """Fetch the branch's newest commit and return it; None if there is no such branch.

        It is kept under `refs/loopwright/remote/<branch>`; nothing else changes locally. Any other
        failure is a RuntimeFault.
        """
        trip = self._trip(header)
        await self._require_sane(branch)
        kept = REMOTE_REFS + branch
        words = ("--end-of-options", trip.url, f"+{_HEADS}{branch}:{kept}")
        async with self._fetching.setdefault(branch, asyncio.Lock()):
            _clear(trip.place.common_dir, kept)
            result = await self._go(trip, *_FETCH, *words)
            if _is_missing(result):
                return None
            if result.code != 0 and await self._made_room(kept):
                result = await self._go(trip, *_FETCH, *words)
            if result.code != 0:
                raise GitError(trip.tell(f"does not give {branch}", result), code=result.code)
            found = await self._git.run("show-ref", "--verify", "--hash", kept, cwd=self._repo)
        return found.text

    async def follow(self, branch: str, sha: str) -> bool:
        """Fast-forward the local branch to the commit; whether it contains it now.

        A branch with commits of its own, or with uncommitted changes in its checkout, stays as it
        is.
        """
        # If git fails, the branch stays where it is.
        with suppress(RuntimeFault):
            return await self._branches.forward(branch, sha)
        return False

    async def bring(self, branch: str, commit: str, *, header: Mapping[str, str]) -> None:
        """Have the local branch at a commit that was pushed; RuntimeFault says why it is not.

        Asks the remote only if the commit is not here. A branch that is beyond the commit stays,
        and one with other commits is kept under a saved ref first.
        """
        await self._require_sane(branch)
        if await self._branches.head(branch) == commit:
            return
        if not await self._branches.commit_exists(commit):
            theirs = await self.fetch(branch, header=header)
            url = self._address.url if self._address is not None else ""
            if theirs is None:
                raise BranchError(NOT_PUSHED.format(url=url, branch=branch, commit=commit))
            if not await self._branches.holds(theirs, commit):
                told = ELSEWHERE.format(url=url, branch=branch, theirs=theirs, commit=commit)
                raise BranchError(told)
        await self._branches.take(branch, commit)

    async def holds(self, commit: str, other: str) -> bool:
        """Tell whether a commit has the other among its ancestors; both are local."""
        return await self._branches.holds(commit, other)

    def _trip(self, header: Mapping[str, str]) -> Trip:
        if self._address is None:
            raise RepositoryError(self._unfit)
        place = locate(self._repo)
        if place is None:
            raise RepositoryError(NOT_A_REPOSITORY.format(path=self._repo))
        return plan_trip(self._address, place, header, self._environ)

    async def _go(self, trip: Trip, *args: str) -> GitResult:
        await self._git.require(_OLDEST, f"git {args[0]}", cwd=self._repo)
        try:
            return await self._git.run(
                *args, cwd=self._repo, env=trip.env, check=False, timeout=self._timeout
            )
        except GitError as error:
            words = cleaned(str(error).partition("\nby hand: ")[0], trip.secrets)
        if "did not end within" in words:
            words += " Check whether the host answers; it is safe to retry"
        # Not from within the handler: the first error may contain the token.
        raise GitError(f"{trip.url}: {words}")

    async def _beaten(self, trip: Trip, branch: str, sha: str, expected: str | None) -> PushOutcome:
        """Say where the remote branch is, as it is not at the expected commit."""
        ref = _HEADS + branch
        listed = await self._go(trip, "ls-remote", "--refs", "--end-of-options", trip.url, ref)
        lines = (line.partition("\t") for line in listed.text.splitlines())
        tip = {name: tip for tip, _, name in lines}.get(ref)
        if tip == sha:
            return PushOutcome(done=True, reason="")
        now = f"is at {tip}"
        if tip is None:
            now = "is elsewhere" if listed.code else "is not there any more"
        before = f"and was last at {expected}" if expected else "and was not there before"
        reason = BEATEN.format(branch=branch, url=trip.url, now=now, before=before, sha=sha)
        return PushOutcome(done=False, reason=reason, beaten=True)

    async def _require_sane(self, branch: str, *commits: str | None) -> None:
        asked = ("check-ref-format", _HEADS + branch)
        valid = await self._git.run(*asked, cwd=self._repo, check=False)
        if valid.code != 0 or branch.startswith("-"):
            raise BranchError(f"{branch!r} is not a valid branch name")
        for commit in commits:
            if commit is not None and not SHA.fullmatch(commit):
                raise BranchError(f"{commit!r} is not a full commit id")
        if commits and commits[0] and not await self._branches.commit_exists(commits[0]):
            raise BranchError(f"there is no commit {commits[0]} in {self._repo} to push")

    async def _made_room(self, kept: str) -> bool:
        """Delete refs of removed branches that conflict: `a` and `a/b` cannot both exist."""
        listed = await self._git.run(
            "for-each-ref", "--format=%(refname)", REMOTE_REFS, cwd=self._repo
        )
        in_the_way = [
            ref
            for ref in listed.text.splitlines()
            if kept.startswith(f"{ref}/") or ref.startswith(f"{kept}/")
        ]
        for ref in in_the_way:
            await self._git.run("update-ref", "--no-deref", "-d", ref, cwd=self._repo)
        return bool(in_the_way)


def _is_missing(result: GitResult) -> bool:
    return result.code != 0 and "couldn't find remote ref" in result.stderr


def _clear(common_dir: Path, kept: str) -> None:
    """Remove a lock or link that a killed git or an agent left in place of the ref."""
    path = (common_dir / "refs").resolve() / kept.removeprefix("refs/")
    if path.parent.resolve() != path.parent:
        raise GitError(LED_AWAY.format(folder=path.parent))
    with suppress(OSError):
        path.with_name(f"{path.name}.lock").unlink()
    if path.is_symlink() or (read_small(path) or b"").startswith(b"ref:"):
        # git would follow it, and change another branch.
        path.unlink(missing_ok=True)
