"""The webhooks of a project on GitLab and of its groups, with their last deliveries."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ci.errors import ForbiddenError, MissingError
from ci.forge.hooks import LAST, ForgeHook, HookPlace, KnownHooks, SentDelivery, hooks_at, is_for_us
from ci.forge.json_fields import at, number, text
from ci.gitlab import webhooks

if TYPE_CHECKING:
    from ci.http.client import HttpClient


async def hooks_of(http: HttpClient, project: str, of: str) -> KnownHooks:
    """Return those that are sent to us, also those of each group that it is in."""
    places = [HookPlace(of, project)]
    if not await _is_of_person(http, project):
        places += [
            HookPlace(f"the group {group}", f"/groups/{quote(group, safe='')}")
            for group in _groups_of(of)
        ]
    return await hooks_at(places, partial(_hooks, http))


def _groups_of(project: str) -> list[str]:
    """Return the groups that a project is in, the nearest first: each has hooks of its own."""
    names = project.split("/")[:-1]
    return ["/".join(names[:count]) for count in range(len(names), 0, -1)]


async def _is_of_person(http: HttpClient, project: str) -> bool:
    try:
        return text((await http.get(project)).body, "namespace", "kind") == "user"
    except (ForbiddenError, MissingError):
        return False


async def _hooks(http: HttpClient, place: HookPlace) -> list[ForgeHook]:
    found = []
    for hook in await http.get_all(f"{place.path}/hooks", params={"per_page": 100}):
        url = text(hook, "url")
        if is_for_us(url, "gitlab"):
            # GitLab disables a hook that fails again and again.
            active = text(hook, "alert_status") in {"", "executable"}
            sent = await _sent(http, f"{place.path}/hooks/{number(hook, 'id')}/events")
            found.append(ForgeHook(url=url, of=place.of, active=active, deliveries=sent))
    return found


async def _sent(http: HttpClient, path: str) -> tuple[SentDelivery, ...] | None:
    try:
        told = await http.get_all(path, params={"per_page": LAST}, most=LAST)
    except (ForbiddenError, MissingError):
        # Servers before 17.3 do not tell.
        return None
    sent = tuple(map(_one, told))
    # Servers before 17.4 tell nothing by which a delivery is known again.
    return None if sent and not any(each.id for each in sent) else sent


def _one(row: object) -> SentDelivery:
    headers: Any = at(row, "request_headers")
    named = {str(name): str(value) for name, value in headers.items()} if headers else {}
    return SentDelivery(
        id=webhooks.given_id(named),
        event=text(row, "trigger"),
        answer=text(row, "response_status"),
    )
