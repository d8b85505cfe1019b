"""How we sign in at a GitLab: which variable holds the token, and which headers it makes.

Owns the order of the variables. Must not print, log or keep a token anywhere else.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLES = ("LOOPWRIGHT_GITLAB_TOKEN", "GITLAB_TOKEN")
_HOSTS = ("GITLAB_HOST", "GL_HOST")
"""By which glab's users say whose token `GITLAB_TOKEN` is."""
_OAUTH = re.compile(r"[0-9a-f]{64}|eyJ[\w-]+\.[\w-]+\.[\w-]+")
_JOB = "glcbt-"


@dataclass(frozen=True, slots=True)
class GitLabSignIn:
    """A token and the headers made of it."""

    source: str
    """The variable that it comes from."""
    token: str = field(repr=False)

    async def sign(self) -> Mapping[str, str]:
        """Return the header of an API request."""
        if self.token.startswith(_JOB):
            return {"JOB-TOKEN": self.token}
        if _OAUTH.fullmatch(self.token):
            return {"Authorization": f"Bearer {self.token}"}
        return {"PRIVATE-TOKEN": self.token}

    def git_header(self) -> Mapping[str, str]:
        """Return the header of a git push or fetch over HTTPS."""
        user = "gitlab-ci-token" if self.token.startswith(_JOB) else "oauth2"
        pair = base64.b64encode(f"{user}:{self.token}".encode()).decode("ascii")
        return {"Authorization": f"Basic {pair}"}


def sign_in(environ: Mapping[str, str], host: str) -> GitLabSignIn | None:
    """Return how to sign in at the host; None if no variable holds a token for it."""
    for name in VARIABLES:
        token = environ.get(name, "").strip()
        if not token or (name == "GITLAB_TOKEN" and not _meant_for(environ, host)):
            continue
        return GitLabSignIn(source=name, token=token)
    return None


def _meant_for(environ: Mapping[str, str], host: str) -> bool:
    # A token that was set up for another GitLab is not ours to show to this one.
    named = [_bare(environ[name]) for name in _HOSTS if environ.get(name, "").strip()]
    return not named or _bare(host) in named


def _bare(host: str) -> str:
    return host.strip().lower().partition("://")[2].strip("/") or host.strip().lower().strip("/")
