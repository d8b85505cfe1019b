"""How we sign in at GitHub: a token from the environment, from `gh`, or of a GitHub App.

Owns the order of the sources of a token, and how long one is used. Tokens stay in memory: they are
never printed, logged or written, and no error shows one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ci.errors import UnauthorizedError
from ci.forge.sign_in import basic, bearer, fingerprint, tokens
from ci.github import ENTERPRISE_VARIABLES, OWN_CLOUD, VARIABLES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ci.forge.sign_in import Run

GIT_USER = "x-access-token"
"""GitHub's git server ignores the user name."""


class GitHubSignIn:
    """A token from the environment or, without one there, from the GitHub command line tool."""

    def __init__(self, environ: Mapping[str, str], host: str, *, run: Run | None = None) -> None:
        self._host = host.lower()
        self._run = run
        self._asking = asyncio.Lock()
        found = tokens(environ, self._variables())
        self._variable, self._token = next(iter(found.items()), ("", ""))

    @property
    def source(self) -> str:
        """The variable, or the command that prints the token."""
        return self._variable or f"gh auth token --hostname {self._host}"

    @property
    def account(self) -> str:
        """The token's fingerprint; `gh` has one account for each host."""
        return fingerprint(self._token) if self._variable else f"gh {self._host}"

    async def sign(self) -> Mapping[str, str]:
        """Return the header of an API request."""
        return bearer(await self._get())

    async def git_header(self) -> Mapping[str, str]:
        """Return the header of a git push or fetch over HTTPS."""
        return basic(GIT_USER, await self._get())

    def renew(self) -> bool:
        """Ask `gh` again the next time; a variable does not change."""
        if self._variable:
            return False
        self._token = ""
        return self._run is not None

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""

    async def _get(self) -> str:
        async with self._asking:
            if not self._token:
                self._token = await self._ask_gh()
        if not self._token.isascii() or not self._token.isprintable() or " " in self._token:
            raise UnauthorizedError(
                f"{self.source} does not hold a valid token: it contains invalid characters"
            )
        return self._token

    async def _ask_gh(self) -> str:
        code, printed = 127, ""
        if self._run is not None:
            try:
                code, printed = await self._run(("gh", "auth", "token", "--hostname", self._host))
            except OSError:
                code = 127
        if code or not printed.strip():
            names = " or ".join(self._variables())
            raise UnauthorizedError(
                f"there is no token for {self._host}: set {names}, "
                f"or sign in with `gh auth login --hostname {self._host}`"
            )
        return printed.strip()

    def _variables(self) -> Sequence[str]:
        public = self._host == "github.com" or self._host.endswith(OWN_CLOUD)
        return VARIABLES if public else ENTERPRISE_VARIABLES
