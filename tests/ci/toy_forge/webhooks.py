"""How the toy signs and words its webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci.webhook_delivery import Hint
from ci.webhooks.signatures import is_signed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HEADERS = frozenset({"x-toy-event"})
EVENT_HEADER = "x-toy-event"


def signed(headers: Mapping[str, str], raw: bytes, secrets: Sequence[str], *, now: float) -> bool:
    del now
    return is_signed(headers.get("x-toy-signature", ""), raw, secrets)


def identity(headers: Mapping[str, str], raw: bytes) -> str:
    del headers, raw
    return ""


def event(headers: Mapping[str, str], body: dict[str, Any]) -> str:
    del body
    return headers.get(EVENT_HEADER, "")


def hint(headers: Mapping[str, str], body: dict[str, Any]) -> Hint | None:
    del headers
    return Hint(branch=str(body["branch"]))
