"""The webhooks of a project on GitLab, with their last deliveries where the server tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci.errors import ForbiddenError, MissingError
from ci.forge.hooks import LAST, ForgeHook, SentDelivery, is_for_us
from ci.forge.json_fields import at, number, text
from ci.gitlab import webhooks

if TYPE_CHECKING:
    from ci.http.client import HttpClient


async def hooks_of(http: HttpClient, project: str, of: str) -> tuple[ForgeHook, ...]:
    """Return those that are sent to us; ForbiddenError if the token may not see them."""
    found = []
    for hook in await http.get_all(f"{project}/hooks", params={"per_page": 100}):
        url = text(hook, "url")
        if is_for_us(url, "gitlab"):
            # GitLab disables a hook that fails again and again.
            active = text(hook, "alert_status") in {"", "executable"}
            sent = await _sent(http, f"{project}/hooks/{number(hook, 'id')}/events")
            found.append(ForgeHook(url=url, of=of, active=active, deliveries=sent))
    return tuple(found)


async def _sent(http: HttpClient, path: str) -> tuple[SentDelivery, ...] | None:
    try:
        told = await http.get_all(path, params={"per_page": LAST}, most=LAST)
    except (ForbiddenError, MissingError):
        # Servers before 17.3 do not tell.
        return None
    return tuple(map(_one, told))


def _one(row: object) -> SentDelivery:
    headers: Any = at(row, "request_headers")
    named = {str(name): str(value) for name, value in headers.items()} if headers else {}
    return SentDelivery(
        id=webhooks.identity(named, b""),
        event=text(row, "trigger"),
        answer=text(row, "response_status"),
    )
