"""One client for each forge and account, so that all repositories of a process count together.

Owns which requests share connections, a cache and a rate budget: those to one address with one
account. Must not know any forge, nor hold a token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci.forge.sign_in import SignIn
    from ci.http.client import HttpClient

    Key = tuple[str, str]


class SharedClients:
    """The clients of a process that several repositories use; each repository closes its own use.

    Sign-ins of one account at one address are one, too: a token that is replaced is so for all.
    """

    def __init__(self) -> None:
        self._clients: dict[Key, HttpClient] = {}
        self._sign_ins: dict[Key, SignIn] = {}

    def sign_in(self, api: str, signed: SignIn) -> SignIn:
        """Return the sign-in of the same account that came first, else this one."""
        return (
            self._sign_ins.setdefault((api, signed.account), signed) if signed.account else signed
        )

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
