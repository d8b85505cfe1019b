"""Gitea and Forgejo: checks, pull requests, reviews, merges, webhooks, and the sign-in.

Owns the order of the variables. Loads the rest of the forge only when it is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci.forge.sign_in import TokenSignIn, tokens
from ci.forge_registry import ForgeKind, token_variable

if TYPE_CHECKING:
    from ci.forge.protocol import Forge
    from ci.forge.rest import Connection
    from ci.forge.sign_in import SignInContext

VARIABLES = (token_variable("gitea"), "GITEA_TOKEN", "FORGEJO_TOKEN")


def token_sign_in(source: str, token: str) -> TokenSignIn:
    """Return the sign-in of a token; the git server ignores the user name."""
    return TokenSignIn(source, token, {"Authorization": f"token {token}"}, "oauth2")


def sign_in(context: SignInContext) -> TokenSignIn | None:
    """Return how to sign in; None if no variable holds a token. All hosts share the variables."""
    found = tokens(context.environ, VARIABLES)
    return next((token_sign_in(*each) for each in found.items()), None)


def _make(connection: Connection) -> Forge:
    from ci.gitea.forge import GiteaForge  # noqa: PLC0415  # loaded only where it is used

    return GiteaForge(connection)


DESCRIPTION = ForgeKind(
    name="gitea",
    hosts={"codeberg.org": (), "gitea.com": ()},
    words=("gitea", "forgejo", "codeberg"),
    token_variables=VARIABLES,
    api="{}/api/v1".format,
    answers_with=("/version", "version"),
    sign_in=sign_in,
    make=_make,
)
