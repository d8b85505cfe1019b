"""Who may write to a repository on Gitea or Forgejo, however old the server is.

Owns which of the server's answers is believed. The role of a person is known to administrators
only, and since 1.17; the list of those who may be assigned, who are those who may write, to every
reader, since 1.15.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ci.errors import ForbiddenError, MissingError
from ci.forge.json_fields import flag, rows, text
from ci.gitea.payloads import author_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ci.http.client import HttpClient

LASTS = 600.0
"""Seconds for which an answer is cached."""
_ROLES = frozenset({"write", "admin", "owner"})
_WITHHELD = (ForbiddenError, MissingError)


class GiteaWriters:
    """The people who may write to one repository."""

    def __init__(self, http: HttpClient, at: str, *, owner: str, now: Callable[[], float]) -> None:
        self._http = http
        self._at = at
        self._owner = owner.lower()
        self._now = now
        self._known: dict[str, tuple[float, bool]] = {}
        self._assignees: tuple[float, frozenset[str] | None] | None = None

    async def may_write(self, who: str, reviews: Iterable[dict[str, Any]]) -> bool:
        """Return whether this person may write; `reviews` are those of the pull request."""
        if not who:
            return False
        if who.lower() == self._owner:
            return True
        known = self._known.get(who)
        if known is not None and self._now() < known[0] + LASTS:
            return known[1]
        writes = await self._by_role(who)
        if writes is None:
            writes = await self._by_list(who)
        if writes is None:
            official = any(author_of(row) == who and flag(row, "official") for row in reviews)
            writes = official or await self._is_collaborator(who)
        self._known[who] = (self._now(), writes)
        return writes

    async def _by_role(self, who: str) -> bool | None:
        path = f"{self._at}/collaborators/{quote(who, safe='')}/permission"
        try:
            return text((await self._http.get(path)).body, "permission") in _ROLES
        except _WITHHELD:
            return None

    async def _by_list(self, who: str) -> bool | None:
        if self._assignees is None or self._now() >= self._assignees[0] + LASTS:
            self._assignees = (self._now(), await self._list())
        names = self._assignees[1]
        return None if names is None else who.lower() in names

    async def _list(self) -> frozenset[str] | None:
        try:
            listed = (await self._http.get(f"{self._at}/assignees")).body
        except _WITHHELD:
            return None
        return frozenset(text(row, "login").lower() for row in rows({"rows": listed}, "rows"))

    async def _is_collaborator(self, who: str) -> bool:
        """Ask the only thing that the oldest servers tell: also those who may read are named."""
        try:
            await self._http.get(f"{self._at}/collaborators/{quote(who, safe='')}")
        except _WITHHELD:
            return False
        return True
