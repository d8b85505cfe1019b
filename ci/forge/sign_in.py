"""Signing in at a forge: the protocol, its inputs, and a token from a variable.

Must not print, log or keep a token anywhere else.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from ci.http.circuit_breaker import CircuitBreakers

    Run = Callable[[Sequence[str]], Awaitable[tuple[int, str]]]
    """Runs a program without a shell; returns its exit code and what it printed."""


class SignIn(Protocol):
    """A way to sign in."""

    @property
    def source(self) -> str:
        """Where the token comes from, for people."""
        ...

    @property
    def account(self) -> str:
        """The same for all sign-ins that share a rate limit; empty where nobody can know."""
        ...

    async def sign(self) -> Mapping[str, str]:
        """Return the header of an API request."""
        ...

    async def git_header(self) -> Mapping[str, str]:
        """Return the header of a git push or fetch over HTTPS."""
        ...

    def renew(self) -> bool:
        """Record that the token was refused; return whether another one may be available."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInContext:
    """The inputs from which the way to sign in at one repository is chosen."""

    environ: Mapping[str, str]
    host: str
    repo: str = ""
    api: str = ""
    now: Callable[[], float] = lambda: 0.0
    breakers: CircuitBreakers | None = None
    run: Run | None = None
    folder: Path = Path()
    """The base of relative paths in the options."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings with the forge's name as prefix, without it."""


@dataclass(frozen=True, slots=True)
class TokenSignIn:
    """A fixed token, and the headers made from it."""

    source: str
    """The variable that it comes from."""
    token: str = field(repr=False)
    header: Mapping[str, str] = field(repr=False)
    git_user: str

    @property
    def account(self) -> str:
        """The token's fingerprint."""
        return fingerprint(self.token)

    async def sign(self) -> Mapping[str, str]:
        """Return the header of an API request."""
        return self.header

    async def git_header(self) -> Mapping[str, str]:
        """Return the header of a git push or fetch over HTTPS."""
        return basic(self.git_user, self.token)

    def renew(self) -> bool:
        """Return False: there is no other."""
        return False

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""


def tokens(environ: Mapping[str, str], variables: Iterable[str]) -> Mapping[str, str]:
    """Return the tokens that the variables hold, by their names and in their order."""
    found = {name: environ.get(name, "").strip() for name in variables}
    return {name: token for name, token in found.items() if token}


def fingerprint(token: str) -> str:
    """Return a text by which two tokens are known to be the same, and nothing else of them."""
    return hashlib.sha256(token.encode()).hexdigest()


def bearer(token: str) -> Mapping[str, str]:
    """Return the header that most APIs expect."""
    return {"Authorization": f"Bearer {token}"}


def basic(user: str, token: str) -> Mapping[str, str]:
    """Return the header that a git server expects."""
    pair = base64.b64encode(f"{user}:{token}".encode()).decode("ascii")
    return {"Authorization": f"Basic {pair}"}
