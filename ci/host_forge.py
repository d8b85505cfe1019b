"""Which forge a host runs whose name does not tell it: each is asked what only it answers.

Sends no token and follows nothing.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from ci.errors import ForgeError
from ci.forge_registry import forge_kinds
from ci.http.connections import connect, parse_address, receive, send, within
from ci.http.response import HIDDEN_IN, RequestContext

if TYPE_CHECKING:
    from ci.forge_registry import ForgeKind

PATIENCE = 3.0
"""Seconds for the host to answer."""


async def forge_at(web: str) -> str | None:
    """Return the forge whose pages are at this address; None if none of ours answers there."""
    kinds = forge_kinds()
    found = await asyncio.gather(*(_answers(kind, web) for kind in kinds))
    return next((kind.name for kind, there in zip(kinds, found, strict=True) if there), None)


async def _answers(kind: ForgeKind, web: str) -> bool:
    path, mark = kind.answers_with
    try:
        address = parse_address(kind.api(web) + path)
        context = RequestContext("GET", address.netloc.decode("ascii"), path, "", {})
        async with within(context, PATIENCE), connect(context, address) as connections:
            incoming = await send(connections, context, address, {}, idle=PATIENCE)
            raw = await receive(context, incoming, HIDDEN_IN, None)
    except ForgeError:
        return False
    return mark in raw.headers or mark in _fields(raw.body)


def _fields(body: bytes) -> dict[str, Any]:
    try:
        read = json.loads(body)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}
