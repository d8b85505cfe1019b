"""How we sign in at a Gitea or Forgejo: which variable holds the token, which headers it makes.

Owns the order of the variables. Must not print, log or keep a token anywhere else.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLES = ("LOOPWRIGHT_GITEA_TOKEN", "GITEA_TOKEN", "FORGEJO_TOKEN")


@dataclass(frozen=True, slots=True)
class GiteaSignIn:
    """A token and the headers made of it."""

    source: str
    """The variable that it comes from."""
    token: str = field(repr=False)

    async def sign(self) -> Mapping[str, str]:
        """Return the header of an API request."""
        return {"Authorization": f"token {self.token}"}

    def git_header(self) -> Mapping[str, str]:
        """Return the header of a git push or fetch over HTTPS; the server reads the password."""
        pair = base64.b64encode(f"oauth2:{self.token}".encode()).decode("ascii")
        return {"Authorization": f"Basic {pair}"}


def sign_in(environ: Mapping[str, str], host: str) -> GiteaSignIn | None:
    """Return how to sign in; None if no variable holds a token. All hosts share the variables."""
    del host
    for name in VARIABLES:
        token = environ.get(name, "").strip()
        if token:
            return GiteaSignIn(source=name, token=token)
    return None
