"""One client for each forge and account, so that all repositories of a process count together.

Owns which requests share connections, a cache and a rate budget: those to one address with one
account. Must not know any forge, nor hold a token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci.http.client import HttpClient

    Key = tuple[str, str]


class OfAccount(Protocol):
    """A way to sign in."""

    @property
    def account(self) -> str:
        """The same for all that share a rate limit; empty where nobody can know."""
        ...


_S = TypeVar("_S", bound=OfAccount)


class SharedClients:
    """The clients of a process that several repositories use; each repository closes its own use.

    Sign-ins of one account at one address are one, too: a token that is replaced is so for all.
    """

    def __init__(self) -> None:
        self._clients: dict[Key, HttpClient] = {}
        self._sign_ins: dict[Key, Any] = {}

    def sign_in(self, api: str, signed: _S) -> _S:
        """Return the sign-in of the same account that came first, else this one."""
        if not signed.account:
            return signed
        first: _S = self._sign_ins.setdefault((api, signed.account), signed)
        return first

    def client(self, api: str, account: str, make: Callable[[], HttpClient]) -> HttpClient:
        """Return the client of this account, made where there is none; count who uses it."""
        found = self._clients.get((api, account)) if account else None
        if found is None:
            found = make()
            if account:
                self._clients[api, account] = found
        else:
            found.share()
        return found
