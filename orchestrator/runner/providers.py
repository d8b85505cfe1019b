"""Creates the CI providers that the settings name, and joins them into one.

Owns which address and which sign-in a provider gets. Sends no request: a bad token shows when it
is used, and in `loopwright doctor`.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ci.composite.provider import CompositeProvider
from ci.errors import ForgeError, ProviderError
from ci.forge.merge_rules import Rules
from ci.forge.provider import RemoteProvider
from ci.forge.sign_in import SignInContext
from ci.forge_registry import FORGES, forge_kind
from ci.generic.provider import GenericProvider
from ci.http.circuit_breaker import CircuitBreakers
from ci.local.provider import LocalCIProvider
from ci.remote_url import parse
from ci.webhooks.receiver import secrets_of
from lifecycle.clock import SystemClock
from orchestrator.config.known_secrets import learning
from orchestrator.errors import ConfigError
from orchestrator.tasks.ticked_files import TickedFiles
from runtime.async_subprocess import run_to_end
from runtime.masking.masker import Masker
from runtime.remote.remote import GitRemote, url_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from ci.forge.protocol import Forge
    from ci.forge_registry import ForgeKind
    from ci.http.shared_clients import SharedClients
    from ci.interface import CIProvider
    from lifecycle.ports import Bring
    from lifecycle.settings import Settings


GH_SECONDS = 20.0


NAME_HOLDS = 600.0
"""Seconds for which the name that a forge has for the repository is cached."""


@dataclass(slots=True)
class RepositoryName:
    """What the repository is called: as it is set up here, and as the forge calls it now."""

    forge: Forge
    name: str
    now: Callable[[], float]
    _called: str = ""
    _until: float = 0.0

    async def has(self, name: str) -> bool:
        """Return whether the repository has this name."""
        if name.casefold() == self.name.casefold():
            return True
        if self.now() >= self._until:
            # Hooks of a whole organisation name many others.
            self._until = self.now() + NAME_HOLDS
            with contextlib.suppress(ForgeError):
                self._called = await self.forge.called()
        return name.casefold() == self._called.casefold()


@dataclass(frozen=True, slots=True)
class Providers:
    """The CI providers of one repository, and what belongs to them."""

    provider: CIProvider
    local: LocalCIProvider | None = None
    """The one that keeps pull requests on this machine, if it is among them."""
    remote: GitRemote | None = None
    repository: RepositoryName | None = None
    """At the forge."""
    forge: Forge | None = None
    signed_in_by: str = ""
    """Where the forge's token comes from, for people."""
    environ: Mapping[str, str] = field(default_factory=dict)
    git_header: Callable[[], Awaitable[Mapping[str, str]]] | None = None
    """What signs in at the forge's git."""

    def bring(self, inputs: ProviderInputs) -> Bring:
        """Return what has a branch here that a worker pushed to the remote."""

        async def brought(branch: str, commit: str) -> None:
            # Without a forge nothing signs in there, and the address may be read late.
            remote = self.remote or _remote(inputs, url_of(inputs.repo, inputs.settings().remote))
            header = await self.git_header() if self.git_header is not None else {}
            await remote.bring(branch, commit, header=header)

        return brought

    def budgets(self) -> Mapping[str, int | None]:
        """Return how many requests the forge still allows, as it said last."""
        return {} if self.forge is None else {self.forge.name: self.forge.budget.remaining}

    async def is_ours(self, sender: str, repo: str) -> bool:
        """Tell whether a webhook about this repository is about ours; empty if it names none."""
        if sender not in FORGES:
            # What reports to us without a forge has no names that we know.
            return True
        if self.forge is None or self.repository is None or sender != self.forge.name:
            return False
        return not repo or await self.repository.has(repo)

    def secrets_of(self, name: str) -> tuple[str, ...]:
        """Return the secrets that webhooks of a provider may be signed with."""
        return secrets_of(self.environ, name)


