"""The webhooks of a repository on GitHub and of its organisation, with their last deliveries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci.errors import ForbiddenError, MissingError
from ci.forge.hooks import LAST, ForgeHook, SentDelivery, is_for_us
from ci.forge.json_fields import at, epoch, number, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci.github.client import GitHubClient


async def hooks_of(api: GitHubClient, repo: str) -> tuple[ForgeHook, ...]:
    """Return those that are sent to us; ForbiddenError if the token may not see them."""
    owner = repo.partition("/")[0]
    found = await _hooks(api, f"/repos/{repo}", repo)
    try:
        found += await _hooks(api, f"/orgs/{owner}", owner)
    except (ForbiddenError, MissingError):
        # The owner is a person, or we do not administer the organisation.
        return tuple(found)
    return tuple(found)


async def _hooks(api: GitHubClient, place: str, of: str) -> list[ForgeHook]:
    told = await api.get_all(f"{place}/hooks", params={"per_page": 100})
    found = []
    for hook in told:
        url = text(hook, "config", "url")
        if is_for_us(url, "github"):
            path = f"{place}/hooks/{number(hook, 'id')}/deliveries"
            sent = await api.get_all(path, params={"per_page": LAST}, most=LAST)
            deliveries = tuple(map(_sent, sent))
            active = at(hook, "active") is not False
            found.append(ForgeHook(url=url, of=of, active=active, deliveries=deliveries))
    return found


def _sent(row: Mapping[str, Any]) -> SentDelivery:
    event, action = text(row, "event"), text(row, "action")
    return SentDelivery(
        id=text(row, "guid"),
        event=f"{event}.{action}" if action else event,
        at=epoch(row, "delivered_at"),
        answer=" ".join(filter(None, (str(number(row, "status_code") or ""), text(row, "status")))),
    )
