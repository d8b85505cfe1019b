"""One request to an address of a person's choice, such as a webhook that is told something.

Unlike a forge's client: nothing is signed for it here, nothing is cached, nothing is followed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ci.http.connections import connect, parse_address, receive, send, within
from ci.http.rate_limit import retry_after
from ci.http.response import HIDDEN_IN, RequestContext, lasts, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

_SAID = 200
OK, REDIRECTS = 200, 300


class PostRefusal(NamedTuple):
    """Why a request was not taken."""

    why: str
    wait: float
    """Seconds after which it may be repeated, if that was said; else 0."""
    lasts: bool
    """Whether the same request will be refused again."""
    status: int = 0
    """What was answered."""


async def post(  # noqa: PLR0913  # all but what is sent by name
    address: str,
    content: bytes,
    headers: Mapping[str, str],
    *,
    seconds: float,
    now: float,
    method: str = "POST",
) -> PostRefusal | None:
    """Send it; return why it was not taken, if it was not. Raises ForgeError without an answer.

    The path is not named in errors: it may be a secret.
    """
    to = parse_address(address)
    context = RequestContext(method, to.netloc.decode("ascii"), "", "check the address", {})
    async with within(context, seconds), connect(context, to) as connections:
        incoming = await send(connections, context, to, headers, content=content, idle=seconds)
        raw = await receive(context, incoming, HIDDEN_IN, None)
    if OK <= raw.status < REDIRECTS:
        return None
    said = one_line(raw.body.decode(errors="replace"), _SAID)
    why = f"{context.host} answered {raw.status}" + (f": {said}" if said else "")
    wait = (retry_after(raw.headers, now) or now) - now
    return PostRefusal(why, wait, lasts(raw.status), raw.status)