@dataclass(frozen=True, slots=True)
class ProviderInputs:
    """What providers are created from."""

    repo: Path
    settings: Callable[[], Settings]
    environ: Mapping[str, str]
    now: Callable[[], float]
    masker: Masker = field(default_factory=Masker)
    """Learns what signs in at a forge, where that is in no variable."""
    clients: SharedClients | None = None
    """Those of all repositories of this process."""

    def rules(self) -> Callable[[], Rules]:
        """Read the settings as far as a provider is concerned, once and for all.

        What is merged may change the settings file, and an agent may: a rule of merging must not
        be loosened by what it judges.
        """
        settings = self.settings()
        rules = Rules(
            require_ci=settings.require_ci,
            required_checks=settings.required_checks,
            ignore_checks=settings.ignore_checks,
            checks_grace=settings.checks_grace,
            auto_merge=settings.auto_merge,
            merge_method=settings.merge_method,
            required_reviews=settings.required_reviews,
            review_authors=settings.review_authors,
            review_authors_only=settings.review_authors_only,
            wake_on_comments=settings.wake_on_comments,
            rerun_red=settings.rerun_red,
            rerun_flaky=settings.rerun_flaky,
            wake_on_base_red=settings.wake_on_base_red,
            labels=settings.pull_request_labels,
            reviewers=settings.pull_request_reviewers,
            assignees=settings.pull_request_assignees,
            issue_comment=settings.issue_comment,
            issue_labels=settings.issue_labels_working,
            issue_close=settings.issue_close,
            draft_first=settings.draft_first,
            delete_head_branch=settings.delete_head_branch,
            behind_base=settings.behind_base,
        )
        return lambda: rules


def make_providers(inputs: ProviderInputs) -> Providers:
    """Make what the settings name; ConfigError says what is missing for it."""
    settings = inputs.settings()
    names = tuple(dict.fromkeys(settings.providers)) or ("local",)
    forges = [name for name in names if name in FORGES]
    if len(forges) > 1:
        raise ConfigError(
            f"providers names {' and '.join(forges)}: only one forge can keep the pull requests of "
            "a repository; keep one of them, with local or generic beside it"
        )
    keeper = _forge(inputs, forges[0]) if forges else None
    local = None
    if "local" in names or not forges:
        local = LocalCIProvider(
            inputs.repo,
            test_command=settings.test_command,
            timeout=settings.gate_timeout,
            auto_merge=settings.auto_merge and not forges,
        )
    judges: list[CIProvider] = []
    if keeper is not None and local is not None:
        judges.append(local)
    if "generic" in names:
        judges.append(
            GenericProvider(
                rules=inputs.rules(),
                poll_command=settings.ci_poll_command,
                expected=settings.expected_checks,
            )
        )
    first = keeper.provider if keeper is not None else local
    if first is None:
        raise ConfigError(f"providers = {list(names)} names no provider that keeps pull requests")
    provider = first
    if judges:
        provider = CompositeProvider(first, judges)
        if keeper is not None and isinstance(keeper.provider, RemoteProvider):
            # What it merges by itself must be green for all of them.
            keeper.provider.judges = tuple(judges)
    if keeper is None:
        return Providers(provider, local, environ=inputs.environ)
    return Providers(
        provider,
        local,
        remote=keeper.remote,
        repository=keeper.repository,
        forge=keeper.forge,
        signed_in_by=keeper.signed_in_by,
        environ=inputs.environ,
        git_header=keeper.git_header,
    )


def forge_of(inputs: ProviderInputs, name: str) -> Forge:
    """Return the forge of this repository alone, for a command that reads there; to be closed."""
    forge = _forge(inputs, name).forge
    if forge is None:
        raise ConfigError(f"there is no forge {name} for this repository")
    return forge


def bring_of(repo: Path, settings: Settings, masker: Masker, environ: Mapping[str, str]) -> Bring:
    """Return the same for a command: providers are made once something has to be fetched."""

    async def brought(branch: str, commit: str) -> None:
        inputs = ProviderInputs(repo, lambda: settings, environ, SystemClock().now, masker)
        providers = make_providers(inputs)
        try:
            await providers.bring(inputs)(branch, commit)
        finally:
            await providers.provider.aclose()

    return brought


