"""Whether anything checks a branch on Gitea or Forgejo: the statuses of its newest commits.

The servers tell those of one commit at a time, so that an older one is asked about only once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci.errors import MissingError, RefusedError
from ci.forge.json_fields import rows, text
from ci.forge.protocol import COMMITS_LOOKED_AT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ci.events import Check
    from ci.http.client import HttpClient

_BRIEF: Mapping[str, str | int] = {
    "limit": COMMITS_LOOKED_AT, "stat": "false", "verification": "false", "files": "false",
}  # fmt: skip


class GiteaHistory:
    """The newest commits of the branches of one repository."""

    def __init__(
        self,
        http: HttpClient,
        at: str,
        *,
        checks: Callable[[str], Awaitable[tuple[Check, ...]]],
    ) -> None:
        self._http = http
        self._at = at
        self._checks = checks
        self._unchecked: dict[str, set[str]] = {}
        """By branch: older commits that were found to be without any status."""

    async def is_checked(self, branch: str) -> bool:
        """Return whether a status is on one of them; True where there are none."""
        try:
            told = await self._http.get(f"{self._at}/commits", params={"sha": branch, **_BRIEF})
        except (MissingError, RefusedError):
            return True
        shas = [text(row, "sha") for row in rows({"": told.body}, "")]
        known = self._unchecked.get(branch, set())
        # The newest one may still get its first status.
        for sha in [sha for sha in shas if sha == shas[0] or sha not in known]:
            if await self._checks(sha):
                return True
        self._unchecked[branch] = set(shas)
        return not shas
