"""How we sign in at GitHub: a token from the environment, from `gh`, or of a GitHub App.

Owns the order of the places where a token may be, and how long one is believed. Tokens stay in
memory: they are never printed, logged or written, and no error shows one.
"""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Protocol

from ci.errors import UnauthorizedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    Run = Callable[[Sequence[str]], Awaitable[tuple[int, str]]]
    """Runs a program without a shell; returns its exit code and what it printed."""

OURS = "LOOPWRIGHT_GITHUB_TOKEN"
VARIABLES = (OURS, "GITHUB_TOKEN", "GH_TOKEN")
ENTERPRISE_VARIABLES = (OURS, "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
"""For hosts of one's own: a token for github.com is not theirs to see."""


class SignIn(Protocol):
    """A way to sign in at GitHub."""

    @property
    def source(self) -> str:
        """Where the token comes from, for people."""
        ...

    async def sign(self) -> Mapping[str, str]:
        """Return the header of an API request."""
        ...

    async def git_header(self) -> Mapping[str, str]:
        """Return the header of a git push or fetch over HTTPS."""
        ...

    def renew(self) -> bool:
        """Take note that the token was refused; says whether another may be had."""
        ...


class GitHubSignIn:
    """A token from the environment or, without one there, from the GitHub command line tool."""

    def __init__(self, environ: Mapping[str, str], host: str, *, run: Run | None = None) -> None:
        self._host = host.lower()
        self._run = run
        self._token = ""
        self._asking = asyncio.Lock()
        self._variable = ""
        for name in self._variables():
            if environ.get(name, "").strip():
                self._variable, self._token = name, environ[name].strip()
                break

    @property
    def source(self) -> str:
        """The variable, or the command that tells the token."""
        return self._variable or f"gh auth token --hostname {self._host}"

    async def sign(self) -> Mapping[str, str]:
        """Return the header of an API request."""
        return bearer(await self._get())

    async def git_header(self) -> Mapping[str, str]:
        """Return the header of a git push or fetch over HTTPS."""
        return basic(await self._get())

    def renew(self) -> bool:
        """Ask `gh` anew the next time; a variable stays what it is."""
        if self._variable:
            return False
        self._token = ""
        return self._run is not None

    async def _get(self) -> str:
        async with self._asking:
            if not self._token:
                self._token = await self._ask_gh()
        if not self._token.isascii() or not self._token.isprintable() or " " in self._token:
            raise UnauthorizedError(f"what {self.source} holds is no token: it has odd characters")
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
        public = self._host == "github.com" or self._host.endswith(".ghe.com")
        return VARIABLES if public else ENTERPRISE_VARIABLES


def bearer(token: str) -> Mapping[str, str]:
    """Return the header by which the API knows us."""
    return {"Authorization": f"Bearer {token}"}


def basic(token: str) -> Mapping[str, str]:
    """Return the header by which git's server knows us; it reads the password alone."""
    pair = base64.b64encode(f"x-access-token:{token}".encode()).decode("ascii")
    return {"Authorization": f"Basic {pair}"}