def _remote(inputs: ProviderInputs, url: str | None) -> GitRemote:
    settings = inputs.settings()
    return GitRemote(
        inputs.repo,
        name=settings.remote,
        url=url,
        environ=inputs.environ,
        timeout=settings.push_timeout,
        own_edits=TickedFiles(inputs.repo),
    )


def _forge(inputs: ProviderInputs, name: str) -> Providers:
    settings = inputs.settings()
    url = url_of(inputs.repo, settings.remote)
    address = parse(url) if url else None
    repo = settings.forge_repo or (address.path if address else "")
    kind = forge_kind(name)
    api = settings.forge_url.rstrip("/") or (kind.api(address.web) if address else "")
    if not repo or not api:
        raise ConfigError(_nowhere(name, settings.remote, url))
    try:
        at = urlsplit(api)
    except ValueError as error:
        raise ConfigError(f"forge_url {api!r} is not a valid URL: {error}") from error
    clients, breakers = inputs.clients, CircuitBreakers()
    context = SignInContext(
        environ=inputs.environ,
        host=address.host if address else at.hostname or "",
        repo=repo,
        api=api,
        now=inputs.now,
        breakers=breakers,
        run=_runner(inputs),
        folder=inputs.repo,
        options=_options(settings, name),
    )
    try:
        signed = kind.sign_in(context)
    except ProviderError as missing:
        raise ConfigError(str(missing)) from missing
    if signed is None:
        raise ConfigError(_no_token(kind, context.host))
    if clients is not None:
        signed = clients.sign_in(api, signed)
    from ci.forge.rest import Connection  # noqa: PLC0415  # loads httpx: most runs ask no forge

    forge = kind.make(
        Connection(
            repo=repo,
            api=api,
            web_url=address.web if address else f"{at.scheme}://{at.netloc}",
            sign=learning(signed.sign, inputs.masker),
            now=inputs.now,
            renew=signed.renew,
            breakers=breakers,
            clients=clients,
            account=signed.account,
        )
    )
    return Providers(
        RemoteProvider(
            forge, rules=inputs.rules(), header=signed.git_header, release=signed.aclose
        ),
        remote=_remote(inputs, url),
        git_header=signed.git_header,
        repository=RepositoryName(forge, repo, inputs.now),
        forge=forge,
        signed_in_by=signed.source,
    )


# --- where and who ----------------------------------------------------------------------------


def _nowhere(name: str, remote: str, url: str | None) -> str:
    fault = f"does not point to a repository on {name}" if url else "does not exist"
    return (
        f"providers names {name}, but the git remote {remote!r} {fault}: add the remote "
        f"(git remote add {remote} URL), name another (remote = ...), or set forge_url and "
        'forge_repo; providers = ["local"] works without any'
    )


def _options(settings: Settings, name: str) -> Mapping[str, Any]:
    """Return the settings that are of this forge alone, by the rest of their names."""
    prefix = f"{name}_"
    return {
        field.removeprefix(prefix): getattr(settings, field)
        for field in type(settings).model_fields
        if field.startswith(prefix)
    }


def _runner(inputs: ProviderInputs) -> Callable[[Sequence[str]], Awaitable[tuple[int, str]]]:
    async def run(command: Sequence[str]) -> tuple[int, str]:
        try:
            ended = await run_to_end(
                command, cwd=inputs.repo, env=inputs.environ, data=None, seconds=GH_SECONDS
            )
        except OSError as error:
            return 127, str(error)
        return ended.code, ended.stdout.decode(errors="replace")

    return run


def _no_token(kind: ForgeKind, host: str) -> str:
    *others, last = kind.token_variables
    names = f"{', '.join(others)} or {last}" if others else last
    return (
        f"providers names {kind.name}, and there is no token for {host}: set {names} (it is never "
        "written anywhere)"
    )
