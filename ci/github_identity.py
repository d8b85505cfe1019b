"""Who we are on GitHub: the name that what we write bears.

Owns finding it out, once. Must not decide what follows from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci.errors import ForbiddenError, MissingError, RefusedError
from ci.forms import text

if TYPE_CHECKING:
    from ci.github_door import GitHubDoor

_VIEWER = "query { viewer { login } }"
_BOT = "[bot]"
_WITHHELD = (ForbiddenError, MissingError, RefusedError)


class Identity:
    """The user or the App's bot that the token belongs to."""

    def __init__(self, door: GitHubDoor) -> None:
        self._door = door
        self._name: str | None = None

    async def name(self) -> str:
        """Return the login; "" if GitHub does not tell it."""
        if self._name is None:
            self._name = await self._user() or await self._bot()
        return self._name

    async def _user(self) -> str:
        try:
            return text((await self._door.get("/user")).body, "login")
        except _WITHHELD:
            # An installation of a GitHub App is no user.
            return ""

    async def _bot(self) -> str:
        try:
            login = text(await self._door.graphql(_VIEWER), "data", "viewer", "login")
        except _WITHHELD:
            return ""
        # Without its mark it would be the name of a person.
        return f"{login.removesuffix(_BOT)}{_BOT}" if login else ""
