"""GitHub and GitHub Enterprise: checks, pull requests, reviews, merges, webhooks, and the sign-in.

Owns the choice between an App and a token, and the addresses of the API. Loads the rest of the
forge only when it is made.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ci.errors import ProviderError
from ci.forge_registry import ForgeKind, token_variable

if TYPE_CHECKING:
    from ci.forge.protocol import Forge
    from ci.forge.rest import Connection
    from ci.forge.sign_in import SignIn, SignInContext

OURS = token_variable("github")
VARIABLES = (OURS, "GITHUB_TOKEN", "GH_TOKEN")
ENTERPRISE_VARIABLES = (OURS, "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
"""For self-hosted servers: they must not see a token for github.com."""
ENTERPRISE_API = "/api/v3"
_CLOUD = "https://github.com"
OWN_CLOUD = ".ghe.com"


def api_of(web_url: str) -> str:
    """Return the API's address for the pages' address: of github.com, or self-hosted."""
    web_url = web_url.rstrip("/")
    if web_url == _CLOUD:
        return "https://api.github.com"
    if web_url.endswith(OWN_CLOUD):
        return web_url.replace("://", "://api.", 1)
    return web_url + ENTERPRISE_API


def sign_in(context: SignInContext) -> SignIn:
    """Return how to sign in: as an App if the settings name one, else by a token."""
    from ci.github.app import GitHubAppSignIn  # noqa: PLC0415  # loaded only where GitHub is used
    from ci.github.auth import GitHubSignIn  # noqa: PLC0415  # as above

    options = context.options
    if not options.get("app_id"):
        return GitHubSignIn(context.environ, context.host, run=context.run)
    if not options.get("app_key"):
        raise ProviderError("github_app_id is set: github_app_key must name its key file")
    return GitHubAppSignIn(
        app_id=options["app_id"],
        key_file=context.folder / Path(options["app_key"]).expanduser(),
        repo=context.repo,
        api=context.api,
        now=context.now,
        installation=options.get("app_installation"),
        breakers=context.breakers,
    )


def _make(connection: Connection) -> Forge:
    from ci.github.forge import GitHubForge  # noqa: PLC0415  # as above

    return GitHubForge(connection)


DESCRIPTION = ForgeKind(
    name="github",
    hosts={"github.com": ("www.github.com", "ssh.github.com")},
    words=("github", OWN_CLOUD),
    token_variables=tuple(dict.fromkeys((*VARIABLES, *ENTERPRISE_VARIABLES))),
    api=api_of,
    answers_with=("/meta", "verifiable_password_authentication"),
    sign_in=sign_in,
    make=_make,
)
