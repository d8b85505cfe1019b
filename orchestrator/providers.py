"""Makes the CI providers that the settings name, and joins them into one.

Owns which address and which sign-in a provider gets. Asks nobody: what is wrong with a token shows
when it is used, and in `loopwright doctor`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci.local import LocalCIProvider
from ci.merging import Rules
from orchestrator.errors import ConfigError
from orchestrator.secrecy import learning
from runtime.masking import Masker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ci.forge import Forge
    from ci.interface import CIProvider
    from ci.remoteurl import RemoteUrl
    from lifecycle.settings import Settings
    from runtime.remotes import GitRemote

    Header = Callable[[], Awaitable[Mapping[str, str]]]

FORGES = ("github", "gitlab", "gitea")
GH_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Outside:
    """The outside world of one repository."""

    provider: CIProvider
    local: LocalCIProvider | None = None
    """The one that keeps pull requests on this machine, if it is among them."""
    remote: GitRemote | None = None
    repos: dict[str, str] = field(default_factory=dict)
    """owner/name by the name of the provider; a delivery about another repository is not ours."""
    forge: Forge | None = None
    signed_in_by: str = ""
    """Where the forge's token comes from, for people."""
    environ: Mapping[str, str] = field(default_factory=dict)

    def budgets(self) -> Mapping[str, int | None]:
        """Return how many requests the forge still allows, as it said last."""
        return {} if self.forge is None else {self.forge.name: self.forge.budget.remaining}

    def secrets_of(self, name: str) -> tuple[str, ...]:
        """Return the secrets that webhooks of a provider may be signed with."""
        from ci.receiver import secrets_of  # noqa: PLC0415  # only where hooks can come

        return secrets_of(self.environ, name)


@dataclass(frozen=True, slots=True)
class Makings:
    """What providers are made from."""

    repo: Path
    settings: Callable[[], Settings]
    environ: Mapping[str, str]
    now: Callable[[], float]
    masker: Masker = field(default_factory=Masker)
    """Learns what signs in at a forge, where that is in no variable."""

    def rules(self) -> Callable[[], Rules]:
        """Read the settings as far as a provider is concerned, once and for all.

        What is merged may change the settings file, and an agent may: a rule of merging must not
        be loosened by what it judges.
        """
        settings = self.settings()
        rules = Rules(
            require_ci=settings.require_ci,
            checks_grace=settings.checks_grace,
            auto_merge=settings.auto_merge,
            merge_method=settings.merge_method,
            required_reviews=settings.required_reviews,
            review_authors=settings.review_authors,
            wake_on_comments=settings.wake_on_comments,
            rerun_red=settings.rerun_red,
            wake_on_base_red=settings.wake_on_base_red,
            labels=settings.pull_request_labels,
        )
        return lambda: rules


def outside(makings: Makings) -> Outside:
    """Make what the settings name; ConfigError says what is missing for it."""
    settings = makings.settings()
    names = tuple(dict.fromkeys(settings.providers)) or ("local",)
    forges = [name for name in names if name in FORGES]
    if len(forges) > 1:
        raise ConfigError(
            f"providers names {' and '.join(forges)}: only one forge can keep the pull requests of "
            "a repository; keep one of them, with local or generic beside it"
        )
    keeper = _forge(makings, forges[0]) if forges else None
    local = None
    if "local" in names or not forges:
        local = _local(makings.repo, settings, keeps_pulls=not forges)
    judges: list[CIProvider] = []
    if keeper is not None and local is not None:
        judges.append(local)
    if "generic" in names:
        judges.append(_generic(makings))
    first = keeper.provider if keeper is not None else local
    if first is None:
        raise ConfigError(f"providers = {list(names)} names nobody who keeps pull requests")
    provider = first
    if judges:
        from ci.joined import JoinedProvider  # noqa: PLC0415  # only who joins some pays for it
        from ci.remote import RemoteProvider  # noqa: PLC0415  # as above

        provider = JoinedProvider(first, judges)
        if keeper is not None and isinstance(keeper.provider, RemoteProvider):
            # What it merges by itself must be green for all of them.
            keeper.provider.judges = tuple(judges)
    if keeper is None:
        return Outside(provider, local, environ=makings.environ)
    return Outside(
        provider,
        local,
        remote=keeper.remote,
        repos=keeper.repos,
        forge=keeper.forge,
        signed_in_by=keeper.signed_in_by,
        environ=makings.environ,
    )


def _local(repo: Path, settings: Settings, *, keeps_pulls: bool) -> LocalCIProvider:
    return LocalCIProvider(
        repo,
        test_command=settings.test_command,
        timeout=settings.gate_timeout,
        auto_merge=settings.auto_merge and keeps_pulls,
    )


def _generic(makings: Makings) -> CIProvider:
    from ci.generic import GenericProvider  # noqa: PLC0415  # only who wants it pays for it

    settings = makings.settings()
    return GenericProvider(
        rules=makings.rules(),
        poll_command=settings.ci_poll_command,
        expected=settings.expected_checks,
    )


