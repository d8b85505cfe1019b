"""The webhooks of a repository on Gitea or Forgejo and of its organisation.

Their API does not tell what became of the deliveries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci.errors import ForbiddenError, MissingError
from ci.forge.hooks import ForgeHook, is_for_us
from ci.forge.json_fields import flag, text

if TYPE_CHECKING:
    from ci.http.client import HttpClient


async def hooks_of(http: HttpClient, at: str, repo: str) -> tuple[ForgeHook, ...]:
    """Return those that are sent to us; ForbiddenError if the token may not see them."""
    owner = repo.partition("/")[0]
    found = await _hooks(http, at, repo)
    try:
        found += await _hooks(http, f"/orgs/{owner}", owner)
    except (ForbiddenError, MissingError):
        # The owner is a person, or we do not administer the organisation.
        return tuple(found)
    return tuple(found)


async def _hooks(http: HttpClient, place: str, of: str) -> list[ForgeHook]:
    told = await http.get_all(f"{place}/hooks", params={"limit": 50})
    return [
        ForgeHook(url=url, of=of, active=flag(hook, "active"))
        for hook in told
        if is_for_us(url := text(hook, "config", "url"), "gitea")
    ]
