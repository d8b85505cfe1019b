"""The webhooks of a repository on Gitea or Forgejo and of its organisation.

Their API does not tell what became of the deliveries.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ci.errors import ForbiddenError, MissingError
from ci.forge.hooks import ForgeHook, HookPlace, KnownHooks, hooks_at, is_for_us
from ci.forge.json_fields import flag, text

if TYPE_CHECKING:
    from ci.http.client import HttpClient


async def hooks_of(http: HttpClient, at: str, repo: str) -> KnownHooks:
    """Return those that are sent to us, also those of the organisation that owns it."""
    owner = repo.partition("/")[0]
    places = [HookPlace(repo, at)]
    if not await _is_person(http, owner):
        places.append(HookPlace(f"the organisation {owner}", f"/orgs/{owner}"))
    return await hooks_at(places, partial(_hooks, http))


async def _is_person(http: HttpClient, owner: str) -> bool:
    try:
        await http.get(f"/orgs/{owner}")
    except ForbiddenError:
        return False  # the token is not told
    except MissingError:
        return True
    return False


async def _hooks(http: HttpClient, place: HookPlace) -> list[ForgeHook]:
    told = await http.get_all(f"{place.path}/hooks", params={"limit": 50})
    return [
        ForgeHook(url=url, of=place.of, active=flag(hook, "active"))
        for hook in told
        if is_for_us(url := text(hook, "config", "url"), "gitea")
    ]
