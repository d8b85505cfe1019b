"""GitLab: checks, merge requests, reviews, merges, webhooks, and the sign-in.

Owns the order of the variables and the headers of each kind of token. Loads the rest of the forge
only when it is made.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci.forge.sign_in import TokenSignIn, bearer, tokens
from ci.forge_registry import ForgeKind, token_variable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci.forge.protocol import Forge
    from ci.forge.rest import Connection
    from ci.forge.sign_in import SignInContext

SHARED = "GITLAB_TOKEN"
VARIABLES = (token_variable("gitlab"), SHARED)
_HOSTS = ("GITLAB_HOST", "GL_HOST")
"""By which users of glab say which host `GITLAB_TOKEN` is for."""
_OAUTH = re.compile(r"[0-9a-f]{64}|eyJ[\w-]+\.[\w-]+\.[\w-]+")
_JOB = "glcbt-"


def token_sign_in(source: str, token: str) -> TokenSignIn:
    """Return the sign-in of a token: of a person, of an application, of a job."""
    if token.startswith(_JOB):
        return TokenSignIn(source, token, {"JOB-TOKEN": token}, "gitlab-ci-token")
    header = bearer(token) if _OAUTH.fullmatch(token) else {"PRIVATE-TOKEN": token}
    return TokenSignIn(source, token, header, "oauth2")


def sign_in(context: SignInContext) -> TokenSignIn | None:
    """Return how to sign in at the host; None if no variable holds a token for it."""
    for name, token in tokens(context.environ, VARIABLES).items():
        if name != SHARED or _meant_for(context.environ, context.host):
            return token_sign_in(name, token)
    return None


def _meant_for(environ: Mapping[str, str], host: str) -> bool:
    # A token for another GitLab must not be shown to this one.
    named = [_bare(each) for each in tokens(environ, _HOSTS).values()]
    return not named or _bare(host) in named


def _bare(host: str) -> str:
    return host.strip().lower().partition("://")[2].strip("/") or host.strip().lower().strip("/")


def _make(connection: Connection) -> Forge:
    from ci.gitlab.forge import GitLabForge  # noqa: PLC0415  # loaded only where it is used

    return GitLabForge(connection)


DESCRIPTION = ForgeKind(
    name="gitlab",
    hosts={"gitlab.com": ("www.gitlab.com", "altssh.gitlab.com")},
    words=("gitlab",),
    token_variables=VARIABLES,
    api="{}/api/v4".format,
    answers_with=("/version", "x-gitlab-meta"),
    sign_in=sign_in,
    make=_make,
)