def _forge(makings: Makings, name: str) -> Outside:
    # Nothing of this is needed where everything stays on this machine.
    from ci.breaker import Doors  # noqa: PLC0415  # as above
    from ci.remote import RemoteProvider  # noqa: PLC0415  # as above
    from ci.remoteurl import parse  # noqa: PLC0415  # as above
    from runtime.remotes import GitRemote, url_of  # noqa: PLC0415  # as above

    settings = makings.settings()
    url = url_of(makings.repo, settings.remote)
    address = parse(url) if url else None
    repo = settings.forge_repo or (address.path if address else "")
    api = settings.forge_url.rstrip("/") or (_api(name, address) if address else "")
    if not repo or not api:
        raise ConfigError(_nowhere(name, settings.remote, url))
    web_url = address.web if address else _web(api)
    doors = Doors()
    signed = _sign_in(makings, name, _Place(repo, api, web_url, address), doors)
    common: dict[str, Any] = {
        "repo": repo,
        "api": api,
        "web_url": web_url,
        "sign": signed.sign,
        "now": makings.now,
        "doors": doors,
    }
    forge = _made(name, common, signed.renew)
    return Outside(
        RemoteProvider(forge, rules=makings.rules(), header=signed.header, release=signed.release),
        remote=GitRemote(
            makings.repo,
            name=settings.remote,
            url=url,
            environ=makings.environ,
            timeout=settings.push_timeout,
        ),
        repos={name: repo},
        forge=forge,
        signed_in_by=signed.source,
    )


def _made(name: str, common: dict[str, Any], renew: Callable[[], bool] | None) -> Forge:
    if name == "github":
        from ci.github import GitHubForge  # noqa: PLC0415  # one of three

        return GitHubForge(**common, renew=renew)
    if name == "gitlab":
        from ci.gitlab import GitLabForge  # noqa: PLC0415  # as above

        return GitLabForge(**common)
    from ci.gitea import GiteaForge  # noqa: PLC0415  # as above

    return GiteaForge(**common)


# --- where and who ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Signed:
    """How requests and pushes are signed in."""

    sign: Header
    header: Header
    source: str
    renew: Callable[[], bool] | None = None
    release: Callable[[], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    repo: str
    api: str
    web_url: str
    address: RemoteUrl | None

    @property
    def host(self) -> str:
        return self.address.host if self.address else _host(self.api)


def _api(name: str, address: RemoteUrl) -> str:
    if name == "github":
        from ci.github_door import api_of  # noqa: PLC0415  # only who uses GitHub pays for it

        return api_of(address.web)
    return f"{address.web}/api/{'v4' if name == 'gitlab' else 'v1'}"


def _web(api: str) -> str:
    scheme, _, rest = api.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def _host(api: str) -> str:
    return api.partition("://")[2].partition("/")[0].rpartition("@")[2].partition(":")[0]


def _nowhere(name: str, remote: str, url: str | None) -> str:
    there = (
        f"its address does not name a repository on {name}" if url else "there is no such remote"
    )
    return (
        f"providers names {name}, but of the git remote {remote!r} {there}: add the remote "
        f"(git remote add {remote} URL), name another (remote = ...), or set forge_url and "
        'forge_repo; providers = ["local"] works without any'
    )


def _sign_in(makings: Makings, name: str, place: _Place, doors: object) -> _Signed:
    if name == "github":
        return _sign_in_at_github(makings, place, doors)
    if name == "gitlab":
        from ci.gitlab_auth import sign_in as at_gitlab  # noqa: PLC0415  # one of three

        signed = at_gitlab(makings.environ, place.host)
        if signed is None:
            raise ConfigError(_no_token("gitlab", place, "LOOPWRIGHT_GITLAB_TOKEN or GITLAB_TOKEN"))
        gitlab = signed
        return _Signed(gitlab.sign, _later(gitlab.git_header), gitlab.source)
    from ci.gitea_auth import sign_in as at_gitea  # noqa: PLC0415  # as above

    found = at_gitea(makings.environ, place.host)
    if found is None:
        names = "LOOPWRIGHT_GITEA_TOKEN, GITEA_TOKEN or FORGEJO_TOKEN"
        raise ConfigError(_no_token("gitea", place, names))
    gitea = found
    return _Signed(gitea.sign, _later(gitea.git_header), gitea.source)


def _sign_in_at_github(makings: Makings, place: _Place, doors: Any) -> _Signed:
    from ci.github_app import GitHubAppSignIn  # noqa: PLC0415  # only who uses GitHub pays for it
    from ci.github_auth import GitHubSignIn  # noqa: PLC0415  # as above

    settings = makings.settings()
    if settings.github_app_id:
        if not settings.github_app_key:
            raise ConfigError("github_app_id is set: github_app_key must name its key file")
        app = GitHubAppSignIn(
            app_id=settings.github_app_id,
            key_file=(makings.repo / Path(settings.github_app_key).expanduser()),
            repo=place.repo,
            api=place.api,
            now=makings.now,
            installation=settings.github_app_installation,
            doors=doors,
        )
        sign = learning(app.sign, makings.masker)
        return _Signed(sign, app.git_header, app.source, app.renew, app.aclose)
    token = GitHubSignIn(makings.environ, place.host, run=_runner(makings))
    sign = learning(token.sign, makings.masker)
    return _Signed(sign, token.git_header, token.source, token.renew)


def _runner(makings: Makings) -> Callable[[Sequence[str]], Awaitable[tuple[int, str]]]:
    async def run(command: Sequence[str]) -> tuple[int, str]:
        from runtime.shortrun import run_to_end  # noqa: PLC0415  # only where gh is asked

        try:
            ended = await run_to_end(
                command, cwd=makings.repo, env=makings.environ, data=None, seconds=GH_SECONDS
            )
        except OSError as error:
            return 127, str(error)
        return ended.code, ended.stdout.decode(errors="replace")

    return run


def _no_token(name: str, place: _Place, names: str) -> str:
    return (
        f"providers names {name}, and there is no token for {place.host}: set {names} (it is never "
        "written anywhere)"
    )


def _later(header: Callable[[], Mapping[str, str]]) -> Header:
    async def give() -> Mapping[str, str]:
        return header()

    return give
