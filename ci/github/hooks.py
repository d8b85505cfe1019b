"""The webhooks of a repository on GitHub and of its organisation, with their last deliveries."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ci.errors import ForbiddenError, MissingError
from ci.forge.hooks import LAST, ForgeHook, HookPlace, KnownHooks, SentDelivery, hooks_at, is_for_us
from ci.forge.json_fields import at, epoch, number, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci.github.client import GitHubClient


async def hooks_of(api: GitHubClient, repo: str) -> KnownHooks:
    """Return those that are sent to us, also those of the organisation that owns it."""
    owner = repo.partition("/")[0]
    places = [HookPlace(repo, f"/repos/{repo}")]
    if not await _is_person(api, owner):
        places.append(HookPlace(f"the organisation {owner}", f"/orgs/{owner}"))
    return await hooks_at(places, partial(_hooks, api))


async def _is_person(api: GitHubClient, owner: str) -> bool:
    try:
        return text((await api.get(f"/users/{owner}")).body, "type") == "User"
    except (ForbiddenError, MissingError):
        return False


async def _hooks(api: GitHubClient, place: HookPlace) -> list[ForgeHook]:
    told = await api.get_all(f"{place.path}/hooks", params={"per_page": 100})
    found = []
    for hook in told:
        url = text(hook, "config", "url")
        if is_for_us(url, "github"):
            path = f"{place.path}/hooks/{number(hook, 'id')}/deliveries"
            sent = await api.get_all(path, params={"per_page": LAST}, most=LAST)
            deliveries = tuple(map(_sent, sent))
            active = at(hook, "active") is not False
            found.append(ForgeHook(url=url, of=place.of, active=active, deliveries=deliveries))
    return found


def _sent(row: Mapping[str, Any]) -> SentDelivery:
    event, action = text(row, "event"), text(row, "action")
    return SentDelivery(
        id=text(row, "guid"),
        event=f"{event}.{action}" if action else event,
        at=epoch(row, "delivered_at"),
        answer=" ".join(filter(None, (str(number(row, "status_code") or ""), text(row, "status")))),
    )
